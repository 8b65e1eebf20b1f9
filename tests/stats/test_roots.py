"""Root finding: the right end of the right bracket, in few steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe.stats.roots import Judged, bisection_each, crossing, newton_each


@given(
    root=st.floats(0, 600),
    guess=st.floats(0, 1000),
    spread=st.floats(1e-6, 100),
    bend=st.sampled_from([1.0, 3.0, 9.0]),
)
def test_finds_the_root_from_any_guess(
    root: float, guess: float, spread: float, bend: float
) -> None:
    calls = 0

    def function(x: float) -> float:
        nonlocal calls
        calls += 1
        return math.copysign(abs(x - root) ** bend, x - root)

    found = crossing(function, guess=guess, spread=spread, tolerance=1e-9)
    assert found <= root
    assert found == pytest.approx(root, abs=2e-9 * (1 + root) + 1e-300 ** (1 / bend))
    assert calls < 150


@pytest.mark.parametrize("at", [0.0, 1e-12, 3.25, 699.0])
def test_jumps_and_infinities(at: float) -> None:
    found = crossing(lambda x: math.inf if x > at else -math.inf)
    assert found <= at
    assert found == pytest.approx(at, abs=1e-9)


def test_ends() -> None:
    assert crossing(lambda x: 1.0) == 0
    assert crossing(lambda x: -1.0, most=5.0) == 5
    assert crossing(lambda x: x, guess=0.0) == 0
    assert crossing(lambda x: x - 2, guess=9.0, most=3.0) == pytest.approx(2)


def test_bisection_of_many_is_that_of_each() -> None:
    places = np.concatenate([-np.geomspace(1e-9, 600, 50), np.geomspace(1e-9, 600, 50)])
    ends = np.full(100, -700.0), np.full(100, 700.0)
    low, high = bisection_each(lambda x: x > places, *ends, steps=30)
    assert (low <= places).all()
    assert (high > places).all()
    assert (high - low == 1400 / 2**30).all()
    alone = bisection_each(lambda x: x > places[3:4], ends[0][:1], ends[1][:1], steps=30)
    assert (alone[0], alone[1]) == (low[3], high[3])


@pytest.mark.parametrize("bend", [1 / 3, 1.0, 3.0])
def test_newton_finds_every_root_whatever_its_steps_are_worth(bend: float) -> None:
    """With a bend of 1/3 every step of Newton's method leads away: the brackets must see to it."""
    roots = np.geomspace(1e-6, 1e6, 40)

    def judge(x: np.ndarray) -> Judged:
        value = np.sign(x - roots) * np.abs(x - roots) ** bend
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - value / (bend * np.abs(x - roots) ** (bend - 1))
        return Judged(value > 0, value == 0, newton)

    start, low, high = np.full(40, 1.0), np.zeros(40), np.full(40, np.inf)
    found = newton_each(judge, start, low, high, tolerance=1e-12, least=0.0, steps=200)
    assert found == pytest.approx(roots, rel=1e-10)
