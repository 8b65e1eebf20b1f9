"""The report of a run in the terminal. Reads the record and nothing else."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table

from dpframe.report.terminal.grid import Grid, fits_wide, grid_of, grid_tables, short
from dpframe.report.terminal.group import Group, Spot, groups, names, same
from dpframe.report.terminal.ink import GAP, Ink
from dpframe.report.terminal.issues import failed, inconclusive, skipped, stepped, unmet
from dpframe.report.terminal.legend import group_title, legend, tallies, title, unadjusted
from dpframe.report.terminal.listing import list_tables
from dpframe.report.terminal.plots import plots
from dpframe.report.terminal.settings import read_settings
from dpframe.report.terminal.summary import summary_lines
from dpframe.report.words import setting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.text import Text

    from dpframe.record.model import Record

TABLE_KEYS = 2
"""Swept keys that a table can show: one down, one across."""


FINDERS = (unmet, failed, inconclusive, stepped)
"""What needs attention, the gravest first."""


def render(record: Record, console: Console) -> None:
    """Prints the whole report: legend, tables, what needs attention, summary.

    Args:
        record: of a run.
        console: where to print; plain text if it is not a terminal.
    """
    ink = Ink.of(console)
    settings = read_settings(record)
    found = groups(record.cells)
    m = record.summary.m
    warning = [unadjusted(settings, m, ink)] if m > 1 and not settings.adjusted else []
    _print(console, [title(settings, found, ink), *legend(found, ink, console.width)])
    if warning:
        _print(console, [ink.text(""), *warning])
    _tables(found, console, ink)
    _print(console, plots(found, ink, console.width))
    console.print()
    console.rule(style="dim", characters="-" if ink.ascii_only else "─")
    issues = [line for find in FINDERS for line in find(found, ink)]
    issues += skipped(record, ink)
    _print(console, [*issues, ink.text("")] if issues else [])
    if len(found) > 1 and any(group.keys for group in found):
        console.print(_overview(found, ink, console.width))
        console.print()
    _print(console, [*warning, *summary_lines(record, settings, ink)])


def _print(console: Console, lines: Iterable[Text | Table]) -> None:
    for line in lines:
        console.print(line)


def _tables(found: list[Group], console: Console, ink: Ink) -> None:
    """A table per group; groups that sweep nothing share one."""
    # Of what failed throughout, the list of failures says all there is to say.
    ran = [group for group in found if any(spot.done for spot in group.spots)]
    if single := [group for group in ran if not group.keys]:
        console.print()
        console.print(*list_tables(single, ink, console.width))
    laid_out = [(group, _parts(group, ink)) for group in ran if group.keys]
    listed = [part for _, parts in laid_out for _, part, grid in parts if grid is None]
    grids = [grid for _, parts in laid_out for _, _, grid in parts if grid is not None]
    wide = all(fits_wide(grid, console.width) for grid in grids)
    lists = iter(list_tables(listed, ink, console.width) if listed else ())
    for group, parts in laid_out:
        console.print()
        console.print(group_title(group, ink, console.width))
        for name, _, grid in parts:
            if name:
                console.print(ink.text(f"\n{name}", "bold"))
            if grid is None:
                console.print(next(lists))
                continue
            for table in grid_tables(grid, ink, console.width, wide=wide):
                console.print(table)


def _parts(group: Group, ink: Ink) -> list[tuple[str, Group, Grid | None]]:
    """Splits a group into what tables can show, one for each value of the keys beyond two."""
    rest = group.keys[TABLE_KEYS:]
    spots: dict[tuple[str, ...], list[Spot]] = {}
    for spot in group.spots:
        spots.setdefault(tuple(same(spot.values[key]) for key in rest), []).append(spot)
    parts = []
    for values in itertools.product(*(group.axis(key) for key in rest)):
        if found := spots.get(tuple(map(same, values))):
            keys = group.keys[:TABLE_KEYS]
            part = dataclasses.replace(group, keys=keys, spots=tuple(found))
            where = zip(rest, values, strict=True)
            name = ", ".join(f"{short(key, group.swept)} {setting(value)}" for key, value in where)
            grid = grid_of(part, ink) if len(part.keys) == TABLE_KEYS else None
            parts.append((name, part, grid))
    return parts


def render_notes(record: Record, console: Console) -> None:
    """Prints the notes of every cell: what estimators and the engine remarked."""
    ink = Ink.of(console)
    for cell in record.cells:
        notes = cell.estimate.notes if cell.estimate else []
        place = [f"{short(key, cell.swept)} {setting(value)}" for key, value in cell.swept.items()]
        console.print()
        console.print(ink.text(" · ".join([*names(cell), *place]), "bold"))
        for note in notes:
            console.print(ink.text(f"  {note}"))


def _overview(found: list[Group], ink: Ink, width: int) -> Table:
    """A line for each group, because the tables may have scrolled away."""
    table = Table.grid(padding=(0, GAP, 0, 0))
    several = len({group.names[0] for group in found}) < len(found)
    names = [" · ".join(group.names if several else group.names[:1]) for group in found]
    widest = min(max(cell_len(name) for name in names), width // 2)
    table.add_column(width=widest, overflow="fold")
    table.add_column()
    for group, name in zip(found, names, strict=True):
        counts = ink.joined(tallies(group, ink), width - widest - GAP)
        table.add_row(ink.text(name, "bold"), counts)
    return table
