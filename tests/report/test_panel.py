"""A curve in characters has no gaps, rising or falling, and leaves out what is off its axes."""

from __future__ import annotations

import math

import pytest
from rich.console import Console

from dpframe.report.terminal.elements import Ink
from dpframe.report.terminal.plots import draw, linear_axis, log_axis, true_positives

INK = Ink.of(Console(color_system=None, width=80, legacy_windows=False))


def rows(curve, *, upright=None, points=()):
    more = () if upright is None else (upright,)
    lines = draw(curve, points, linear_axis(), (45, 14), INK, *more)
    return [line.plain for line in lines]


def drawn(text):
    """Columns of each row that the curve takes."""
    return [
        {x for x, sign in enumerate(row.partition("│")[2]) if 0x2800 < ord(sign) < 0x2900}
        for row in text[:-2]
    ]


@pytest.mark.parametrize("rising", [False, True])
def test_a_step_is_drawn_from_where_it_was_to_where_it_is(rising):
    found = drawn(rows(lambda x: float((x > 0.5) == rising)))
    assert all(found)
    assert len(found[0]) > 15
    assert len(found[-1]) > 15
    assert all(len(columns) == 1 for columns in found[1:-1])


def test_what_leaves_the_vertical_axis_is_not_drawn():
    found = drawn(rows(lambda x: math.nan if x < 0.5 else 1e-3, upright=true_positives(2)))
    assert not any(found)


def test_rates_stand_where_the_logarithmic_axes_have_them():
    upright = true_positives(4)
    lines = draw(lambda x: x, [(0.01, 0.01, ("*", ""))], log_axis(4), (60, 14), INK, upright)
    text = [line.plain for line in lines]
    (row,) = (n for n, line in enumerate(text) if "*" in line)
    assert text[row].startswith("  0.01 │")
    assert text[row].index("*") - text[row].index("│") == pytest.approx(27, abs=1)
    assert {len(line) for line in text} == {60}
    assert text[1].startswith("   TPR │")
    assert text[11].startswith("0.0001 │")
