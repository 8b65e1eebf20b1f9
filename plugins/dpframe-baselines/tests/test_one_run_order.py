"""The law of wrong guesses, against integrals, simulations and the table of its authors.

False-alarm rate: 1e-6 a test, at fixed seeds.
"""

import math

import numpy as np
import pytest
from dpframe_baselines.one_run_order import (
    gaussian_profile,
    subsampled_profile,
    wrong_guesses_mu,
    wrong_guesses_p_value,
)
from published import published
from scipy import integrate, optimize, stats

TABLE = published("xiang-2025")
SMALL = [row for row in TABLE if row["canaries"] <= 1000]
DEVIATION = 5e-5
"""Largest relative deviation from a published bound; half a unit of its last digit is 2e-5."""


def densities(mu, rate):
    """Return the densities of scores of canaries out and in."""
    normal = stats.norm
    return normal.pdf, lambda x: (1 - rate) * normal.pdf(x) + rate * normal.pdf(x - mu)


def share_and_wrong(mu, rate, threshold):
    """Integrate over scores with |log-likelihood ratio| above a threshold."""
    out, inside = densities(mu, rate)
    x = np.linspace(-12, 12 + mu, 200_001)
    p, q = out(x), inside(x)
    clear = np.abs(np.log(q / p)) > threshold
    width = x[1] - x[0]
    return (clear * (p + q)).sum() / 2 * width, (clear * np.minimum(p, q)).sum() / 2 * width


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 1.0), (2.5, 1.0), (1.0, 0.5), (2.0, 0.2)])
@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.3, 1.0, 1.6])
def test_a_profile_is_an_integral_over_scores(mu, rate, threshold):
    profile = gaussian_profile(mu) if rate == 1 else subsampled_profile(mu, rate)
    right, wrong = (float(one[0]) for one in profile(np.array([threshold])))
    share, expected = share_and_wrong(mu, rate, threshold)
    assert right + wrong == pytest.approx(share, abs=2e-4)
    assert wrong == pytest.approx(expected, abs=2e-4)


def naive_p_value(canaries, guesses, wrong, mu):
    """Integrate the binomial sum over the quantile of the clearest score without a guess."""

    def mean_error(share):
        def excess(t):
            return stats.norm.cdf(mu / 2 - t) + stats.norm.cdf(-mu / 2 - t) - share

        t = optimize.brentq(excess, 0.0, 40.0) if excess(0.0) > 0 else 0.0
        return stats.norm.cdf(-mu / 2 - t) / share

    def term(share):
        q = mean_error(share)
        few = sum(math.comb(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(wrong + 1))
        return few * stats.beta.pdf(share, guesses + 1, canaries - guesses)

    middle = (guesses + 1) / (canaries + 1)
    return integrate.quad(term, 1e-9, 1.0, points=[middle], epsabs=1e-11, limit=200)[0]


@pytest.mark.parametrize(
    ("canaries", "guesses", "wrong", "mu"),
    [(2, 1, 0, 1.0), (5, 4, 2, 0.3), (30, 1, 0, 2.0), (30, 10, 3, 1.0), (60, 59, 12, 1.5)],
)
def test_a_p_value_is_the_integral_of_binomial_sums(canaries, guesses, wrong, mu):
    expected = naive_p_value(canaries, guesses, wrong, mu)
    found = wrong_guesses_p_value(canaries, guesses, wrong, gaussian_profile(mu))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(("guesses", "wrong"), [(1, 0), (7, 1), (19, 4), (20, 5)])
def test_a_p_value_is_the_share_of_simulated_runs(guesses, wrong):
    rng, mu, runs, m = np.random.default_rng(guesses), 1.2, 40_000, 20
    coins = rng.random((runs, m)) < 0.5
    scores = mu * coins + rng.normal(size=(runs, m)) - mu / 2
    clearest = np.argsort(-np.abs(scores), axis=1)[:, :guesses]
    guessed, true = (np.take_along_axis(one, clearest, axis=1) for one in (scores > 0, coins))
    hits = int(((guessed != true).sum(1) <= wrong).sum())
    p_value = wrong_guesses_p_value(m, guesses, wrong, gaussian_profile(mu))
    assert min(stats.binom.cdf(hits, runs, p_value), stats.binom.sf(hits - 1, runs, p_value)) > 5e-7


def test_corners_of_the_law():
    profile = gaussian_profile(1.0)
    for canaries, guesses in ((50, 50), (50, 20), (50, 49), (1, 1), (10**6, 1)):
        assert wrong_guesses_p_value(canaries, guesses, guesses, profile) == pytest.approx(1.0)
        assert 0 < wrong_guesses_p_value(canaries, guesses, 0, profile) < 1
    assert wrong_guesses_mu(1000, 1000, 500, 0.05) == 0
    assert wrong_guesses_mu(1000, 100, 50, 0.05) == 0
    assert wrong_guesses_mu(1000, 100, 0, 0.05) > wrong_guesses_mu(1000, 100, 1, 0.05) > 1


def loss(mu, rate, delta=1e-5):
    """Return ε(δ) of N(0, 1) against a mixture, from the side on which scores are larger."""

    def excess(epsilon):
        x = (math.log((math.exp(epsilon) - (1 - rate)) / rate) + mu * mu / 2) / mu
        inside = (1 - rate) * stats.norm.sf(x) + rate * stats.norm.sf(x - mu)
        return inside - math.exp(epsilon) * stats.norm.sf(x) - delta

    return optimize.brentq(excess, 1e-9, 40.0, xtol=1e-10)


@pytest.mark.parametrize(
    "rows", [SMALL, pytest.param(TABLE, marks=pytest.mark.slow)], ids=["1000", "all"]
)
def test_the_bounds_of_xiang_et_al_are_found_again(rows):
    """All 60 rows are within 3e-5 of the published bounds, relative."""
    assert len(TABLE) == 60
    for row in rows:
        rate = row["rate"]
        family = gaussian_profile if rate == 1 else lambda mu, q=rate: subsampled_profile(mu, q)
        counts = int(row["canaries"]), int(row["guesses"]), int(row["wrong"])
        bound = loss(wrong_guesses_mu(*counts, 0.05, family), rate)
        assert bound == pytest.approx(row["bound"], rel=DEVIATION), row
        assert loss(row["mu"], rate) == pytest.approx(row["epsilon"], abs=1e-4)
