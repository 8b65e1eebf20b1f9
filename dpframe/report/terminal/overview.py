"""Results by mechanism, what needs attention, and the closing lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from dpframe.report.content import mechanisms
from dpframe.report.issues import issues
from dpframe.report.sentences import caveats, expectations, verdict
from dpframe.report.sentences import worst as worst_of
from dpframe.report.terminal.ink import GAP, STYLE, Ink, padded
from dpframe.report.versions import Versions, blocks, versions
from dpframe.results.model import Record

WIDEST_NAME = 0.3
"""Share of the width that names may take before they get lines of their own."""
MOST_LINES = 12
"""Longer lists end in a count of the rest: the record has them all."""
NARROW = 16
"""Least columns of a mechanism in the version matrix; below, each place gets lines."""


# Results by mechanism, and the worst cell of each in words.


def overview(record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """Summarise each mechanism in a few lines, because tables may have scrolled away."""
    results = list(mechanisms(record))
    if len(record.cells) == len(results) and all(one.tested for one in results):
        return  # the table says all of it
    names = [ink.line(one.label) for one in results]
    lead = max((Text(name).cell_len for name in names), default=0) + GAP
    beside = lead - GAP <= width * WIDEST_NAME
    indent = lead if beside else min(GAP, width // 8)
    for name, one in zip(names, results, strict=True):
        if not beside:
            yield from ink.folded(name, "bold", width)
        start = name if beside else ""
        tallies = [ink.text(text, STYLE[state]) for state, text in one.tallies]
        texts = [ink.joined(tallies, width - indent)]
        which = "worst: " if one.several else ""
        texts.append(ink.text(f"{which}{one.worst}", "" if one.tested else STYLE["failed"]))
        if not one.decided:
            texts.append(ink.text("nothing was decided", STYLE["inconclusive"]))
        for line in (line for text in texts for line in ink.wrapped(text, width - indent)):
            yield Text.assemble((padded(start, indent), "bold"), line)
            start = ""


# What needs attention.


def issue_lines(record: Record, ink: Ink) -> Iterator[Text]:
    """List what needs attention, the gravest first."""
    for kind in issues(record):
        for text, where, _ in kind.found[:MOST_LINES]:
            line = ink.text("")
            line.append(ink.plain(f"{kind.sign} {text}"), STYLE[kind.state])
            if where:
                line.append(ink.plain(f"\n    at {where}"))
            yield line
        if (rest := sum(issue.cells for issue in kind.found[MOST_LINES:])) > 0:
            more = f"{kind.sign} … and {rest} more such cells, see the record"
            yield ink.text(more, STYLE[kind.state])


# The verdict is the first and the last that a report says.


def headline(record: Record, ink: Ink) -> Iterator[Text]:
    """Write the verdict without its confidence, and the worst cell."""
    yield _verdict(record, ".", ink)
    if text := worst_of(record):
        yield ink.text(f"Worst: {text}")


def _verdict(record: Record, rest: str, ink: Ink) -> Text:
    found = verdict(record)
    sentence = ink.text("")
    sentence.append(ink.plain(found.finding), STYLE["violated"] if found.grave else "bold")
    return sentence.append(ink.plain(found.others + rest), "bold")


def summary_lines(record: Record, ink: Ink) -> Iterator[Text]:
    """Write the limits of the verdict, then the expectations, then the verdict."""
    yield from map(ink.text, caveats(record))
    if expected := expectations(record):
        yield ink.text(expected.sentence, "" if expected.met else STYLE["failed"])
        if expected.surprises:
            yield ink.text(expected.surprises)
    yield _verdict(record, verdict(record).rest, ink)


def matrix(record: Record, ink: Ink, width: int) -> Iterator[Text | Table]:
    """Draw the version matrix: a row for each environment, a column for each mechanism."""
    found = versions(record)
    if found is None:
        return
    tables = blocks(found)
    if any(width // (1 + len(table.mechanisms)) < NARROW for table in tables):
        yield from _matrix_lines(found, ink, width)
        return
    for number, part in enumerate(tables):
        yield from [ink.text("")] * (number > 0)
        table = ink.table()
        for head in ("environment", *part.mechanisms):
            table.add_column(ink.text(head), overflow="fold", vertical="top")
        for name, places in part.rows:
            cells = [
                ink.text("–") if place is None else ink.text(place.text, STYLE[place.verdict])
                for place in places
            ]
            table.add_row(ink.text(name), *cells)
        yield table


def _matrix_lines(found: Versions, ink: Ink, width: int) -> Iterator[Text]:
    for name, places in found.rows:
        yield from ink.folded(name, "bold", width)
        for mechanism, place in zip(found.mechanisms, places, strict=True):
            if place is not None:
                text = ink.text(f"  {mechanism}: {place.text}", STYLE[place.verdict])
                yield from ink.wrapped(text, width)
