"""Auditors of one run against published values and naive sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special, stats

from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.one_run import (
    SMALLEST_ERROR,
    approximate_blow_up,
    gaussian_blow_up,
    one_run_epsilon,
    one_run_fdp_epsilon,
    one_run_fdp_p_value,
    one_run_gaussian_mu,
    one_run_p_value,
    one_run_rejects,
)

ERROR = 0.05
VECTORS = [
    # canaries, guesses, correct; ε at δ = 0 and 1e-5; μ and its ε at 1e-5
    ((100, 100, 100), (3.49297, 3.49022), (1.70316, 8.21619)),
    ((1000, 1000, 1000), (5.80907, 5.78228), (2.36807, 12.33457)),
    ((1000, 100, 98), (2.72318, 2.71096), (0.97044, 4.22787)),
    ((1000, 1000, 600), (0.29747, 0.29723), (0.16385, 0.58354)),
    ((1000, 200, 180), (1.79887, 1.79629), (0.69820, 2.90124)),
    ((10_000, 1000, 900), (2.02123, 2.01519), (0.67719, 2.80260)),
    ((5000, 5000, 4000), (1.32774, 1.32738), (0.57566, 2.33374)),
]


@pytest.mark.parametrize(("counts", "expected", "gaussian"), VECTORS)
def test_reference_values(
    counts: tuple[int, int, int], expected: tuple[float, float], gaussian: tuple[float, float]
) -> None:
    found = [one_run_epsilon(*counts, delta, ERROR) for delta in (0.0, 1e-5)]
    assert found == pytest.approx(expected, abs=6e-6)
    mu = one_run_gaussian_mu(*counts, ERROR)
    assert (mu, float(gaussian_epsilon(1e-5, mu))) == pytest.approx(gaussian, abs=6e-6)


def test_reference_p_values() -> None:
    assert one_run_p_value(1000, 100, 98, 2, 1e-5) == pytest.approx(0.00165236, abs=6e-9)
    assert one_run_p_value(10_000, 1000, 900, 2, 1e-5) == pytest.approx(0.03730395, abs=6e-9)


sizes = st.integers(1, 60).flatmap(
    lambda m: st.integers(0, m).flatmap(
        lambda r: st.tuples(st.just(m), st.just(r), st.integers(0, r))
    )
)


@given(sizes, st.floats(0, 20), st.sampled_from([0.0, 1e-6, 1e-3, 0.1]))
def test_p_value_against_sums_of_the_binomial(
    counts: tuple[int, int, int], epsilon: float, delta: float
) -> None:
    m, r, v = counts
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(r, j) * q**j * (1 - q) ** (r - j) for j in range(r + 1)]
    beta = math.fsum(mass[v:])
    gains = [(math.fsum(mass[v - i : v])) / i for i in range(1, v + 1)]
    expected = min(1.0, beta + 2 * m * delta * max(gains, default=0.0))
    assert one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=30)
@given(sizes, st.sampled_from([0.0, 1e-5, 1e-2]))
def test_p_value_rises_with_epsilon_and_the_bound_inverts_it(
    counts: tuple[int, int, int], delta: float
) -> None:
    p_values = [one_run_p_value(*counts, e, delta) for e in np.linspace(0, 12, 60)]
    assert np.all(np.diff(p_values) >= -1e-12)
    bound = one_run_epsilon(*counts, delta, ERROR)
    assert math.isfinite(bound)
    assert one_run_p_value(*counts, bound + 1e-9, delta) > ERROR
    if bound > 0:
        assert one_run_p_value(*counts, bound, delta) <= ERROR + 1e-12


@settings(max_examples=30)
@given(sizes, st.sampled_from([0.01, 0.2]))
def test_curves_are_rejected_up_to_one_of_them(counts: tuple[int, int, int], error: float) -> None:
    bound = one_run_gaussian_mu(*counts, error)

    def rejected(mu: float) -> bool:
        return one_run_rejects(*counts, lambda x: float(special.ndtr(special.ndtri(x) - mu)), error)

    assert [rejected(mu) for mu in np.linspace(0, max(bound - 1e-6, 0), 8)[:-1]] == [
        bound > 1e-6
    ] * 7
    assert not any(rejected(mu) for mu in np.linspace(bound + 1e-6, bound + 3, 8))


def test_no_guesses_and_no_luck_show_nothing() -> None:
    for counts in ((100, 0, 0), (100, 100, 0), (100, 100, 50), (1, 1, 1)):
        assert one_run_epsilon(*counts, 1e-5, ERROR) == 0
        assert one_run_gaussian_mu(*counts, ERROR) == 0


def test_a_randomised_response_is_not_refuted() -> None:
    """Exact: m answers kept with probability e^ε/(1 + e^ε), the worst case of the theorem."""
    m, epsilon = 80, 1.0
    correct = np.arange(m + 1)
    bounds = np.array([one_run_epsilon(m, m, int(v), 0.0, ERROR) for v in correct])
    mass = stats.binom.pmf(correct, m, special.expit(epsilon))
    false_alarm = mass[bounds > epsilon].sum()
    assert 0.5 * ERROR < false_alarm <= ERROR
    assert bounds.max() > epsilon


CURVES = {
    "gaussian": gaussian_blow_up(1.0),
    "approximate": approximate_blow_up(1.5, 1e-3),
}


@pytest.mark.parametrize("counts", [counts for counts, *_ in VECTORS[:5]])
def test_bounds_of_a_curve_agree_with_those_of_the_binomial(counts: tuple[int, int, int]) -> None:
    """Two theorems, one claim: at δ = 0 they differ by what the recursion gives away."""
    binomial, curve = one_run_epsilon(*counts, 0.0, ERROR), one_run_fdp_epsilon(*counts, 0.0, ERROR)
    assert curve == pytest.approx(binomial, rel=0.02)
    assert curve <= binomial + 1e-9
    assert one_run_fdp_epsilon(*counts, 1e-5, ERROR) <= curve


@given(sizes, st.sampled_from(sorted(CURVES)))
@settings(max_examples=40)
def test_p_value_of_a_curve_is_where_rejection_begins(
    counts: tuple[int, int, int], name: str
) -> None:
    blow_up = CURVES[name]
    p_value = one_run_fdp_p_value(*counts, blow_up)
    assert SMALLEST_ERROR < p_value <= 1
    if p_value < 1:
        assert one_run_rejects(*counts, blow_up, p_value)
    if p_value > 2 * SMALLEST_ERROR:
        assert not one_run_rejects(*counts, blow_up, 0.9999 * p_value)


@given(sizes, st.floats(0, 20), st.sampled_from([0.0, 1e-6, 1e-3, 0.1]))
def test_blow_up_of_approximate_dp(
    counts: tuple[int, int, int], epsilon: float, delta: float
) -> None:
    """It is f(1 − x) of the curve that has the larger of two lines."""
    x = counts[1] / counts[0]
    lines = (1 - delta - math.exp(epsilon) * (1 - x), math.exp(-epsilon) * (x - delta))
    assert approximate_blow_up(epsilon, delta)(x) == pytest.approx(max(0.0, *lines))
    assert 0 <= approximate_blow_up(epsilon, delta)(x) <= x * (1 + 1e-12)


@pytest.mark.parametrize("guesses", [10, 40, 80])
def test_curves_of_a_randomised_response_are_not_refuted(guesses: int) -> None:
    """Exact, at every error: the number of right guesses is binomial."""
    m, epsilon = 80, 1.0
    mass = stats.binom.pmf(np.arange(guesses + 1), guesses, special.expit(epsilon))
    p_values = np.array(
        [
            one_run_fdp_p_value(m, guesses, v, approximate_blow_up(epsilon, 0.0))
            for v in range(guesses + 1)
        ]
    )
    for error in (0.5, 0.1, 0.01, 1e-4):
        refuted = mass[p_values <= error].sum()
        assert refuted <= error
    assert mass[p_values <= 0.1].sum() > 0.01


def test_curves_of_a_gaussian_mechanism_are_not_refuted() -> None:
    """Exact: each canary has noise of its own, and is guessed by the sign."""
    mu, m = 1.0, 40
    right = float(special.ndtr(mu / 2))
    mass = stats.binom.pmf(np.arange(m + 1), m, right)
    p_values = np.array([one_run_fdp_p_value(m, m, v, gaussian_blow_up(mu)) for v in range(m + 1)])
    for error in (0.3, 0.05, 1e-3):
        assert mass[p_values <= error].sum() <= error
    assert mass[p_values <= 0.3].sum() > 0.004
