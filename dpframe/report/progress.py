"""The progress display of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import progress
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.table import Column

from dpframe.common.text import escape
from dpframe.report.number_format import quantity

if TYPE_CHECKING:
    from dpframe.engine.run import Progress

LABEL_WIDTH = 24


def ignore(*, cells_done: int, draws_done: int, label: str) -> None:
    """Show nothing."""


@contextmanager
def run_progress(
    console: Console,
    total_cells: int,
    total_draws: int,
    *,
    quiet: bool = False,
    unit: str = "draws",
) -> Iterator[Progress]:
    """Show cells done, draws per second and time left; the display vanishes at the end.

    Lines printed through `console` or to standard error appear above the display. Nothing is shown
    if the console is not a terminal. `total_draws` is 0 if unknown; `unit` is the noun for draws.
    """
    if quiet or console.quiet or not console.is_terminal or console.is_dumb_terminal:
        yield ignore
        return

    def text(template: str, column: Column) -> TextColumn:
        return TextColumn(template, markup=False, table_column=column)

    label = Column(width=LABEL_WIDTH, no_wrap=True, overflow="ellipsis")
    cells = "{task.fields[cells_done]}/{task.fields[cells]} cells"
    display = progress.Progress(
        text("{task.description}", label),
        BarColumn(bar_width=None, complete_style="color(30)", finished_style="color(30)"),
        text(cells, Column(no_wrap=True)),
        text("{task.fields[rate]}", Column(no_wrap=True, justify="right", min_width=21)),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
        text("left", Column(no_wrap=True)),
        console=console,
        transient=True,
        expand=True,
        # Standard output may be a pipe that takes the record; then it must stay untouched.
        redirect_stdout=sys.stdout.isatty(),
    )
    with display:
        task = display.add_task(
            "starting", total=total_draws or None, cells_done=0, cells=total_cells, rate=""
        )
        begun = False

        def report(*, cells_done: int, draws_done: int, label: str) -> None:
            nonlocal begun
            if not begun:
                # Draws that a resumed run read from its checkpoint must not count as speed.
                display.reset(task, completed=draws_done)
                begun = True
            speed = display.tasks[0].speed
            display.update(
                task,
                completed=draws_done,
                description=escape(label),
                cells_done=cells_done,
                rate=f"{quantity(speed) if speed else '-'} {unit}/s",
            )

        yield report
