"""Tests of batches are valid at every level, by all outcomes of small cases, and not vacuous.

dpframe-torch tests the same functions at more sizes.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpframe.common.types import Floats
from dpframe.stats.sampling import p_of_evenness, p_of_total

LEVELS = (0.5, 0.2, 0.05, 0.01, 1e-3)


def is_valid(p_values: list[float], probabilities: Floats) -> bool:
    p = np.array(p_values)
    return all(probabilities[p <= level].sum() <= level * (1 + 1e-9) for level in LEVELS)


@pytest.mark.parametrize(("n", "k", "q"), [(1, 6, 0.3), (3, 5, 0.05), (6, 4, 0.8)])
def test_evenness_is_valid(n: int, k: int, q: float) -> None:
    outcomes = list(itertools.product(range(n + 1), repeat=k))
    law = stats.binom.pmf(np.arange(n + 1), n, q)
    masses = np.array([math.prod(law[list(one)]) for one in outcomes])
    assert is_valid([p_of_evenness(one, n) for one in outcomes], masses)


def test_evenness_finds_batches_of_one_size() -> None:
    assert p_of_evenness([40.0] * 10, 400) < 1e-9
    assert p_of_evenness(np.random.default_rng(1).binomial(400, 0.1, 50), 400) > 0.01
    for values in ([], [3.0], [0.0, 0.0], [5.0, 5.0]):
        assert p_of_evenness(values, 5) == 1.0


@pytest.mark.parametrize("q", [0.1, 0.4, 0.95])
def test_a_total_is_valid(q: float) -> None:
    totals = np.arange(41)
    law = stats.binom.pmf(totals, 40, q)
    assert is_valid([p_of_total(t, 40, q, q) for t in totals], law)
    assert is_valid([p_of_total(t, 40, q - 0.05, q + 0.05) for t in totals], law)


def test_a_total_finds_another_rate() -> None:
    assert p_of_total(5_000, 100_000, 0.06, 0.07) < 1e-6
    assert p_of_total(8_000, 100_000, 0.06, 0.07) < 1e-6
    assert p_of_total(40, 40, 1.0, 1.0) == p_of_total(0, 40, 0.0, 0.0) == 1.0
