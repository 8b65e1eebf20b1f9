"""Equation 6.2."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe.interfaces.estimator import epsilon_of
from dpframe.stats.binomial import clopper_pearson_upper, jeffreys_upper
from dpframe.stats.joint import threshold_epsilon

rates = st.floats(1e-300, 1) | st.just(0.0)
deltas = st.sampled_from([0.0, 1e-9, 1e-5, 0.1, 0.9])


def test_reference_values() -> None:
    assert threshold_epsilon(0.05, 0.3, 1e-5) == pytest.approx(2.639043, abs=5e-7)
    # A perfect attack in 1000 trials at 95 %.
    perfect = clopper_pearson_upper([0, 0], 1000, 0.025)
    assert threshold_epsilon(*perfect, 1e-5) == pytest.approx(5.60058, abs=5e-6)


@pytest.mark.parametrize(
    ("counts", "exact", "jeffreys"),
    [
        ((300, 700, 50, 950), 2.32769, 2.33708),
        ((10, 490, 20, 480), 3.24814, 3.28530),
        ((100, 400, 100, 400), 1.16481, 1.17067),
    ],
)
def test_limits_at_half_of_the_error_each(
    counts: tuple[int, int, int, int], exact: float, jeffreys: float
) -> None:
    fn, tp, fp, tn = counts
    for limit, expected in ((clopper_pearson_upper, exact), (jeffreys_upper, jeffreys)):
        fpr, fnr = limit(fp, fp + tn, 0.025), limit(fn, fn + tp, 0.025)
        assert threshold_epsilon(fpr, fnr, 1e-5) == pytest.approx(expected, abs=6e-6)


@given(rates, rates, deltas)
def test_agrees_with_the_loss_of_a_box(x: float, y: float, delta: float) -> None:
    found = float(threshold_epsilon(x, y, delta))
    if math.isfinite(found):
        assert found == pytest.approx(epsilon_of(np.array([[x, y]]), delta), abs=1e-9)


@given(st.floats(1e-6, 1), st.floats(1e-6, 1), deltas)
def test_is_where_the_hockey_stick_of_two_bins_reaches_delta(
    x: float, y: float, delta: float
) -> None:
    """Lemma 1 of the paper's section 6: two bins, both directions."""
    epsilon = float(threshold_epsilon(x, y, delta))

    def hockey_stick(a: float) -> float:
        forth = max(1 - y - a * x, 0) + max(y - a * (1 - x), 0)
        back = max(x - a * (1 - y), 0) + max(1 - x - a * y, 0)
        return max(forth, back)

    if x + y < 1 and epsilon > 0:
        assert hockey_stick(math.exp(epsilon)) == pytest.approx(delta, abs=1e-9)


def test_edges() -> None:
    found = threshold_epsilon([0, 0, 1, 0, 1, 0.5, 0], [0, 1, 0, 0.5, 1, 0.5, 0.99999], 1e-4)
    assert found.tolist() == [math.inf, 0, 0, math.inf, 0, 0, pytest.approx(0, abs=1e-2)]
    # Smaller rates never show less.
    grid = np.linspace(0, 1, 21)
    losses = threshold_epsilon(grid[:, None], grid[None, :], 1e-5)
    assert np.all(losses[1:] <= losses[:-1])
    assert np.all(losses[:, 1:] <= losses[:, :-1])
