"""The heat map: a table whose cells show the verdict, and certified ε over claimed ε."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.files.html.cells import unexpected
from dpframe.report.group import Group, Spot, axes, groups, parts, same, short
from dpframe.report.verdicts import SYMBOL, WORDS
from dpframe.report.weight import weight, worst

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.record.model import CellRecord

MOST = 10_000
"""Places that all maps have together."""

LEGEND = (
    ("violated-3", "✗ 12", "violated, certified more than 10 times what is claimed"),
    ("violated-2", "✗ 2.5", "violated, certified up to 10 times what is claimed"),
    ("violated-1", "✗ 0.9", "violated, although not by this bound: see the cell"),
    ("consistent-2", "○ 0.9", "no violation found, certified more than half of what is claimed"),
    ("consistent-1", "○ 0.2", "no violation found, certified up to half of what is claimed"),
    ("inconclusive", "? 0.1", "inconclusive: no counts could have decided"),
    ("failed", "!", "could not be run"),
    ("silent", "~", "no verdict: nothing claimed, or nothing certified"),
)
"""Class, example and meaning of each shade."""


def maps(cells: list[CellRecord], linked: Mapping[int, int]) -> tuple[list[dict[str, Any]], int]:
    """A map for each mechanism, attack and estimator that sweeps something.

    Args:
        cells: of a record.
        linked: indices of the cells whose details are on the page, by the cells' identity.

    Returns:
        The maps, and how many are left out because there would be too many places.
    """
    shown: list[dict[str, Any]] = []
    room, left = MOST, 0
    for group in groups(cells):
        if not group.keys:
            continue
        for name, part in parts(group):
            room -= len(part.spots)
            if room < 0:
                left += 1
            else:
                shown.append(_map(group, name, part, linked))
    return shown, left


def _map(group: Group, name: str, part: Group, linked: Mapping[int, int]) -> dict[str, Any]:
    if len(part.keys) > 1:
        down, across = axes(part)
        rows = part.axis(down)
        label = short(down, group.swept)
    else:
        across, rows, label = part.keys[0], [None], ""
        down = ""
    columns = part.axis(across)
    at = {(same(s.values[down]) if down else "", same(s.values[across])): s for s in part.spots}
    return {
        "title": " · ".join(group.names) + (f", {name}" if name else ""),
        "down": label,
        "across": short(across, group.swept),
        "heads": [words.setting(value) for value in columns],
        "rows": [
            (
                words.setting(value) if down else "",
                [
                    _place(at.get((same(value) if down else "", same(column))), linked)
                    for column in columns
                ],
            )
            for value in rows
        ],
    }


def _place(spot: Spot | None, linked: Mapping[int, int]) -> dict[str, Any] | None:
    if spot is None:
        return None
    cell = worst(spot.done) or spot.cells[0]
    found = weight(cell)
    verdict = spot.verdict
    ratio = "" if found is None or verdict == "failed" else _ratio(found.ratio)
    index = linked.get(id(cell))
    return {
        "class": _class(verdict, None if found is None else found.ratio),
        "sign": f"{''.join({unexpected(c): 1 for c in spot.cells})}{SYMBOL[verdict]}",
        "words": WORDS[verdict],
        "ratio": ratio,
        "link": None if index is None else f"#cell-{index}",
    }


def _class(verdict: str | None, ratio: float | None) -> str:
    if verdict == "violated":
        return f"violated-{1 if ratio is None or ratio <= 1 else 2 if ratio <= 10 else 3}"
    if verdict == "consistent":
        return f"consistent-{2 if ratio is not None and ratio > 0.5 else 1}"
    return verdict or "silent"


def _ratio(ratio: float) -> str:
    """Certified over claimed, rounded down, short enough for a map."""
    if not math.isfinite(ratio):
        return "∞"
    if ratio >= 100:
        return f"{math.floor(ratio):,}".replace(",", " ")
    digits = 1 if ratio >= 10 else 2
    return f"{math.floor(ratio * 10**digits) / 10**digits:.{digits}f}"
