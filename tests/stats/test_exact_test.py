"""The exact test of two counts: its size by enumeration, and against brute force."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpframe import PureDP, Query, epsilon_of, estimate_from_boxes
from dpframe.stats.binomial import probability_of
from dpframe.stats.exact_test import EventCounts, exact_region, is_enumerable, loss_shown

TINY = [(5, 5), (4, 7), (1, 1), (9, 3)]


def outcomes(n: int, m: int) -> list[EventCounts]:
    return [EventCounts(k, n, j, m) for k in range(n + 1) for j in range(m + 1)]


def probabilities(n: int, m: int, fpr: float, tpr: float) -> np.ndarray:
    return np.outer(
        stats.binom.pmf(range(n + 1), n, fpr), stats.binom.pmf(range(m + 1), m, tpr)
    ).ravel()


@functools.cache
def shown_by(n: int, m: int, delta: float) -> np.ndarray:
    return np.array([float(loss_shown(o, delta, either_rate=False)) for o in outcomes(n, m)])


def naive_p_values(n: int, m: int, epsilon: float, delta: float) -> np.ndarray:
    """The largest probability of what shows as much, by brute force on the edge of the claim."""
    shown = shown_by(n, m, delta)
    hits = shown[None, :] >= shown[:, None]
    rates = np.linspace(0, 1, 201)
    tops = np.minimum(delta + np.exp(epsilon) * rates, 1)
    chances = np.stack([probabilities(n, m, x, y) for x, y in zip(rates, tops, strict=True)])
    return (hits @ chances.T).max(axis=1)


@pytest.mark.parametrize(("n", "m"), TINY)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.7, 0.0), (0.3, 0.1)])
def test_p_values_are_those_of_brute_force(n: int, m: int, epsilon: float, delta: float) -> None:
    naive_of = zip(outcomes(n, m), naive_p_values(n, m, epsilon, delta).tolist(), strict=True)
    for outcome, naive in naive_of:
        region = exact_region(outcome, delta, either_rate=False)

        def rejected(error: float, region=region) -> bool:
            x, y = np.moveaxis(region(error)[0], -1, 0)
            return bool((y < 1 - delta - math.exp(epsilon) * x).all())

        assert not rejected(min(1.0, naive * (1 - 1e-6)))
        assert naive > 0.5 or rejected(1.5 * naive + 1e-9)  # the grid costs something


@functools.cache
def regions(n: int, m: int, delta: float, either_rate: bool, either_way: bool) -> list:
    return [
        exact_region(each, delta, either_rate=either_rate, either_way=either_way)
        for each in outcomes(n, m)
    ]


@pytest.mark.parametrize("either_way", [False, True])
@pytest.mark.parametrize(("n", "m", "delta"), [(7, 7, 0.0), (5, 9, 0.05), (1, 6, 0.0)])
@pytest.mark.parametrize("error", [0.2, 0.05, 2e-4])
def test_no_pair_of_rates_is_missed_more_often_than_promised(
    n: int, m: int, delta: float, error: float, either_way: bool
) -> None:
    """Exact: every outcome, on a lattice of rates. So the test has no false alarms."""
    corners = [one(error)[0] for one in regions(n, m, delta, True, either_way)]
    for x, y in itertools.product((0.0, 0.05, 0.2, 0.5, 0.7, 1.0), repeat=2):
        if x + y > 1:
            if not either_way:
                continue  # cut there
            fpr, fnr = 1 - x, 1 - y
        else:
            fpr, fnr = x, y
        missed = [not ((fpr <= each[:, 0]) & (fnr <= each[:, 1])).any() for each in corners]
        assert probabilities(n, m, x, 1 - y) @ missed <= error * (1 + 1e-9)


def test_it_grows_with_evidence_and_falls_with_the_claim() -> None:
    query = Query((20, 20), 0.0, 0.95, PureDP(0.5))

    def asked(k: int, j: int, epsilon: float = 0.5) -> tuple[float, float]:
        region = exact_region(EventCounts(k, 20, j, 20), 0.0, either_rate=True, either_way=True)
        found = estimate_from_boxes(region, query._replace(claim=PureDP(epsilon)), epsilon=0.0)
        assert found.p_value is not None
        assert found.epsilon_lower is not None
        assert (found.p_value <= 0.05) == (found.epsilon_lower > epsilon)
        return found.p_value, found.epsilon_lower

    for k, j in ((0, 20), (20, 20), (7, 12), (1, 4)):
        p, bound = asked(k, j)
        if k < j:
            assert asked(max(k - 1, 0), j)[0] <= p
            assert asked(max(k - 1, 0), j)[1] >= bound
            assert asked(k, min(j + 1, 20))[0] <= p
        assert asked(k, j, 0.3)[0] <= p <= asked(k, j, 0.9)[0]
    assert asked(0, 20)[0] < 1e-4
    assert asked(10, 10) == (1.0, 0.0)


def size(n: int, epsilon: float, error: float, either_way: bool) -> float:
    """The probability that randomised response with ε is certified to lose more."""

    def hit(false: int, missed: int) -> bool:
        outcome = EventCounts(false, n, n - missed, n)
        region = exact_region(outcome, 0.0, either_rate=True, either_way=either_way, level=error)
        return epsilon_of(region(error), 0.0) > epsilon

    return probability_of(hit, n, 1 / (1 + math.exp(epsilon)), error)


@pytest.mark.parametrize("error", [0.05, 0.05 / 252])
def test_most_of_the_error_is_used(error: float) -> None:
    assert 0.6 * error <= size(30, 1.0, error, True) <= error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "error", "least"),
    [(0.5, 0.05, 0.03), (1.0, 0.05, 0.03), (3.0, 0.05, 0.03), (1.0, 0.05 / 252, 0.6 * 0.05 / 252)],
)
def test_most_of_the_error_is_used_of_a_thousand_trials(
    epsilon: float, error: float, least: float
) -> None:
    assert least <= size(1000, epsilon, error, True) <= error


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_outcomes_are_in_order_at_any_level(level: float) -> None:
    """Limits at larger errors lie beyond the frequencies, and their loss may not be a number."""
    false, true = np.arange(13)[:, None], np.arange(9)
    for delta, either_rate in itertools.product((0.0, 0.1, 0.3), (False, True)):
        counts = EventCounts(false, 12, true, 8)
        shown = loss_shown(counts, delta, either_rate=either_rate, level=level)
        assert not np.isnan(shown).any()
        assert (shown[:, 1:] >= shown[:, :-1]).all()
        assert (shown[1:] <= shown[:-1]).all()
    for outcome in outcomes(4, 6):
        region = exact_region(outcome, 0.3, either_rate=True, either_way=True, level=level)
        assert region(level).shape[1] > 0


def test_what_is_enumerated() -> None:
    assert is_enumerable(1, 1000)
    assert not is_enumerable(0, 5)
    assert not is_enumerable(1000, 1001)
