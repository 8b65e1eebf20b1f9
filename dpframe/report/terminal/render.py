"""The report of a run in the terminal. Reads the record and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report import sentences
from dpframe.report.group import TABLE_KEYS, Group, groups, names, parts, settings
from dpframe.report.terminal import legend
from dpframe.report.terminal.heat import heat, mapped
from dpframe.report.terminal.ink import STYLE, Ink
from dpframe.report.terminal.overview import headline, issue_lines, matrix, overview, summary_lines
from dpframe.report.terminal.plots import against, growths, plots
from dpframe.report.terminal.tables import Grid, fits, fits_wide, grid_of, grid_tables, list_tables
from dpframe.results.model import Record


def render(record: Record, console: Console, *, numbers: bool = False) -> None:
    """Print the whole report: verdict, map, tables, what needs attention, summary.

    Args:
        record: of a run.
        console: where to print; plain text if it is not a terminal.
        numbers: True to show tables of a sweep too. Groups that the map cannot show are in tables
            anyway.
    """
    ink, width = Ink.of(console), console.width
    found = groups(record.cells)
    unadjusted = sentences.warning(record)
    warning = [ink.text(f"! {unadjusted}", STYLE["failed"])] if unadjusted else []
    drawn = mapped(found)
    # The list of failures says all about groups that failed throughout.
    ran = [group for group in found if any(spot.done for spot in group.spots)]
    on_map = set(map(id, drawn))
    listed = [group for group in ran if numbers or id(group) not in on_map]
    blank = ink.text("")
    _print(console, [legend.title(record, found, ink), *headline(record, ink), *warning])
    _print(console, [legend.verdicts_key(found, ink, width)])
    if drawn:
        _print(console, [blank, *heat(drawn, ink, width)])
    if listed:
        _numbers(listed, console)
    _print(console, plots(found, ink, width))
    _print(console, growths(found, record, ink, width))
    console.print()
    console.rule(style="dim", characters="-" if ink.ascii_only else "─")
    for part in (
        issue_lines(record, ink),
        matrix(record, ink, width),
        overview(record, ink, width),
    ):
        if lines := list(part):
            _print(console, [*lines, blank])
    if len(listed) < len(ran):
        console.print(ink.text("The numbers of every cell: --numbers", "dim"))
    _print(console, [*warning, *summary_lines(record, ink)])


def _print(console: Console, lines: Iterable[Text | Table]) -> None:
    for line in lines:
        console.print(line)


def _numbers(found: list[Group], console: Console) -> None:
    """Print tables of the results below the meaning of their signs."""
    ink = Ink.of(console)
    tables = list(_tables(found, ink, console.width))
    console.print()
    _print(console, legend.numbers_key(found, set(ink.seen), ink, console.width))
    _print(console, tables)
    _print(console, against(found, ink, console.width))


def _tables(found: list[Group], ink: Ink, width: int) -> Iterator[Text | Table]:
    """Return a table for each group; groups that sweep nothing share one."""
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
        yield legend.group_title(group, ink, width)
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
    """Print the notes of estimators and of the engine on every cell."""
    ink = Ink.of(console)
    for cell in record.cells:
        notes = cell.estimate.notes if cell.estimate else []
        console.print()
        place = settings(cell.swept, cell.swept)
        console.print(ink.text(" · ".join([*names(cell), *place]), "bold"))
        for note in notes:
            console.print(ink.text(f"  {note}"))
