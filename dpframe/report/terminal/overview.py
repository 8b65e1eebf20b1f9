"""What became of each mechanism, and its worst cell in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from dpframe.report import words
from dpframe.report.group import Group, short, telling
from dpframe.report.terminal.ink import GAP, STYLE, Ink, padded
from dpframe.report.terminal.legend import tallies
from dpframe.report.weight import measure, weight, worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import CellRecord, Record

WIDEST_NAME = 0.3
"""Share of the width that names may take before they get lines of their own."""


def overview(record: Record, found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """A few lines for each mechanism, because tables may have scrolled away.

    Those that were only skipped are named too: nothing is known of them.
    """
    members: dict[str, list[Group]] = {}
    for group in found:
        members.setdefault(group.names[0], []).append(group)
    left_out = [skip.mechanism for skip in record.skipped if skip.mechanism not in members]
    if len(record.cells) <= len(members) and not left_out:
        return  # the table says all of it
    names = {name: ink.plain(name).replace("\n", " ") for name in [*members, *left_out]}
    lead = max((Text(name).cell_len for name in names.values()), default=0) + GAP
    beside = lead - GAP <= width * WIDEST_NAME
    indent = lead if beside else min(GAP, width // 8)
    for label, name in names.items():
        if not beside:
            yield from ink.folded(name, "bold", width)
        start = name if beside else ""
        for text in _told(members.get(label, []), ink, width - indent):
            for line in ink.wrapped(text, width - indent):
                yield Text.assemble((padded(start, indent), "bold"), line)
                start = ""


def _told(groups: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    if not groups:
        yield ink.text("– skipped: nothing was tested", STYLE["failed"])
        return
    spots = [spot for group in groups for spot in group.spots]
    yield ink.joined(tallies(spots, ink), width)
    ran = [cell for spot in spots for cell in spot.done]
    cell = worst(ran)
    if cell is None:
        yield ink.text("nothing was tested", STYLE["failed"])
        return
    verdicts = {cell.verdict for cell in ran}
    found = weight(cell)
    if len(ran) > 1 and found is not None and found.lower <= 0:
        yield ink.text("nothing certified in any cell")
        return
    which = "worst: " if len(ran) > 1 else ""
    of = ", inconclusive" if cell.verdict == "inconclusive" and len(verdicts) > 1 else ""
    yield ink.text(f"{which}{measure(cell)}{of}{_place(cell, groups)}")
    if verdicts == {"inconclusive"}:
        yield ink.text("nothing was decided", STYLE["inconclusive"])


def _place(cell: CellRecord, groups: list[Group]) -> str:
    """Which attack and estimator, where they differ, and the swept values."""
    parts = [part for part in telling(groups) if part]
    if cell.is_searched:
        parts = [1, *(part for part in parts if part != 1)]
    labels = (cell.mechanism.label, cell.attack.label, cell.estimator.label)
    by = " · ".join(labels[part] for part in parts)
    keys = dict.fromkeys(key for group in groups for key in group.keys if key in cell.swept)
    place = [f"{short(key, keys)} {words.setting(cell.swept[key])}" for key in keys]
    if any(len(spot.cells) > 1 for group in groups for spot in group.spots):
        place.append(f"repeat {cell.repeat}")
    return (f", by {by}" if by else "") + (f", at {' '.join(place)}" if place else "")
