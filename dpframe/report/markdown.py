"""A record as GitHub-flavoured Markdown."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from dpframe.common.text import escape
from dpframe.report.findings import ATTENTION, Kind, caveats, estimators, mechanism_table, of
from dpframe.report.number_format import plural
from dpframe.report.tables import Line, Part, ReportTable, cell_table, version_table
from dpframe.report.verdict_text import expectations, headline, state
from dpframe.results.model import CellRecord, Record

MOST_BYTES = 1 << 20  # largest summary of a step on GitHub
_CAPS = (5_000, 1_000, 200, 50, 10, 0)  # rows of a table, tried until the page is small enough
_MOST_ALARMS = 200
MOST_ESTIMATORS = 20
_LEGEND = (
    "ε in nats. Empirical is the point value of the estimator, not a bound; certified means that "
    "the loss is at least this; what the attack shows at most limits the attack, never the "
    "mechanism; adjusted p is the p-value of the claim, adjusted for all tests."
)


def document(record: Record, most: int = MOST_BYTES) -> str:
    """Return the page with as many rows as fit into `most` bytes; "" if nothing fits."""
    for cap in _CAPS:
        text = "\n\n".join(_sections(record, cap)) + "\n"
        if len(text.encode()) <= most:
            return text
    return ""


def _sections(record: Record, cap: int) -> Iterator[str]:
    yield f"# {plain(record.audit.name)}"
    yield f"**{plain(headline(record), 1000)}**"
    yield from _remarks(record)
    yield from _overview(record, cap)
    yield from _alarms(record, min(cap, _MOST_ALARMS))
    if record.cells:
        rows = _table(record.cells, cap)
        yield folded(f"All {plural(len(record.cells), 'cell')}", rows)
    if limits := list(map(str, of(record, Kind.UNTRIED))):
        yield folded("Not tried", _listed(limits))
    yield folded("Methods", _listed(_means(record)))
    yield folded("The spec", code(record.spec.text, 100 * cap))


def _remarks(record: Record) -> Iterator[str]:
    yield from (f"**{plain(warning, 1000)}**" for warning in of(record, Kind.WARNING))
    yield from (plain(finding, 1000) for finding in of(record, Kind.REASON, Kind.SUBJECT))
    yield " ".join(plain(sentence, 1000) for sentence in caveats(record))
    if (expected := expectations(record)) and expected.met and not expected.surprises:
        yield expected.sentence
    if record.cells:
        yield _LEGEND


def _overview(record: Record, cap: int) -> Iterator[str]:
    """Return what became of each mechanism, and of each in every environment."""
    yield _capped(mechanism_table(record), cap, "mechanism")
    if (by_version := version_table(record)) is not None:
        yield f"## Versions\n\n{_capped(by_version, cap, 'result')}"


def _alarms(record: Record, cap: int) -> Iterator[str]:
    """Return a table of violated cells, and lists of the other issues."""
    violated = [cell for cell in record.cells if state(cell) == "violated"]
    if violated:
        yield f"## Violated\n\n{_table(violated, cap)}"
    for kind in (kind for kind in ATTENTION if kind.state == "failed"):
        if entries := list(map(str, of(record, kind))):
            omitted = _left_out(len(entries) - cap, "reason")
            yield f"## {kind.title}\n\n{_listed(entries[:cap])}{omitted}"


def _table(cells: Sequence[CellRecord], cap: int) -> str:
    part = cell_table(cells, cap)
    common = f"All with {plain(part.title)}.\n\n" if part.title else ""
    return common + table(part) + _left_out(len(cells) - cap, "cell")


def _capped(part: ReportTable, cap: int, noun: str) -> str:
    shown = table(part._replace(rows=part.rows[:cap]))
    return shown + _left_out(len(part.rows) - cap, noun)


def _means(record: Record) -> Iterator[str]:
    """Describe the assumptions and sources of estimators, and the environment."""
    for one in itertools.islice(estimators(record), MOST_ESTIMATORS):
        source = f"; rests on {one.source}" if one.source else ""
        yield f"{one.label} {one.promise}; assumes {one.assumption}{source}."
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
    return f"\n\n… and {plural(number, noun)} more: the record has all." * (number > 0)


# Text as GitHub-flavoured Markdown: labels are shown and have no effect.


LONGEST_LABEL = 300  # characters of a label or a reason; the record has the rest

_MARKS = re.compile(r"([\\`*_\[\]|~$])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_NOTHING = "<!-- -->"
"""Separates a sign from a name, so that GitHub neither notifies a user nor makes a link."""


def plain(text: object, most: int = LONGEST_LABEL) -> str:
    """Escape text from anywhere, for the middle of a line."""
    shown = escape(" ".join(str(text).split()))
    if len(shown) > most:
        shown = f"{shown[:most]}…"
    shown = _MARKS.sub(r"\\\1", "".join(_ENTITIES.get(char, char) for char in shown))
    # Mentions, references to issues, and addresses, which GitHub finds after everything else.
    shown = re.sub(r"([@#])(?=\w)", rf"\1{_NOTHING}", shown)
    return re.sub(r"(?i)(:(?=//)|\bwww(?=\.))", rf"\1{_NOTHING}", shown)


def code(text: str, most: int) -> str:
    """Return text as a code block with a fence longer than any in the text."""
    shown = escape(text.replace("\r\n", "\n"), "\n\t")
    if len(shown) > most:
        shown = f"{shown[:most]}\n…"
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}toml\n{shown}\n{fence}"


def table(part: ReportTable) -> str:
    """Return a table."""
    texts = ([one.text if isinstance(one, Line) else one for one in row.cells] for row in part.rows)
    lines = [part.heads, ["---"] * len(part.heads), *texts]
    return "\n".join(f"| {' | '.join(map(plain, line))} |" for line in lines)


def document_of(parts: Iterable[Part]) -> str:
    """Return a page with the parts of a report; the first is its heading."""
    blocks: list[str] = []
    for part in parts:
        if isinstance(part, ReportTable):
            blocks.append(table(part))
        else:
            mark = "**" if part.style == "failed" else ""
            blocks.append(
                f"{mark}{plain(part.text, 1000)}{mark}" if blocks else f"## {plain(part.text)}"
            )
    return "\n\n".join(blocks) + "\n"


def folded(summary: str, body: str) -> str:
    """Return a part of the page that is folded at first."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"
