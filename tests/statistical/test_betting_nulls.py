"""False alarms of bets at exact nulls, looked at after every round: the cruellest way to stop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import bdtrc

from dpframe import PureDP
from dpframe.builtin.estimators.betting import Book, above, cuts, lines
from dpframe.engine.rounds import FIRST, ends
from dpframe.stats.betting import history

DRAWS, AUDITS = 1_000_000, 1500
LEVELS = (0.2, 0.05, 0.01)
CLAIM = PureDP(1.0)
ENDS = ends(DRAWS, 1 << 16, whole=False)
SIZES = np.diff([0, *ENDS])
TIES = np.array([math.e, 1.5, 1.0, 1.5]) / (math.e + 4)
"""Of four values on D. On D′ the other way round: ln of the ratio is 1, 0 or −1."""


def laplace(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)


def shares(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Exact probabilities of what is counted, shape [2, bins]; the loss is 1."""
    if kind == "decision":
        p = 1 / (1 + math.exp(-1.0))
        return np.array([[p, 1 - p], [1 - p, p]])
    if kind == "ties":
        return np.stack([TIES, TIES[[2, 1, 0, 3]]])
    first = [rng.laplace(place, size=FIRST) for place in (0.0, 1.0)]
    below = [laplace(cuts(*first) - place) for place in (0.0, 1.0)]
    return np.stack([np.diff([0, *one, 1]) for one in below])


def best(kind: str, rng: np.random.Generator) -> float:
    """Logarithm of the largest wealth ever, of one audit."""
    of = shares(kind, rng)
    drawn = np.stack([rng.multinomial(SIZES, side) for side in of], axis=1)
    rounds = [
        (above(np.pad(counts, ((0, 0), (1, 0)))), int(n))
        for counts, n in zip(drawn, SIZES, strict=True)
    ]
    book, _ = Book().played(lines(CLAIM, 0.0), history(rounds))
    return float(book.best[0])


def alarms(kind: str, audits: int, seed: int = 0) -> dict[float, int]:
    rng: Any = np.random.default_rng(seed)
    found = np.array([best(kind, rng) for _ in range(audits)])
    return {level: int(np.sum(found >= -math.log(level))) for level in LEVELS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["decision", "ties", "continuous"])
def test_a_true_claim_is_refuted_at_any_time_no_more_often_than_promised(kind: str) -> None:
    """False-alarm rate 1e-6 for each level."""
    found = alarms(kind, AUDITS)
    for level, count in found.items():
        assert count == 0 or bdtrc(count - 1, AUDITS, level) > 1e-6, found
    assert found[0.2] > 0.2 * AUDITS / 4, found  # not vacuous
