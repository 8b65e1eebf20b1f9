"""The report of a run in the terminal. Reads the record and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from dpframe.report.group import TABLE_KEYS, Group, groups, names, parts, short
from dpframe.report.terminal.heat import heat, mapped
from dpframe.report.terminal.ink import Ink, read_settings
from dpframe.report.terminal.legend import group_title, numbers_key, title, unadjusted, verdicts_key
from dpframe.report.terminal.overview import (
    failed,
    inconclusive,
    matrix,
    overview,
    skipped,
    stepped,
    summary_lines,
    unmet,
)
from dpframe.report.terminal.plots import against, growths, plots
from dpframe.report.terminal.tables import Grid, fits, fits_wide, grid_of, grid_tables, list_tables
from dpframe.report.words import setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console
    from rich.table import Table

    from dpframe.results.model import Record


FEW = 24
"""So many swept cells are shown in numbers even if nobody asks: a map would hide more than it
shows."""

FINDERS = (unmet, failed, inconclusive, stepped)
"""What needs attention, the gravest first."""


def render(record: Record, console: Console, *, numbers: bool | None = None) -> None:
    """Prints the whole report: legend, map, tables, what needs attention, summary.

    Args:
        record: of a run.
        console: where to print; plain text if it is not a terminal.
        numbers: whether to show tables of what is swept; by default only of few cells. What the
            map cannot show is in tables anyway.
    """
    ink = Ink.of(console)
    settings = read_settings(record)
    found = groups(record.cells)
    m = record.summary.m
    warning = [unadjusted(settings, m, ink)] if m > 1 and not settings.adjusted else []
    drawn = mapped(found)
    if numbers is None:
        numbers = sum(len(group.spots) for group in drawn) <= FEW
    # Of what failed throughout, the list of failures says all there is to say.
    ran = [group for group in found if any(spot.done for spot in group.spots)]
    mapped_too = set(map(id, drawn))
    listed = [group for group in ran if numbers or id(group) not in mapped_too]
    _print(console, [title(settings, found, ink), verdicts_key(found, ink, console.width)])
    if warning:
        _print(console, [ink.text(""), *warning])
    if drawn:
        _print(console, [ink.text(""), *heat(drawn, ink, console.width)])
    if listed:
        _numbers(listed, console)
    _print(console, plots(found, ink, console.width))
    _print(console, growths(found, record, ink, console.width))
    console.print()
    console.rule(style="dim", characters="-" if ink.ascii_only else "─")
    issues = [line for find in FINDERS for line in find(found, ink)]
    issues += skipped(record, ink)
    _print(console, [*issues, ink.text("")] if issues else [])
    compared = list(matrix(record, ink, console.width))
    _print(console, [*compared, ink.text("")] if compared else [])
    told = list(overview(record, found, ink, console.width))
    _print(console, [*told, ink.text("")] if told else [])
    _print(console, [*warning, *summary_lines(record, settings, ink)])


def _print(console: Console, lines: Iterable[Text | Table]) -> None:
    for line in lines:
        console.print(line)


def _numbers(found: list[Group], console: Console) -> None:
    """Tables of what was found, after what their signs mean."""
    ink = Ink.of(console)
    tables = list(_tables(found, ink, console.width))
    console.print()
    _print(console, numbers_key(found, set(ink.seen), ink, console.width))
    _print(console, tables)
    _print(console, against(found, ink, console.width))


def _tables(found: list[Group], ink: Ink, width: int) -> Iterator[Text | Table]:
    """A table per group; groups that sweep nothing share one."""
    if single := [group for group in found if not group.keys]:
        yield Text()
        for lines in list_tables(single, ink, width):
            yield from lines
    laid_out = [(group, _laid_out(group, ink)) for group in found if group.keys]
    grids = [grid for _, cut in laid_out for _, _, grid in cut if grid is not None]
    wide = all(fits_wide(grid, width) for grid in grids)
    fit = all(fits(grid, width) for grid in grids)
    listed = [part for _, cut in laid_out for _, part, grid in cut if grid is None or not fit]
    lists = iter(list_tables(listed, ink, width) if listed else ())
    for group, cut in laid_out:
        yield Text()
        yield group_title(group, ink, width)
        for name, _, grid in cut:
            if name:
                yield from [Text(), *ink.folded(name, "bold", width)]
            yield from grid_tables(grid, ink, width, wide=wide) if grid and fit else next(lists)


def _laid_out(group: Group, ink: Ink) -> list[tuple[str, Group, Grid | None]]:
    return [
        (name, part, grid_of(part, ink) if len(part.keys) == TABLE_KEYS else None)
        for name, part in parts(group)
    ]


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
