"""Chances of repeated rows: exact where they can be counted, honest for any distribution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tiers import mostly_slow

from dpframe.stats.independence import (
    log_chance_of_company,
    log_chance_of_constants,
    log_chance_of_copies,
    log_chance_of_matches,
    log_chance_of_sharing,
)


def share(values: list[int], pattern: Callable[[Any], bool]) -> float:
    """Return the number of orders of some values that show a pattern."""
    orders = list(itertools.permutations(values))
    return sum(pattern(np.array(order)) for order in orders) / len(orders)


@pytest.mark.parametrize("rows", [[0, 1, 2], [0, 0, 1], [0, 0, 0], [0, 1, 1, 1]])
def test_copies_are_counted_among_all_orders(rows: list[int]) -> None:
    n = len(rows)
    exact = share(rows * 2, lambda order: bool((order[:n] == order[n:]).all()))
    assert math.exp(log_chance_of_copies(np.array(rows), 2)) == pytest.approx(exact)


@pytest.mark.parametrize("values", [[0, 1], [0, 1, 2, 2], [0, 0, 0]])
def test_constant_chunks_are_counted_among_all_orders(values: list[int]) -> None:
    rows = np.repeat(np.array(values)[:, None], 2, axis=1)
    constant = share(
        rows.reshape(-1).tolist(), lambda order: bool((order[::2] == order[1::2]).all())
    )
    assert math.exp(log_chance_of_constants(rows)) == pytest.approx(constant)


def test_matches_are_fisher_s_exact_test() -> None:
    """Four of four against none of four: one choice of four places among eight."""
    x = np.arange(8)
    y = np.array([0, 1, 2, 3, 70, 71, 72, 73])
    assert math.exp(log_chance_of_matches(x, y)) == pytest.approx(1 / math.comb(8, 4))
    assert log_chance_of_matches(np.zeros(8), np.zeros(8)) == pytest.approx(0.0)


LAWS: dict[str, Callable[[np.random.Generator, Any], Any]] = {
    "fair coin": lambda rng, shape: rng.integers(2, size=shape),
    "nearly constant": lambda rng, shape: (rng.random(shape) < 1e-4).astype(int),
    "constant": lambda rng, shape: np.zeros(shape, int),
    "geometric": lambda rng, shape: rng.geometric(0.05, shape),
    "a few hundred values": lambda rng, shape: rng.integers(300, size=shape),
    "an atom in a continuum": lambda rng, shape: np.where(
        rng.random(shape) < 0.5, -1, rng.integers(10**9, size=shape)
    ),
    "continuous": lambda rng, shape: rng.integers(2**60, size=shape),
}
OFTEN, REPEATS = math.log(0.02), 1500
HONEST = 63
"""More accusations than this among `REPEATS` at .02 come with probability below 1e-6."""


@pytest.mark.parametrize("law", mostly_slow(LAWS, ("fair coin",)))
def test_no_law_is_accused_too_often(law: str) -> None:
    rng, draw = np.random.default_rng(4), LAWS[law]
    other = LAWS["fair coin" if law != "fair coin" else "constant"]
    accused = np.zeros(4, int)
    for _ in range(REPEATS):
        chunks, x, y = draw(rng, (6, 8)), draw(rng, 48), draw(rng, 48)
        mixed = np.where(rng.random(48) < 0.3, other(rng, 48), y)  # D′ is another law
        accused += [
            log_chance_of_company(chunks) <= OFTEN,
            log_chance_of_sharing(x, y) <= OFTEN,
            log_chance_of_sharing(x, mixed) <= OFTEN,
            log_chance_of_matches(x, mixed) <= OFTEN,
        ]
    assert accused.max() <= HONEST


def test_what_repeats_is_found() -> None:
    rng = np.random.default_rng(5)
    fresh = rng.integers(2**60, size=(7, 16))
    x, y = rng.integers(2**60, size=(2, 112))
    half = np.where(rng.random(112) < 0.5, rng.permutation(x), y)
    found = {
        "each row twice": log_chance_of_company(np.repeat(fresh[:, :8], 2, axis=1)),
        "each half twice": log_chance_of_company(np.tile(fresh[:, :8], (1, 2))),
        "one row for all": log_chance_of_company(np.repeat(fresh[:, :1], 16, axis=1)),
        "one coin for all": log_chance_of_constants(np.repeat(np.arange(8) % 2, 16).reshape(8, 16)),
        "the same coins again": log_chance_of_copies(np.arange(16) % 2, 4),
        "all of D in D′": log_chance_of_sharing(x, rng.permutation(x)),
        "half of D in D′": log_chance_of_sharing(x, half),
        "coins in step": log_chance_of_matches(*np.repeat(rng.integers(2, size=(1, 112)), 2, 0)),
    }
    assert {name: chance for name, chance in found.items() if chance > math.log(1e-9)} == {}
