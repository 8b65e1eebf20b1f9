"""Claims as trade-off curves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe import ApproxDP, PureDP


@given(st.floats(0, 20), st.floats(0, 0.3), st.floats(0, 20))
def test_delta_of_epsilon_is_the_supremum_over_the_curve(
    epsilon: float, delta: float, other: float
) -> None:
    """δ(ε′) = sup_x 1 − e^ε′ x − f(x): the support of the curve, over its two corners and ends."""
    claim = ApproxDP(epsilon, delta)
    corner = (1 - delta) / (1 + math.exp(epsilon))
    x = np.array([0.0, corner, 1 - delta])
    naive = max(0.0, float(np.max(1 - math.exp(other) * x - claim.tradeoff(x))))
    assert claim.delta_at(other) == pytest.approx(naive, abs=1e-9)


def test_claims_report_themselves() -> None:
    assert PureDP(1.5).epsilon_at(0.0) == 1.5
    assert PureDP(1.5).default_delta == 0.0
    assert ApproxDP(1.5, 1e-5).default_delta == 1e-5
    assert ApproxDP(epsilon=1.5, delta=1e-5).epsilon_at(1e-5) == 1.5


@pytest.mark.parametrize("epsilon", [-1.0, math.inf, math.nan])
def test_nonsense_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        PureDP(epsilon)
    with pytest.raises(ValueError, match="delta"):
        ApproxDP(1.0, 1.0)


def test_a_huge_epsilon_does_not_overflow() -> None:
    assert np.all(np.isfinite(PureDP(1e6).tradeoff(np.linspace(0, 1, 5))))
