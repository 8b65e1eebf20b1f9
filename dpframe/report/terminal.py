"""The report of a run in the terminal. Reads the record and nothing else."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rich.table import Table

from dpframe.report.terminal_grid import fits_wide, grid_of, grid_tables, short
from dpframe.report.terminal_group import Group, groups
from dpframe.report.terminal_ink import GAP, Ink
from dpframe.report.terminal_issues import failed, inconclusive, skipped, unmet
from dpframe.report.terminal_legend import group_title, legend, tallies, title, unadjusted
from dpframe.report.terminal_list import list_table
from dpframe.report.terminal_numbers import setting
from dpframe.report.terminal_settings import read_settings
from dpframe.report.terminal_summary import summary_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.text import Text

TABLE_KEYS = 2
"""Swept keys that a table can show: one down, one across."""


def render(record: dict[str, Any], console: Console) -> None:
    """Prints the whole report: legend, tables, what needs attention, summary.

    Args:
        record: a run record, schema 1; non-finite numbers are the strings "inf", "-inf", "nan".
        console: where to print; plain text if it is not a terminal.
    """
    ink = Ink.of(console)
    settings = read_settings(record)
    found = groups(record.get("cells") or [])
    m = int((record.get("summary") or {}).get("m") or 0)
    warning = [unadjusted(settings, m, ink)] if m > 1 and not settings.adjusted else []
    _print(console, [title(settings, found, ink), *legend(found, ink, console.width), *warning])
    _tables(found, console, ink)
    console.print()
    console.rule(style="dim", characters="-" if ink.ascii_only else "─")
    for lines in (unmet, failed, inconclusive):
        _print(console, lines(found, ink))
    _print(console, skipped(record, ink))
    if len(found) > 1 and any(group.keys for group in found):
        console.print(_overview(found, ink))
        console.print()
    _print(console, [*warning, *summary_lines(record, settings, ink)])


def _print(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        console.print(line)


def _tables(found: list[Group], console: Console, ink: Ink) -> None:
    """A table per group; groups that sweep nothing share one."""
    # Of what failed throughout, the list of failures says all there is to say.
    ran = [group for group in found if any(spot.done for spot in group.spots)]
    if single := [group for group in ran if not group.keys]:
        console.print()
        console.print(list_table(single, ink, console.width))
    swept = {index: _parts(group) for index, group in enumerate(ran) if group.keys}
    grids = {
        index: [grid_of(part, ink) for _, part in parts if len(part.keys) == TABLE_KEYS]
        for index, parts in swept.items()
    }
    wide = all(fits_wide(grid, console.width) for found in grids.values() for grid in found)
    for index, parts in swept.items():
        console.print()
        console.print(group_title(ran[index], ink, console.width))
        for (name, part), grid in itertools.zip_longest(parts, grids[index]):
            if name:
                console.print(ink.text(f"\n{name}", "bold"))
            if grid is None:
                console.print(list_table([part], ink, console.width))
                continue
            for table in grid_tables(grid, ink, console.width, wide=wide):
                console.print(table)


def _parts(group: Group) -> list[tuple[str, Group]]:
    """Splits a group into what tables can show, one for each value of the keys beyond two."""
    rest = group.keys[TABLE_KEYS:]
    parts = []
    for values in itertools.product(*(group.axis(key) for key in rest)):
        part = group.where(dict(zip(rest, values, strict=True)))
        if part.spots:
            where = zip(rest, values, strict=True)
            parts.append((", ".join(f"{short(k)} {setting(v)}" for k, v in where), part))
    return parts


def _overview(found: list[Group], ink: Ink) -> Table:
    """A line for each group, because the tables may have scrolled away."""
    table = Table.grid(padding=(0, GAP, 0, 0))
    for group in found:
        several = len({other.names[0] for other in found}) < len(found)
        name = " · ".join(group.names if several else group.names[:1])
        table.add_row(ink.text(name, "bold"), ink.joined(tallies(group, ink), 10**6))
    return table
