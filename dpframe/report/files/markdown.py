"""A record as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from dpframe.common.text import escape
from dpframe.report import sentences, words
from dpframe.report.group import (
    attack_of,
    called_place,
    called_skipped,
    measure,
    place,
    repeated,
    worst,
)
from dpframe.report.sentences import Kind, outcome, skipped, untried
from dpframe.report.versions import blocks, versions
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS, references

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dpframe.results.model import CellRecord, Record


# Text as GitHub-flavoured Markdown: whatever a label holds, it is shown and does nothing.


LONGEST = 300
"""Characters of a label or a reason; the record has the rest."""

_MARKS = re.compile(r"([\\`*_\[\]|~$])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_NOTHING = "<!-- -->"
"""Between a sign and a name, so that nobody is notified and nothing is linked."""


def plain(text: object, most: int = LONGEST) -> str:
    """Text from anywhere, for the middle of a line."""
    shown = escape(" ".join(str(text).split()))
    if len(shown) > most:
        shown = f"{shown[:most]}…"
    shown = _MARKS.sub(r"\\\1", "".join(_ENTITIES.get(char, char) for char in shown))
    # Mentions, references to issues, and addresses, which GitHub finds after everything else.
    shown = re.sub(r"([@#])(?=\w)", rf"\1{_NOTHING}", shown)
    return re.sub(r"(?i)(:(?=//)|\bwww(?=\.))", rf"\1{_NOTHING}", shown)


def code(text: str, most: int) -> str:
    """Text as a block that nothing in it can end."""
    shown = escape(text.replace("\r\n", "\n"), "\n\t")
    if len(shown) > most:
        shown = f"{shown[:most]}\n…"
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}toml\n{shown}\n{fence}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def folded(summary: str, body: str) -> str:
    """A part that is shown when it is asked for."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


# A record as Markdown, as GitHub shows it: the verdict first, what needs attention, the rest.


MOST_BYTES = 1 << 20
"""What the summary of a step on GitHub may have, and more than anybody reads."""

_CAPS = (5_000, 1_000, 200, 50, 10, 0)
"""Rows of a table, tried until the page is small enough."""
_MOST_ALARMS = 200

HEADS = ("", "mechanism", "attack", "estimator", "at", "claimed ε", "empirical ε", "certified", "p")


def document(record: Record, most: int = MOST_BYTES) -> str:
    """The whole page; the more cells, the less of them it shows.

    Args:
        record: of a run.
        most: bytes that the page may have. If they are too few for any page, it is empty.
    """
    for cap in _CAPS:
        text = "\n\n".join(_sections(record, cap)) + "\n"
        if len(text.encode()) <= most:
            return text
    return ""


def _sections(record: Record, cap: int) -> Iterator[str]:
    found = sentences.verdict(record)
    yield f"# {plain(record.audit.name)}"
    yield f"**{plain(found, 1000)}**"
    yield from _remarks(record)
    yield _overview(record, cap)
    yield from _versions(record, cap)
    yield from _alarms(record, min(cap, _MOST_ALARMS))
    if record.cells:
        rows = _table(record, record.cells, cap)
        yield folded(f"All {sentences.plural(len(record.cells), 'cell')}", rows)
    if limits := list(untried(record)):
        yield folded("What was not tried", _listed(limits))
    yield folded("How the numbers were obtained", _listed(_means(record)))
    yield folded("The spec", code(record.spec.text, 100 * cap))


def _remarks(record: Record) -> Iterator[str]:
    if warning := sentences.warning(record):
        yield f"**{plain(warning, 1000)}**"
    yield " ".join(plain(sentence, 1000) for sentence in sentences.caveats(record))
    if expected := sentences.expectations(record):
        text = " ".join(part for part in (expected.sentence, expected.surprises) if part)
        yield text if expected.met and not expected.surprises else f"**{text}**"
    if record.cells:
        yield _LEGEND


def _overview(record: Record, cap: int) -> str:
    """A row for each mechanism: its verdicts, and its worst cell in words."""
    members: dict[str, list[CellRecord]] = {}
    for cell in record.cells:
        members.setdefault(cell.mechanism.label, []).append(cell)
    for skip in record.skipped:
        members.setdefault(skip.mechanism, [])
    rows = [(plain(label), *_worst(cells, record)) for label, cells in [*members.items()][:cap]]
    text = table(("mechanism", "verdicts", "worst cell"), rows)
    return text + _left_out(len(members) - len(rows), "mechanism")


def _versions(record: Record, cap: int) -> Iterator[str]:
    """What became of each mechanism in each environment."""
    found = versions(record)
    if found is None:
        return
    yield "## Versions"
    for part in blocks(found):
        heads = ("environment", *map(plain, part.mechanisms))
        rows = [
            (plain(name), *("–" if place is None else plain(place.text) for place in places))
            for name, places in part.rows[:cap]
        ]
        yield table(heads, rows) + _left_out(len(part.rows) - len(rows), "environment")


def _worst(cells: list[CellRecord], record: Record) -> tuple[str, str]:
    counts = Counter("failed" if c.status == "failed" else c.verdict for c in cells)
    tallies = [f"{plain(SYMBOL[v])} {counts[v]} {WORDS[v]}" for v in SYMBOL if counts[v]]
    cell = worst(cells)
    if cell is None:
        return ", ".join(tallies) or "skipped", "nothing was tested"
    by = f"{cell.attack.label} · {cell.estimator.label}"
    where = [by, place(cell.swept), f"repeat {cell.repeat}" if repeated(record.cells) else ""]
    return ", ".join(tallies), plain(f"{measure(cell)} ({', '.join(filter(None, where))})")


def _alarms(record: Record, cap: int) -> Iterator[str]:
    """Tables of what is violated, broken or not as expected; nothing is said of the others."""
    violated = [cell for cell in record.cells if cell.verdict == "violated"]
    if violated:
        yield f"## Violated\n\n{_table(record, violated, cap)}"
    rest = [cell for cell in record.cells if cell.verdict != "violated"]
    several = repeated(record.cells)
    said = [(called_place(cell, repeated=several), outcome(cell)) for cell in rest]
    said += [(called_skipped(skip), skipped(skip)) for skip in record.skipped]
    for title, kind in (("Not as expected", Kind.FAILED), ("Could not be run", Kind.BROKEN)):
        found = [(plain(name), plain(o.message)) for name, o in said if o.kind is kind]
        if found:
            text = table(("cell", "why"), found[:cap])
            yield f"## {title}\n\n{text}{_left_out(len(found) - cap, 'cell')}"


def _table(record: Record, cells: Sequence[CellRecord], cap: int) -> str:
    several = repeated(record.cells)
    rows = [_row(cell, several=several) for cell in cells[:cap]]
    return table(HEADS, rows) + _left_out(len(cells) - cap, "cell")


def _row(cell: CellRecord, *, several: bool) -> tuple[str, ...]:
    estimate, claim = cell.estimate, cell.claim
    verdict = "failed" if cell.status == "failed" else cell.verdict
    sign = f"{SYMBOL[verdict]} {WORDS[verdict]}"
    if outcome(cell).kind is Kind.FAILED:
        sign = f"{UNEXPECTED} {sign}"
    where = [place(cell.swept), f"repeat {cell.repeat}" if several else ""]
    bound = estimate.epsilon_lower if estimate else None
    return (
        plain(sign),
        plain(cell.mechanism.label),
        plain(attack_of(cell)),
        plain(cell.estimator.label),
        plain(", ".join(filter(None, where))),
        words.brief(claim.epsilon) if claim else "–",
        words.point(estimate.epsilon) if estimate else "–",
        "–" if bound is None else f"≥ {words.lower(bound)}",
        "–" if cell.p_adjusted is None else f"{cell.p_adjusted:.2g}",
    )


_LEGEND = (
    "ε in nats. Empirical is the point value of the estimator and no bound; certified means that "
    "the loss is at least this; p is the p-value of the claim, adjusted for all tests."
)


def _means(record: Record) -> Iterator[str]:
    """Estimators with what they assume and rest on, and the environment."""
    sources = references(record)
    estimators: dict[str, CellRecord] = {}
    for cell in record.cells:
        if cell.estimate is not None:
            estimators.setdefault(cell.estimator.label, cell)
    for label, cell in list(estimators.items())[:20]:
        if (estimate := cell.estimate) is not None:
            kind = "certifies a bound" if estimate.certified else "estimates, and certifies nothing"
            source = sources.get(cell.estimator.use)
            rests = f"; rests on {source}" if source else ""
            yield f"{label} {kind}; assumes {estimate.assumption}{rests}."
    environment = record.environment
    versions = ", ".join(f"{n} {getattr(environment, n)}" for n in ("dpframe", "jax", "scipy"))
    devices = ", ".join(environment.devices)
    yield f"Seed {record.seed}; {versions}; {environment.platform}; {devices}."
    changes = " ".join(record.spec.overrides)
    path = record.spec.path or "no file"
    yield f"Spec: {path}, sha256 {record.spec.sha256}" + (f", with {changes}." if changes else ".")


def _listed(texts: Iterable[str]) -> str:
    return "\n".join(f"* {plain(text, 1000)}" for text in texts)


def _left_out(number: int, noun: str) -> str:
    return f"\n\n… and {sentences.plural(number, noun)} more: the record has all." * (number > 0)
