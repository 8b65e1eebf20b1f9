"""The radius of a histogram: reference values, each tail at its own level, and not vacuous."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from dpframe.stats.histograms import (
    canonne_radius,
    hockey_stick,
    one_sided_radius,
    total_variation,
)

ALPHA = 1e-6
"""False alarms of each statistical test, at fixed seeds."""


@pytest.mark.parametrize(
    ("n", "k", "error", "paper", "sharper"),
    [
        (1e3, 10, 0.01, 0.10294, 0.09799),
        (1e4, 10, 0.01, 0.032552, 0.030986),
        (1e6, 20, 1e-4, 0.00447214, 0.00438203),
        (1e6, 100, 0.01, 0.01, 0.00651743),
        (5e6, 20, 1e-4, 0.002, 0.0019597),
    ],
)
def test_reference_values(n: float, k: int, error: float, paper: float, sharper: float) -> None:
    assert float(canonne_radius(n, k, error)) == pytest.approx(paper, rel=5e-5)
    assert float(one_sided_radius(n, k, error)) == pytest.approx(sharper, rel=5e-5)


def test_bins_that_cost_nothing() -> None:
    assert 2 * math.log(2 / 1e-4) == pytest.approx(
        19.8, abs=0.01
    )  # so 20 bins cost next to nothing
    assert canonne_radius(1e4, 7, 0.05) == canonne_radius(1e4, 1, 0.05)
    assert canonne_radius(1e4, 8, 0.05) > canonne_radius(1e4, 7, 0.05)


@given(st.integers(1, 10**9), st.integers(1, 5000), st.floats(1e-300, 1))
def test_the_sharper_radius_is_never_larger(n: int, k: int, error: float) -> None:
    sharper, paper = float(one_sided_radius(n, k, error)), float(canonne_radius(n, k, error))
    assert 0 < sharper <= paper * (1 + 1e-12) <= 1 + 1e-12
    assert one_sided_radius(n, k, error / 2) >= sharper
    assert one_sided_radius(n, k + 1, error) >= sharper


LAWS = {
    "one bin of two": np.array([0.5, 0.5]),
    "rare": np.array([0.01, 0.99]),
    "even": np.full(20, 1 / 20),
    "many": np.full(100, 1 / 100),
    "geometric": np.array([2.0 ** -(j + 1) for j in range(30)] + [2.0**-30]),
}


@pytest.mark.parametrize("error", [0.5, 0.05])
@pytest.mark.parametrize("law", LAWS)
def test_a_histogram_is_further_off_as_rarely_as_promised(law: str, error: float) -> None:
    """5,000 histograms per law, for each radius."""
    p, n, repeats = LAWS[law], 400, 5_000
    drawn = np.random.default_rng(5).multinomial(n, p, repeats) / n
    distances = np.abs(drawn - p).sum(axis=1) / 2
    most = stats.binom.isf(ALPHA, repeats, error)
    for radius in (canonne_radius, one_sided_radius):
        assert (distances > radius(n, len(p), error)).sum() <= most
    # Non-vacuity: where all bins are alike the radius is of the right size.
    if law in {"even", "many"}:
        assert one_sided_radius(n, len(p), error) < 2 * np.quantile(distances, 1 - error)


def test_the_one_sided_radius_is_exceeded_now_and_then() -> None:
    """A radius that nothing ever exceeds would pass any test of validity."""
    drawn = np.random.default_rng(6).binomial(400, 0.5, 200_000) / 400
    missed = (np.abs(drawn - 0.5) > one_sided_radius(400, 2, 0.5)).mean()
    assert 0.003 < missed < 0.5


@given(
    st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=2, max_size=8).filter(
        lambda rows: all(any(row[j] for row in rows) for j in range(4))
    ),
    st.floats(0, 5),
)
def test_lemma_3(rows: list[tuple[int, ...]], epsilon: float) -> None:
    """|H(P‖Q) − H(P̂‖Q̂)| ≤ TV(P, P̂) + e^ε TV(Q, Q̂)."""
    p, q, p_found, q_found = (np.array(column) / sum(column) for column in zip(*rows, strict=True))
    off = abs(hockey_stick(p, q, epsilon) - hockey_stick(p_found, q_found, epsilon))
    limit = total_variation(p, p_found) + math.exp(epsilon) * total_variation(q, q_found)
    assert off <= limit + 1e-9
