"""The results of `compare`, `score` and `calibrate` in the terminal."""

from typing import Any

from rich.console import Console

from dpframe.report import calibration, comparison, scores
from dpframe.report.terminal.text import show_parts


def render_comparison(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.compare`."""
    show_parts(console, comparison.parts(found))


def render_scores(
    found: dict[str, Any],
    console: Console,
    *,
    remarks: bool = False,
    estimates: bool = False,
    every: bool = False,
) -> None:
    """Print the answer of `dpframe.score` or `score_one_run`; `scores.parts` has the options."""
    made = scores.parts(found, remarks=remarks, estimates=estimates, every=every)
    show_parts(console, made)


def render_calibration(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.calibrate`."""
    show_parts(console, calibration.parts(found))
