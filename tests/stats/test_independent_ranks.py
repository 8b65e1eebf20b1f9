"""The two-sample test of ranks: its error under independent scores, and where it fails."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dpframe.stats.gaussian import gaussian_tradeoff
from dpframe.stats.independent_ranks import rank_gaussian_mu, rank_p_value, rank_test

RUNS = 200
ERROR = 0.05


def coins_by_score(
    rng: np.random.Generator, canaries: int, mu: float
) -> np.typing.NDArray[np.bool_]:
    """Toss coins, and order them by scores of a μ-GDP mechanism."""
    coins = rng.random(canaries) < 0.5
    return coins[np.argsort(rng.normal(size=canaries) + mu * coins)]


@pytest.mark.parametrize("canaries", [10, 100, 1000, 10_000])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_true_claims_are_refuted_with_the_stated_error(canaries: int, share: float) -> None:
    """Fails for a valid test with probability below 1e-6."""
    rng, refuted = np.random.default_rng(canaries), 0
    rank = int(share * canaries / 2)
    for _ in range(RUNS):
        test = rank_test(coins_by_score(rng, canaries, 1.0), rank)
        refuted += test is not None and rank_p_value(test, _gdp(1.0)) <= ERROR
    assert refuted <= stats.binom.isf(1e-6, RUNS, ERROR)


@pytest.mark.parametrize(("canaries", "least"), [(100, 0.4), (1000, 0.8), (10_000, 0.92)])
def test_it_is_not_vacuous(canaries: int, least: float) -> None:
    rng = np.random.default_rng(1)
    tests = [rank_test(coins_by_score(rng, canaries, 1.0), canaries // 20) for _ in range(8)]
    assert np.mean([rank_gaussian_mu(test, ERROR) for test in tests if test]) >= least


def test_counts_of_a_small_run() -> None:
    coins = np.array([0, 1, 0, 0, 1, 0, 1, 1], bool)  # by ascending scores
    assert rank_test(coins, 0) == (0, 4, 4, 3)  # 2 above the last out, 1 below the first in
    assert rank_test(coins, 1) == (1, 4, 4, 4)  # the ranks cross: 2 and 2
    assert rank_test(coins, 3) is None
    assert rank_test(np.array([0, 0, 0, 1, 1, 1], bool), 0) == (0, 3, 3, 4)  # apart
    assert rank_test(np.ones(8, bool), 0) is None


def test_a_level_that_all_canaries_share_makes_the_bound_exceed_the_truth() -> None:
    """Each canary's curve is exactly 1-GDP, but one level of noise serves all of them.

    The level is |x − ½|, with x from the equal mixture of N(0, 1) and N(1, 1), and each coin is
    answered by randomised response. So the assumption decides about validity.
    """
    rng, above, canaries = np.random.default_rng(3), 0, 1000
    for _ in range(100):
        level = abs(rng.normal() + rng.integers(2) - 0.5)
        coins = rng.random(canaries) < 0.5
        answers = coins ^ (rng.random(canaries) >= expit(level))
        ordered = coins[np.lexsort((rng.random(canaries), answers))]
        test = rank_test(ordered, canaries // 10)
        above += test is not None and rank_p_value(test, _gdp(1.0)) <= ERROR
    assert above >= 19  # for a valid bound the probability is below 1e-6


def _gdp(mu: float):  # type: ignore[no-untyped-def]
    return lambda fpr: gaussian_tradeoff(fpr, mu)
