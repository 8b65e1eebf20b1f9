"""The display of a run that is going on."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from dpframe.report.terminal.ink import Ink
from dpframe.report.words import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console


LABEL_WIDTH = 24


class ProgressCallback(Protocol):
    """What the engine calls, as often as it likes, from any thread."""

    def __call__(self, *, cells_done: int, draws_done: int, label: str) -> None:
        """Takes totals since the beginning of the run, and what is being worked on."""


def ignore(*, cells_done: int, draws_done: int, label: str) -> None:
    """The callback that shows nothing."""


@contextmanager
def run_progress(
    console: Console,
    total_cells: int,
    total_draws: int,
    *,
    quiet: bool = False,
    unit: str = "draws",
) -> Iterator[ProgressCallback]:
    """Shows cells done, draws per second and time left, and vanishes at the end.

    What is printed through `console` meanwhile, or to standard error, appears above the display.

    Args:
        console: of standard error, so that standard output stays for results.
        total_cells: cells of the run.
        total_draws: draws of the run; 0 if unknown.
        quiet: show nothing. Nothing is shown either where the console is not a terminal.
        unit: what is counted, if not draws.
    """
    if quiet or console.quiet or not console.is_terminal or console.is_dumb_terminal:
        yield ignore
        return
    ink = Ink.of(console)
    display = Progress(
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(width=LABEL_WIDTH, no_wrap=True, overflow="ellipsis"),
        ),
        BarColumn(bar_width=None, complete_style="color(30)", finished_style="color(30)"),
        TextColumn(
            "{task.fields[cells_done]}/{task.fields[cells]} cells",
            markup=False,
            table_column=Column(no_wrap=True),
        ),
        _Rate(unit),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
        TextColumn("left", table_column=Column(no_wrap=True)),
        console=console,
        transient=True,
        expand=True,
        # Standard output may be a pipe that takes the record: then it is none of our business.
        redirect_stdout=sys.stdout.isatty(),
    )
    with display:
        task = display.add_task(
            "starting", total=total_draws or None, cells_done=0, cells=total_cells
        )
        begun = False

        def report(*, cells_done: int, draws_done: int, label: str) -> None:
            nonlocal begun
            if not begun:
                # A resumed run begins with draws that took no time now; they are no speed.
                display.reset(task, completed=draws_done)
                begun = True
            display.update(
                task,
                completed=draws_done,
                description=ink.plain(label).replace("\n", " "),
                cells_done=cells_done,
            )

        yield report


class _Rate(ProgressColumn):
    """Draws per second, or whatever is counted."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        super().__init__(table_column=Column(no_wrap=True, justify="right", min_width=21))

    def render(self, task: Task) -> Text:
        return Text(f"{quantity(task.speed) if task.speed else '-'} {self._unit}/s")
