"""Write the results as a static site: pages, records, badges and a feed."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from packaging.version import InvalidVersion, Version

from dpframe import DpframeError, Record, load
from dpframe_watch.audits import Result, WatchState
from dpframe_watch.disclosure import rounded_down, violated
from dpframe_watch.registry import AuditTask, LibraryRegistry
from dpframe_watch.trend import Audited, Trend, trend

MANIFEST = ".dpframe-watch"
"""File that lists the files of the site, so that the next run removes obsolete ones."""

MOST_NEWS = 50  # entries of the feed
SIGNS = {"violated": "✗", "consistent": "○", "inconclusive": "?", "failed": "!"}
COLOURS = {"violated": "#b3261e", "consistent": "#3f6894", "": "#6b6b6b"}
"""Colours of badges. None is green: no audit shows that something is private."""


class SiteRow(NamedTuple):
    """The result of an adapter at a version."""

    task: AuditTask
    key: str  # "" without a record
    state: str  # a verdict; failed; "": no verdict
    words: str
    claim: str = "–"
    certified: str = "–"
    draws: str = "–"
    date: str = ""
    alarms: float = 0.0  # expected false alarms in its record if all claims hold
    problem: str = ""  # why it could not be audited again
    report: str = ""  # address of a public report
    earlier: tuple[tuple[str, str], ...] = ()  # key and date of older records
    has_witness: bool = False
    claimed_epsilon: float | None = None
    certified_epsilon: float | None = None

    @property
    def sign(self) -> str:
        """The sign of the state."""
        return SIGNS.get(self.state, "~")

    @property
    def anchor(self) -> str:
        """The name of its row on the page, another for each task."""
        return ":".join(
            re.sub(r"[^A-Za-z0-9.+-]", lambda match: f"_{ord(match[0]):x}_", part)
            for part in self.task
        )


class Site:
    """The site of a registry.

    A violation without a public report is left out, with its record, witness and badge, unless the
    site is private: authors must hear of it first.

    Args:
        registry: the registry.
        state: its results.
        private: True to show every result.
    """

    def __init__(self, registry: LibraryRegistry, state: WatchState, *, private: bool) -> None:
        self.registry, self.state, self.private = registry, state, private
        results = [one for one in state.results if state.knows(one.key)]
        self._rows = {one.key: self._row(one) for one in results}
        newest = {one.task: one.key for one in results}
        tasks = sorted({*newest, *state.problems}, key=lambda task: (task.library, task.adapter))
        self.rows = [self._current(task, newest.get(task)) for task in tasks]
        self.unreported = [row for row in self.rows if row.state == "violated" and not row.report]

    def write(self, out: Path) -> None:
        """Write the site; other files in its directory are left alone.

        The manifest lists a file before it is written, so that a later run removes it even if this
        one is interrupted.

        Raises:
            DpframeError: something cannot be written.
        """
        files = self._files()
        manifest = out / MANIFEST
        try:
            before = manifest.read_text(encoding="utf-8").splitlines() if manifest.exists() else []
            for name in before:
                inside = (out / name).resolve().is_relative_to(out.resolve())
                if name not in files and inside:
                    (out / name).unlink(missing_ok=True)
            out.mkdir(parents=True, exist_ok=True)
            _list(manifest, {*before, *files})
            for name, content in files.items():
                path = out / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, Path):
                    shutil.copyfile(content, path)
                else:
                    path.write_text(content, encoding="utf-8")
            _list(manifest, files)
        except OSError as error:
            raise DpframeError(f"{out}: {(error.strerror or str(error)).lower()}") from error

    def outcome(self) -> dict[str, Any]:
        """Return what a notification says: the name, and the number of tasks in each state."""
        states = [row.state for row in self.rows]
        counts = {state: states.count(state) for state in SIGNS}
        unreported = [" ".join(row.task) for row in self.unreported]
        return {"name": self.registry.content.title, **counts, "unreported": unreported}

    def _files(self) -> dict[str, str | Path]:
        """Return the files of the site: texts, or files of the state to copy."""
        rows = [self._shown(row) for row in self.rows]
        news = [row for row in reversed(self._rows.values()) if self._may_show(row)]
        files: dict[str, str | Path] = {
            "index.html": self._render(
                "index.html", rows=rows, trends=self._trends(rows), **self._totals()
            ),
            "feed.xml": self._render("feed.xml", news=news[:MOST_NEWS]),
        }
        for row in news:
            for file in sorted(self.state.record_of(row.key).iterdir()):
                if file.name in ("record.json", "report.html", "witness.py"):
                    files[f"records/{row.key}/{file.name}"] = file
        for library, table in self.registry.content.libraries.items():
            for adapter in table.adapters:
                own = [r for r in rows if (r.task.library, r.task.adapter) == (library, adapter)]
                for newest in sorted(own, key=lambda row: _order(row.task.version))[-1:]:
                    files[f"{library}/{adapter}/badge.svg"] = self._badge(newest)
        return files

    def _trends(self, rows: list[SiteRow]) -> dict[str, list[Trend]]:
        """Return the charts of each library, by adapter; versions without a result are gaps."""
        charts: dict[str, list[Trend]] = {}
        for library in dict.fromkeys(row.task.library for row in rows):
            own = [row for row in rows if row.task.library == library]
            versions = sorted({row.task.version for row in own}, key=_order)
            for adapter in dict.fromkeys(row.task.adapter for row in own):
                by_version = {r.task.version: r for r in own if r.task.adapter == adapter}
                results = [_audited(version, by_version.get(version)) for version in versions]
                if chart := trend(adapter, results):
                    charts.setdefault(library, []).append(chart)
        return charts

    def _badge(self, row: SiteRow) -> str:
        label = f"{row.task.library} {row.task.version}"
        message = row.words if row.key else "no result"
        colour = COLOURS.get(row.state, COLOURS[""])
        return self._render("badge.svg", label=label, message=message, colour=colour)

    def _totals(self) -> dict[str, Any]:
        """State the expected number of false alarms if all claims were true."""
        shown = [row for row in self._rows.values() if self._may_show(row)]
        versions: dict[str, set[str]] = {}
        for row in self.rows:
            versions.setdefault(row.task.library, set()).add(row.task.version)
        return {
            "records": len(shown),
            "alarms": f"{sum(row.alarms for row in shown):.2g}",
            "warn": self.private and bool(self.unreported),
            "libraries": {
                name: sorted(of, key=_order, reverse=True) for name, of in versions.items()
            },
        }

    def _render(self, name: str, **values: Any) -> str:
        return _templates().get_template(name).render(registry=self.registry.content, **values)

    def _may_show(self, row: SiteRow) -> bool:
        return self.private or row.state != "violated" or bool(row.report)

    def _shown(self, row: SiteRow) -> SiteRow:
        """Return a row as the site has it; one that is withheld looks like one without a result."""
        earlier = tuple(one for one in row.earlier if self._may_show(self._rows[one[0]]))
        if not row.key or self._may_show(row):
            return row._replace(earlier=earlier)
        return SiteRow(row.task, "", "", "no result", problem="not audited, or not shown")

    def _current(self, task: AuditTask, key: str | None) -> SiteRow:
        """Return the row of a task, with the outcome of its last attempt."""
        problem = self.state.problems.get(task)
        reason = f"{problem['reason']} ({problem['date']})" if problem else ""
        if key is None:
            return SiteRow(task, "", "failed", "could not be audited", problem=reason)
        older = [row for row in self._rows.values() if row.task == task and row.key != key]
        earlier = tuple((row.key, row.date) for row in reversed(older))
        return self._rows[key]._replace(problem=reason, earlier=earlier)

    def _row(self, result: Result) -> SiteRow:
        """Summarise a record by its worst cell."""
        folder = self.state.record_of(result.key)
        record = load(folder)
        adapter = self.registry.adapter(result.task)
        state, cell = verdict_of(record)
        draws = f"{record.summary.draws:,}"
        estimate = cell.estimate if cell is not None else None
        lower = estimate.epsilon_lower if estimate is not None and estimate.certified else None
        claim = float(cell.claim.epsilon) if cell is not None and cell.claim is not None else None
        at = (
            f", δ = {f'{cell.claim.delta:g}'.replace('e-0', 'e-')}"
            if cell and cell.claim and cell.claim.delta
            else ""
        )
        left_out = len(record.skipped) + record.summary.failed
        tests = record.summary.m if record.audit.multiplicity == "none" else 1
        return SiteRow(
            result.task,
            result.key,
            state,
            words_of(state, claim, lower)
            + (f"; {left_out} combinations not audited" if left_out else ""),
            "–" if claim is None else f"{claim:.6g}{at}",
            "–" if lower is None else f"≥ {rounded_down(lower, claim)}",
            draws,
            result.date,
            tests * (1 - record.audit.confidence),
            report=adapter.reports.get(result.task.version, "") if adapter else "",
            has_witness=(folder / "witness.py").is_file(),
            claimed_epsilon=claim,
            certified_epsilon=lower,
        )


def _audited(version: str, row: SiteRow | None) -> Audited:
    if row is None:
        return Audited(version, None, None, "", "not audited")
    return Audited(version, row.claimed_epsilon, row.certified_epsilon, row.state, row.words)


def _list(manifest: Path, names: Iterable[str]) -> None:
    new = manifest.with_name(f"{MANIFEST}.new")
    new.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    new.replace(manifest)


def verdict_of(record: Record) -> tuple[str, Any]:
    """Return the verdict of a whole record, "" for none, and the cell with the strongest bound.

    One violated cell is a violation. A record is consistent only if every cell that was tested is.
    """
    if violations := violated(record):
        return "violated", violations[0]
    ran = [cell for cell in record.cells if cell.status == "ok"]
    verdicts = {cell.verdict for cell in ran}
    state = next((v for v in ("inconclusive", "consistent") if v in verdicts), "")

    def shown(cell: Any) -> float:
        lower = cell.estimate.epsilon_lower if cell.estimate is not None else None
        claim = float(cell.claim.epsilon) if cell.claim is not None else math.inf
        return (lower or 0.0) / claim if 0 < claim < math.inf else 0.0

    of = [cell for cell in ran if (cell.verdict or "") == state]
    return state, max(of, key=shown, default=None)


def words_of(state: str, claim: float | None, lower: float | None) -> str:
    """Return the result in words; "no violation found" never promises privacy."""
    of = "" if claim is None else f", claimed {claim:.6g}"
    bound = "" if lower is None else f"; certified ε ≥ {rounded_down(lower, claim)}{of}"
    if state == "violated":  # by a whole curve, or exactly, if its bound is not above the claim
        return f"violated{bound}" if (lower or 0) > (claim or 0) else "violated, see the report"
    if state == "consistent":
        return f"no violation found{bound}"
    return "inconclusive: too few draws to decide" if state else "no verdict"


def _order(version: str) -> tuple[Any, ...]:
    """Return a sort key of a version; strings that are not versions come first."""
    try:
        return 1, Version(version), version
    except InvalidVersion:
        return 0, version


def _templates() -> Environment:
    """Return the templates; every text is escaped."""
    return Environment(
        loader=PackageLoader("dpframe_watch"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
