"""Chances of counts that vary from block to block: never below the truth, small if rates drift."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import bdtrc
from support.tiers import mostly_slow

from dpframe.stats import independence
from dpframe.stats.independence import log_chance_of_drift, log_chance_of_order

RARE = math.log(1e-6)


@pytest.mark.parametrize("hits", mostly_slow(range(13), (0, 1, 3, 6, 9, 12)))
@pytest.mark.parametrize("sizes", [(3, 3, 3, 3), (1, 4, 0, 2, 5), (6, 6)])
def test_no_pattern_is_accused_more_often_than_stated(
    hits: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every order of the hits is as likely as any other; one event, and one with its complement."""
    monkeypatch.setattr(independence, "CERTAIN", math.inf)
    ends, pay = np.cumsum(sizes), []
    for places in itertools.combinations(range(12), hits):
        row = np.isin(np.arange(12), places)
        counts = np.diff(np.cumsum(row)[ends - 1] * (ends > 0), prepend=0)
        both = np.stack([counts, np.array(sizes) - counts], axis=1)
        pay.append([math.exp(-log_chance_of_drift(np.array(sizes), part))
                    for part in (both[:, :1], both)])  # fmt: skip
    assert np.mean(pay, axis=0).max() <= 1 + 1e-9


def laplace(n: int, place: float | np.ndarray = 0.0, scale: float | np.ndarray = 1.0) -> np.ndarray:
    return np.random.default_rng(3).laplace(size=n) * scale + place


def changing(n: int, every: int) -> np.ndarray:
    return np.random.default_rng(4).choice([-1, 1], n // every + 1)[np.arange(n) // every]


GUILTY: dict[str, Callable[[], np.ndarray]] = {
    "sorted": lambda: np.sort(laplace(64)),
    "sorted decisions": lambda: np.arange(200) < 20,
    "grouped": lambda: laplace(1000, np.repeat([0.0, 0.8], 500)),
    "places that change": lambda: laplace(200_000, 0.05 * changing(200_000, 10_000)),
    "and at once": lambda: laplace(200_000, 0.05 * changing(200_000, 500)),
    "scales that change": lambda: laplace(200_000, 0, 1 + 0.1 * changing(200_000, 10_000)),
    "a rare value for a while": lambda: np.arange(100_000) // 500 == 7,
}


@pytest.mark.parametrize("name", GUILTY)
def test_drift_is_noticed(name: str) -> None:
    assert log_chance_of_order(GUILTY[name]()) < RARE


def test_independent_numbers_are_accused_as_rarely_as_stated() -> None:
    """Any distribution, at 5 %; false-alarm rate of this test 1e-6."""
    rng, times = np.random.default_rng(5), 300
    alarms = 0
    for _ in range(times):
        n = int(rng.integers(1, 2000))
        rows = rng.choice([0.0, 0.01, 0.5]), rng.geometric(0.3, n), rng.laplace(size=n)
        for values in (rng.random(n) < rows[0], *rows[1:], np.full(n, np.nan)):
            alarms += log_chance_of_order(values) < math.log(0.05)
    assert alarms == 0 or bdtrc(alarms - 1, 4 * times, 0.05) > 1e-6
