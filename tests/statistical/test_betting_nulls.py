"""False alarms of bets at exact nulls, looked at after every round: the cruellest way to stop."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from scipy.special import bdtrc

from dpframe import ApproxDP, GaussianDP, PureDP, Query
from dpframe.builtin.betting import Betting, cuts, sizes

DRAWS, AUDITS = 2_000, int(os.environ.get("DPFRAME_AUDITS", "200"))
LEVELS = (0.2, 0.05, 0.01)
TIES = np.array([math.e, 1.5, 1.0, 1.5]) / (math.e + 4)
"""Four values on D; ln of the ratio to those on D′ is 1, 0 or −1."""
SWAPPED = TIES[[2, 1, 0, 3]]
RESPONSE = 1 / (1 + math.e), math.e / (1 + math.e)
CORNER = np.array([0.01, 0.99 * math.e / (1 + math.e), 0.99 / (1 + math.e), 0.0])
"""On D. On D′ backwards: the pair from which all pairs under (1, .01) are made."""

NULLS: dict[str, tuple[Any, Any]] = {
    "decision": (
        PureDP(1.0),
        lambda rng, n, side: rng.random(n) < RESPONSE[side],
    ),
    "ties": (
        PureDP(1.0),
        lambda rng, n, side: values(rng, n, SWAPPED if side else TIES),
    ),
    "Laplace": (PureDP(1.0), lambda rng, n, side: rng.laplace(side, 1, n)),
    "corner": (
        ApproxDP(1.0, 0.01),
        lambda rng, n, side: values(rng, n, CORNER[::-1] if side else CORNER),
    ),
    "curve": (GaussianDP(1.0), lambda rng, n, side: rng.normal(side, 1, n)),
}


def values(rng: np.random.Generator, n: int, chances: np.ndarray) -> np.ndarray:
    return rng.choice(len(chances), n, p=chances).astype(float)


def best(kind: str, rng: np.random.Generator, claim: Any = None) -> float:
    """Logarithm of the largest wealth ever, of one audit."""
    own, draw = NULLS[kind]
    state, layout = None, np.zeros(0)
    for size in sizes(DRAWS):
        scores = [draw(rng, size, side) for side in (0, 1)]
        if state is None and kind != "decision":
            layout = cuts(*scores)
        bins = [1 + np.searchsorted(layout, part, side="right") for part in scores]
        if kind == "decision":
            bins = [part.astype(int) for part in scores]
        number = len(layout) + 2
        counts = np.stack([np.bincount(part, minlength=number) for part in bins])
        query = Query((size, size), 0.0, 0.95, claim or own)
        state = Betting().observe(state, layout, counts, query)
    assert state is not None
    return float(state.book.best[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", NULLS)
def test_a_true_claim_is_refuted_at_any_time_no_more_often_than_promised(kind: str) -> None:
    """False-alarm rate 1e-6 for each level."""
    rng = np.random.default_rng(0)
    found = np.array([best(kind, rng) for _ in range(AUDITS)])
    counts = {level: int(np.sum(found >= -math.log(level))) for level in LEVELS}
    for level, count in counts.items():
        assert count == 0 or bdtrc(count - 1, AUDITS, level) > 1e-6, counts
    assert counts[0.2] > 0.2 * AUDITS / 40, counts  # not vacuous


@pytest.mark.parametrize("kind", ["decision", "corner"])
def test_a_smaller_claim_is_refuted(kind: str) -> None:
    rng = np.random.default_rng(1)
    claim = ApproxDP(0.3, NULLS[kind][0].delta)
    assert best(kind, rng, claim) >= -math.log(0.001)
