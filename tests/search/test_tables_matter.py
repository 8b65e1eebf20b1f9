"""Some losses show only on some tables: large ones, with groups, of one record, at the bounds."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpframe import AccountedDP, ViolationError, search_violation
from dpframe.count.events import Seen
from dpframe.search.search import one_sided

if TYPE_CHECKING:
    from collections.abc import Callable

BUDGET: dict[str, Any] = {"seconds": 300.0, "trials": 150_000}


def choose(odds: Any, rng: np.random.Generator) -> int:
    odds = np.exp(odds - np.max(odds))
    return int(rng.choice(len(odds), p=odds / odds.sum()))


def nearer(rng: np.random.Generator, votes: Any, step: float) -> int:
    """Choose the question whose share of yes is farther from 2/3 than from 1/2.

    A vote moves each score by up to 2, and both by up to 4.
    """
    scores = []
    for at in (0, 1):
        yes = sum(vote[at] == "yes" for vote in votes)
        scores.append(abs(yes - len(votes) / 2) - abs(yes - len(votes) * 2 / 3))
    return choose(np.array(scores) / (2 * step), rng)


def announced(rng: np.random.Generator, members: Any, threshold: float) -> float | None:
    """Publish the size of a club, unless it is small. The right threshold for δ = 0.01 is 4.9."""
    noisy = len(members) + rng.laplace()
    return float(noisy) if len(members) and noisy >= threshold else None


def halves(rng: np.random.Generator, values: Any, *, poisson: bool) -> Any:
    """Publish the noisy sums of both halves of a list, or of two independent samples of it."""
    values = np.clip(values, -1, 1)
    sides = [rng.random(len(values)) < 0.5 for _ in range(2)]
    if not poisson:
        first = rng.permutation(len(values)) < len(values) // 2
        sides = [first, ~first]
    return np.array([values[side].sum() for side in sides]) + rng.normal(size=2)


def accounted() -> AccountedDP:
    import dp_accounting as da

    event = da.PoissonSampledDpEvent(0.5, da.GaussianDpEvent(1.0))
    return AccountedDP(da.SelfComposedDpEvent(event, 2), relation="replace-special")


VOTES = [["yes", "no"], ["no", "yes"], ["no", "no"], ["yes", "yes"]]
REPLACED: dict[str, Any] = {"epsilon": 1.0, "adjacency": "replace"}
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any], Any, Any]] = {
    "large tables with groups": (nearer, {"step": 1.0}, {"step": 4.0}, VOTES, REPLACED),
    "one record": (
        announced,
        {"threshold": 4.0},
        {"threshold": 4.92},
        [1, 2, 3],
        {"epsilon": 1.0, "delta": 0.01, "adjacency": "add-remove"},
    ),
    "bystanders at a bound": (
        halves,
        {"poisson": False},
        {"poisson": True},
        [-0.5, 0.25, 0.75, 0.0, 0.5, -0.25],
        {"schema": [(-1, 1)], "beyond": False},  # the claim states the neighbours
    ),
}


def is_violated(function: Any, table: Any, seed: int, **terms: Any) -> bool:
    try:
        search_violation(function, table, seed=seed, **{**BUDGET, **terms})
    except ViolationError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("case", CASES)
def test_what_only_some_tables_show_is_found_without_a_hint(case: str, seed: int) -> None:
    function, wrong, right, table, terms = CASES[case]
    claim = {"claim": accounted()} if function is halves else {}
    assert is_violated(functools.partial(function, **wrong), table, seed, **terms, **claim)
    right_terms = {**terms, **claim, "trials": 10_000}
    assert not is_violated(functools.partial(function, **right), table, seed, **right_terms)


def test_an_event_beyond_delta_that_never_occurs_on_one_side_is_seen_early() -> None:
    def seen(d0: int, d1: int, trials: int = 1000) -> Seen:
        return Seen(np.array([[d0], [d1]]), trials)

    assert one_sided(seen(0, 40), 0.02) == pytest.approx(20 / math.sqrt(41))
    assert one_sided(seen(40, 0), 0.02) == one_sided(seen(0, 40), 0.02)
    assert one_sided(seen(0, 1000), 0.0) > 30
    assert one_sided(seen(0, 10), 0.02) < 0
    assert one_sided(seen(5, 40), 0.02) == -math.inf
