"""Root finding: the right end of the right bracket, in few steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpframe.stats.roots import crossing


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
