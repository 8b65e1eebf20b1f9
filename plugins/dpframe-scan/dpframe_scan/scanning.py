"""One scan: a package in its interpreter, the calls and searches, and the table of results."""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dpframe import DpframeError
from dpframe_scan import environment, findings
from dpframe_scan.callables import Target
from dpframe_scan.search import (
    BATCH,
    Cell,
    Found,
    Searcher,
    cells_of,
    claim_words,
    processor_seconds,
)
from dpframe_scan.trials import Called, Interpreter, PackageImportError, busyness, call

OF_TRIALS, LEAST_TRIAL = 0.2, 20.0
"""Trial calls end after this share of the time, and after no fewer seconds for a callable."""

_MODULES = """
import sys
from importlib import metadata
found = metadata.distribution(sys.argv[1])
tops = (found.read_text("top_level.txt") or "").split()
tops += [str(f).split("/")[0] for f in found.files or () if str(f).endswith("__init__.py")]
print("\\n".join(dict.fromkeys(t for t in tops if t.isidentifier())))
"""


class Package:
    """A package in an interpreter of its own, imported.

    Args:
        requirement: what to install: a name, perhaps with a version.
        python: an interpreter that has it; default: an environment is built.
        further: further requirements of that environment.
        module: the name of the package in Python; default: that of its distribution.
        notify: receives lines about the progress.

    Raises:
        DpframeError: it cannot be installed or imported.
    """

    def __init__(
        self,
        requirement: str,
        python: str | None,
        further: Sequence[str],
        module: str | None,
        notify: Callable[[str], None],
    ) -> None:
        if not re.match(r"[A-Za-z0-9]", requirement):
            raise DpframeError(f"{requirement!r} is not the name of a package")
        self.name = re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0]
        self.slug = re.sub(r"[^A-Za-z0-9._-]+", "-", requirement)
        self._notify = notify
        if python is not None and os.sep in python:
            python = str(Path(python).absolute())  # it runs in a folder of its own
        requirements = [requirement, *further]
        for number in range(environment.MOST_BUILDS):
            if python is None:
                notify(f"environment: {', '.join(requirements)}")
            own = python if python is not None else environment.built(requirements)
            self.python = own
            self.module = module or self._module_of(own)
            self.interpreter = Interpreter(own, self.module)
            try:
                self.targets, self.failed = self.interpreter.targets()
                break
            except PackageImportError as problem:
                self.interpreter.__exit__()
                installed = partial(environment.version_of, own)
                changed = environment.with_older(requirements, problem, installed)
                if python is not None or changed is None or number + 1 == environment.MOST_BUILDS:
                    advice = "" if python is not None else "; add requirements: --with"
                    text = f"{self.module} cannot be imported: {problem}{advice}"
                    raise DpframeError(text) from None
                notify(f"{self.module} cannot be imported: {problem}")
                requirements = changed
        self.version = environment.version_of(self.python, self.name)

    def __enter__(self) -> Package:
        return self

    def __exit__(self, *_: object) -> None:
        self.interpreter.__exit__()

    def _module_of(self, python: str) -> str:
        done = subprocess.run(
            [python, "-c", _MODULES, self.name], capture_output=True, text=True, check=False
        )
        names = done.stdout.split()
        usual = self.name.replace("-", "_")
        similar = [one for one in names if one.lower() == usual.lower()]
        return (similar or names or [usual])[0]

    def chosen(self, only: Sequence[str], given: Mapping[str, Any]) -> list[Target]:
        """Return the callables to scan, by name.

        Raises:
            DpframeError: assumptions name a callable that is not there.
        """
        known = {one.name for one in self.targets}
        if unknown := [name for name in given if name not in known]:
            raise DpframeError(f"there is no public callable {unknown[0]} in {self.module}")
        kept = [one for one in self.targets if one.is_audited or one.name in given]
        if only:
            kept = [one for one in kept if any(text in one.name for text in only)]
        return sorted(kept, key=lambda one: one.name)


def called(target: Target, package: Package, given: Mapping[str, Any], until: float) -> Called:
    """Find a way to call a callable; assumptions of a file are used as they are."""
    fields = given.get(target.name, {})
    if fields.get("skip"):
        return Called(target, None, "skipped", "the file of assumptions skips it")
    result = call(target, package.interpreter, until)
    if not fields:
        return result
    changed = findings.applied(result.proposal, target.name, fields)
    if changed is None or changed == result.proposal:
        return result
    outcome = package.interpreter.tried(changed)
    if "raised" in outcome:
        told = f"{outcome['raised']}: {outcome['message']}"
        return Called(target, None, "not called", f"as the file of assumptions says: {told}")
    return Called(
        target, changed, "release", "", (), outcome["kind"], outcome["cost"], outcome["first cost"]
    )


class Scan:
    """The calls and searches of one package, and their results.

    Args:
        package: the package.
        targets: the callables.
        given: assumptions of a file by callable.
        folder: for tests, assumptions and results.
        seconds: processor time of all searches.
        notify: receives lines about the progress.
    """

    def __init__(
        self,
        package: Package,
        targets: Sequence[Target],
        given: Mapping[str, Any],
        folder: Path,
        seconds: float,
        notify: Callable[[str], None],
    ) -> None:
        self._package, self._targets, self._given = package, targets, given
        self._folder, self._seconds, self._notify = folder, seconds, notify
        self._called: list[Called] = []
        self._results: list[Found] = []
        self._tests: dict[str, Path] = {}
        self._started, self._before = time.monotonic(), processor_seconds()

    @property
    def found(self) -> list[Found]:
        """The violations that depend on no guess."""
        return [one for one in self._results if one.accuses]

    @property
    def searched(self) -> int:
        """The number of searches that ended with a verdict."""
        return sum(one.verdict != "failed" for one in self._results)

    def run(self) -> None:
        """Call everything, then search; an interruption keeps what was done."""
        if not self._targets:
            self._write_assumptions()
            return
        limit = busyness() * max(LEAST_TRIAL, OF_TRIALS * self._seconds / len(self._targets))
        for number, target in enumerate(self._targets, 1):
            one = called(target, self._package, self._given, time.monotonic() + limit)
            self._called.append(one)
            self._notify(f"call {number}/{len(self._targets)} {target.name}: {one.outcome}")
        self._write_assumptions()
        releases = [one for one in self._called if one.outcome == "release"]
        releases.sort(key=lambda one: one.cost)  # the time that fast ones leave is for slow ones
        cells = cells_of(releases)
        package = self._package
        with Searcher(package.python, package.module, self._seconds, cells) as searcher:
            for first in range(0, len(releases), BATCH):
                some = cells_of(releases[first : first + BATCH])
                self._search(searcher, some, len(cells), str(first // BATCH))
            if few := searcher.again(self._results):
                self._notify(f"{len(few)} searches made few draws, and are repeated")
                self._search(searcher, few, len(few), "again")

    def _search(self, searcher: Searcher, cells: Sequence[Cell], total: int, name: str) -> None:
        """Search, and keep the results in place of earlier ones."""
        done = 0 if name == "again" else len(self._results)
        for number, (cell, result, record) in enumerate(searcher.run(cells), done + 1):
            self._results = [one for one in self._results if one.cell != cell] + [result]
            self._notify(f"search {number}/{total} {cell.label}: {verdict_words(result)}")
            if record is not None:
                kind = record.cells[0].search.neighbourhood.use if record.cells[0].search else ""
                self._write(f"records/{name}-{kind}-{cell.stage}.json", record.as_json())
            if result in _distinct(self._results):
                path = findings.written(cell, result, self._folder / "tests")
                self._tests[cell.label] = path

    def _write(self, name: str, content: Any) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
        path.write_text(text + "\n", encoding="utf-8")

    def _write_assumptions(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        text = findings.assumptions(self._called, self._package.module)
        (self._folder / "assumptions.toml").write_text(text, encoding="utf-8")

    def finish(self, width: int | None = None) -> str:
        """Write the results, and return them as text for a terminal of a width, if any."""
        self._write_assumptions()
        used = processor_seconds() - self._before
        rows = self._rows()
        self._write(
            "scan.json",
            {
                "package": self._package.name,
                "version": self._package.version,
                "not imported": self._package.failed,
                "processor seconds": round(used, 1),
                "seconds": round(time.monotonic() - self._started, 1),
                "callables": rows,
            },
        )
        return _table(rows, self._package, self._folder, used, width)

    def _rows(self) -> list[dict[str, Any]]:
        by_name: dict[str, list[Found]] = {}
        for one in self._results:
            by_name.setdefault(one.cell.called.target.name, []).append(one)
        return [self._row(one, by_name.get(one.target.name, [])) for one in self._called]

    def _row(self, one: Called, results: Sequence[Found]) -> dict[str, Any]:
        row: dict[str, Any] = {"callable": one.target.name, "outcome": one.outcome}
        if one.proposal is not None:
            row["claim"] = claim_words({k: v for k, v in one.proposal.claim.items() if v})
            row["assumed"] = one.proposal.sentences
        if one.outcome != "release":
            return row | {"verdict": one.outcome, "why": one.reason}
        violated = _distinct(results)
        row["verdict"] = _summary(results)
        row["findings"] = [
            {
                "verdict": verdict_words(result),
                "callable": result.cell.name,
                "event": result.event,
                "counts": result.counts,
                "pair": result.described,
                "d0": result.pair[0],
                "d1": result.pair[1],
                "test": str(self._tests.get(result.cell.label, "")),
            }
            for result in sorted(violated, key=lambda result: len(result.conditions))
        ]
        if not violated:
            row["why"] = "; ".join(_why(result) for result in results)
        return row


def _distinct(results: Sequence[Found]) -> list[Found]:
    """Return the violations; one beyond the bounds that needs no such record is a repetition."""
    violated = [one for one in results if one.verdict == "violated"]
    within = {one.cell.proposal.option for one in violated if one.cell.stage == "within"}
    return [
        one
        for one in violated
        if one.cell.stage == "within"
        or len(one.conditions) > len(one.cell.proposal.conditions)
        or one.cell.proposal.option not in within
    ]


def _why(found: Found) -> str:
    """Return the reason of a search without a violation, short."""
    option = f" {found.cell.proposal.option}" if found.cell.proposal.option else ""
    if found.verdict == "failed":
        return f"{found.cell.stage}{option}: {found.reason}"
    return f"{found.cell.stage}{option}: {found.draws:,} draws of each dataset"


def verdict_words(found: Found) -> str:
    """Return a verdict with its conditions."""
    if found.verdict == "violated" and found.conditions:
        return f"violated if {' and '.join(found.conditions)}"
    return found.verdict


ORDER = ("violated", "consistent", "inconclusive", "failed")


def _summary(results: Sequence[Found]) -> str:
    """Return the verdict of all searches of a callable: the worst one without a condition."""
    if not results:
        return "not searched"
    violated = [one for one in results if one.verdict == "violated"]
    if violated:
        return verdict_words(min(violated, key=lambda one: len(one.conditions)))
    return min((one.verdict for one in results), key=ORDER.index)


def _table(
    rows: Sequence[Mapping[str, Any]],
    package: Package,
    folder: Path,
    used: float,
    width: int | None,
) -> str:
    """Return the results as text of a width, if any; assumptions are numbered below."""
    notes: dict[str, int] = {}
    lines: list[tuple[str, str, str, str]] = [
        ("callable", "claim", "verdict", "witness, or reason")
    ]
    for row in sorted(rows, key=_gravity):
        marks = [notes.setdefault(text, len(notes) + 1) for text in row.get("assumed", ())]
        claim = row.get("claim", "") + "".join(f" [{mark}]" for mark in marks)
        name = row["callable"].removeprefix(f"{package.module}.")
        found = row.get("findings", ())
        if not found:
            lines.append((name, claim, row["verdict"], _short(row.get("why", ""))))
        for number, one in enumerate(found):
            option = one["callable"].partition(" (")[2]
            shown = f"{name} ({option}" if option else name
            witness = _short(f"{one['event']}: {one['counts']}; {one['pair']}")
            lines.append((shown if option or not number else "", claim, one["verdict"], witness))
    text = _laid_out(lines, width)
    summary = [""] + [f"[{mark}] {sentence}" for sentence, mark in notes.items()]
    none = ("not a mechanism", "not a budget")
    mechanisms = [row for row in rows if row["outcome"] not in none]
    releases = [row for row in rows if row["outcome"] == "release"]
    violated = [row for row in releases if row["verdict"].startswith("violated")]
    plain = [row for row in violated if row["verdict"] == "violated"]
    summary += [
        "",
        f"{package.name} {package.version}: {len(rows)} callables with a budget parameter, "
        f"of which {len(rows) - len(mechanisms)} are not mechanisms; {len(releases)} of the others "
        f"were called; {len(plain)} violated, {len(violated) - len(plain)} more under a condition; "
        f"{used:.0f} s of processor time",
        "No violation found does not rule one out.",
        f"tests, assumptions and records: {folder}",
    ]
    summary += [f"not imported: {one}" for one in package.failed]
    for one in summary:
        text += (textwrap.wrap(one, width) or [""]) if width else [one]
    return "\n".join(line.rstrip() for line in text) + "\n"


def _gravity(row: Mapping[str, Any]) -> int:
    """Return the place of a row among others: violations first, then what was called."""
    verdict, outcome = str(row["verdict"]), row["outcome"]
    if outcome != "release":
        return 3 if outcome == "not called" else 4
    return int(verdict != "violated") + int(not verdict.startswith("violated"))


LEAST_WIDTH = 60  # of the last column; with less, a row is a paragraph


def _laid_out(lines: Sequence[tuple[str, str, str, str]], width: int | None) -> list[str]:
    """Return rows as a table, or as paragraphs if a table is too wide; a title comes first."""
    widths = [max(len(line[at]) for line in lines) for at in range(3)]
    before = sum(widths) + 2 * len(widths)
    text = []
    if width is None or width - before >= LEAST_WIDTH:
        for *cells, last in lines:
            parts = textwrap.wrap(last, width - before) if width else [last]
            first, *more = parts or [""]
            padded = [part.ljust(wide) for part, wide in zip(cells, widths, strict=True)]
            text += ["  ".join([*padded, first]), *(" " * before + part for part in more)]
        return text
    for *cells, last in lines[1:]:
        text += textwrap.wrap(" · ".join(filter(None, cells)), width)
        text += textwrap.wrap(last, width, initial_indent="    ", subsequent_indent="    ")
    return text


LONGEST = 240  # characters of a witness or a reason in the table


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def example_of(package: Package, name: str, given: Mapping[str, Any]) -> str:
    """Return a test of one callable with an example pair.

    Raises:
        DpframeError: it is not found, takes no budget, or cannot be called.
    """
    fitting = [one for one in package.targets if f".{one.name}".endswith(f".{name}")]
    ends = name.rpartition(".")[2]
    fitting = fitting or [one for one in package.targets if one.title == ends]
    if not fitting:
        raise DpframeError(f"there is no public callable {name}")
    if not fitting[0].budgets and name not in given:
        raise DpframeError(f"{fitting[0].name} has no parameter that names a budget")
    one = called(fitting[0], package, given, time.monotonic() + 60.0)
    if one.proposal is None or one.outcome != "release":
        raise DpframeError(f"{one.target.name}: {one.outcome}: {one.reason}")
    cases = one.proposal.data.cases()
    pair = cases[0], cases[1]
    if one.proposal.data.form == "records":
        rows = list(one.proposal.data.table)
        low, high = (
            [c.get(end, (c.get("categories") or [0])[at]) for c in one.proposal.data.schema]
            for end, at in (("low", 0), ("high", -1))
        )
        flat = not isinstance(rows[0], list)
        ends_ = [part[0] if flat else part for part in (low, high)]
        pair = [ends_[0], *rows[1:]], [ends_[1], *rows[1:]]
    elif one.proposal.data.form == "numbers":
        first = cases[0]
        pair = first, [first[0] + 1, *first[1:]]
    return findings.as_test(one.proposal, pair)
