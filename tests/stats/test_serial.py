"""Chances of neighbours that are alike: exact for any distribution, small where they should be."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpframe.stats.independence import halves, log_chance_of_neighbours, log_chance_of_step

HIGHS = [0, 1, 2, 3, 4, 5, 8]


def orders(n: int, highs: int) -> list[Any]:
    """All rows of n places with so many high ones."""
    return [np.isin(np.arange(n), places) for places in itertools.combinations(range(n), highs)]


def two_sided(counts: Counter[int], found: int) -> float:
    total = sum(counts.values())
    tails = [
        sum(times for value, times in counts.items() if keep(value)) / total
        for keep in (lambda value: value <= found, lambda value: value >= found)
    ]
    return min(1.0, 2 * min(tails))


@pytest.mark.parametrize("highs", HIGHS)
@pytest.mark.parametrize(("shape", "lag"), [((1, 8), 1), ((2, 4), 1), ((2, 4), 2), ((1, 8), 4)])
def test_neighbours_are_counted_among_all_orders(
    highs: int, shape: tuple[int, int], lag: int
) -> None:
    def different(order: Any) -> int:
        return sum(
            bool(row[at] != row[at + lag])
            for row in order.reshape(shape)
            for block in range(0, shape[1], 2 * lag)
            for at in range(block, block + lag)
        )

    every = orders(8, highs)
    counts = Counter(map(different, every))
    for order in every:
        exact = two_sided(counts, different(order))
        found = math.exp(log_chance_of_neighbours(order.reshape(shape), lag))
        assert found == pytest.approx(exact)


@pytest.mark.parametrize(("first", "second"), [(0, 3), (3, 3), (2, 5), (6, 6), (4, 1)])
def test_steps_are_counted_among_all_orders(first: int, second: int) -> None:
    x = np.arange(6) < first
    every = orders(6, second)
    counts = Counter(int(np.sum(x & order)) for order in every)
    for order in every:
        exact = two_sided(counts, int(np.sum(x & order)))
        assert math.exp(log_chance_of_step(x, order)) == pytest.approx(exact)


def test_places_that_make_no_pair_are_left_out() -> None:
    rows = np.array([[True, False, True]])
    assert log_chance_of_neighbours(rows, 1) == log_chance_of_neighbours(rows, 2) == 0.0
    assert log_chance_of_neighbours(np.zeros((4, 1), bool), 1) == 0.0


@pytest.mark.parametrize(
    ("values", "highs"),
    [
        ([1.0, 2.0, 3.0, 4.0], 2),
        ([0.0] * 9 + [1.0], 1),
        ([1.0] * 9 + [0.0], 9),
        ([0.0] * 4, 0),
        ([math.nan] * 3, 0),
        ([math.nan, math.inf, -math.inf, 0.0], 2),
    ],
)
def test_half_of_the_values_are_high_where_that_can_be(values: list[float], highs: int) -> None:
    found = halves(np.array(values))
    assert found.sum() in (highs, len(values) - highs if len(set(values)) == 1 else highs)
    assert not found[np.isnan(values)].any()


GUILTY: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "goes on": lambda rng, n: np.cumsum(rng.normal(size=n)),
    "half of it goes on": lambda rng, n: _recurrent(rng.normal(size=n), 0.6),
    "both signs": lambda rng, n: np.stack([z := rng.laplace(size=n // 2), -z], 1).reshape(-1),
    "each twice, and a little": lambda rng, n: (
        np.repeat(rng.normal(size=n // 2), 2) + 0.1 * rng.normal(size=n)
    ),
    "coins that turn": lambda rng, n: (np.arange(n) + rng.integers(2)) % 2.0,
}


def _recurrent(noise: Any, share: float) -> Any:
    for at in range(1, len(noise)):
        noise[at] += share * noise[at - 1]
    return noise


@pytest.mark.parametrize("name", GUILTY)
def test_dependence_is_seen(name: str) -> None:
    values = GUILTY[name](np.random.default_rng(1), 1024).reshape(8, 128)
    assert log_chance_of_neighbours(halves(values), 1) < math.log(1e-9)


INNOCENT: dict[str, Callable[[np.random.Generator, Any], Any]] = {
    "continuous": lambda rng, shape: rng.standard_cauchy(shape),
    "coins": lambda rng, shape: rng.integers(2, size=shape) * 1.0,
    "rare": lambda rng, shape: (rng.random(shape) < 0.01) * 1.0,
    "few values": lambda rng, shape: rng.poisson(1, shape) * 1.0,
}


@pytest.mark.parametrize("name", INNOCENT)
def test_independent_draws_are_accused_as_rarely_as_stated(name: str) -> None:
    """More than 38 of 1500 tests at 1 % reject with a probability below 1e-6."""
    rng, accused = np.random.default_rng(2), 0
    for _ in range(500):
        x, y = (halves(INNOCENT[name](rng, (4, 16))) for _ in range(2))
        found = [log_chance_of_neighbours(x, lag) for lag in (1, 2)]
        found.append(log_chance_of_step(x.reshape(-1), y.reshape(-1)))
        accused += sum(chance < math.log(0.01) for chance in found)
    assert accused <= 38
