"""The shares that bets learn: near the truth from few draws, and in range whatever was counted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from dpframe.builtin.betting import cuts
from dpframe.stats.shares import LEAST_SHARE, learned, places


def counted(scores: list[np.ndarray], edges: np.ndarray) -> np.ndarray:
    bins = [
        np.where(np.isnan(part), 0, 1 + np.searchsorted(edges, part, side="right"))
        for part in scores
    ]
    return np.stack([np.bincount(part, minlength=len(edges) + 2) for part in bins])


def test_bins_have_their_middle_but_for_nan_and_infinities() -> None:
    edges = np.array([np.finfo(np.float32).min, 0.0, 2.0, np.inf, np.inf], np.float32)
    assert np.array_equal(places(edges), [np.nan, np.nan, 0, 1, 2, np.nan, np.nan], equal_nan=True)


@pytest.mark.parametrize("name", ["normal", "laplace", "logarithm"])
def test_shares_of_known_distributions(name: str) -> None:
    rng, n = np.random.default_rng(1), 300
    drawn = rng.normal if name == "normal" else rng.laplace
    scores = [drawn(shift, 1, n) for shift in (0, 1)]

    def logarithm(x: np.ndarray) -> np.ndarray:
        return x - 0.5 if name == "normal" else np.abs(x) - np.abs(x - 1)

    def truth(x: np.ndarray) -> np.ndarray:
        return expit(-np.clip(x, -1, 1) if name == "logarithm" else -logarithm(x))

    if name == "logarithm":
        scores = [logarithm(part) for part in scores]
    edges = cuts(*(part[:32] for part in scores))
    middle, counts = places(edges), counted(scores, edges)
    found = learned(counts, middle)
    seen = np.isfinite(middle)
    off = np.abs(found - truth(middle))[seen]
    assert (off @ counts.sum(axis=0)[seen]) / (2 * n) < 0.05


def test_categories_in_no_order_have_shares_of_their_own() -> None:
    rng = np.random.default_rng(2)
    share = np.array([0.9, 0.1, 0.5, 0.8, 0.2])
    drawn = rng.integers(0, 5, 4000)
    on_d = rng.random(4000) < share[drawn]
    edges = cuts(*(np.tile(np.arange(5.0), 7)[:32] for _ in range(2)))
    counts = counted([drawn[on_d].astype(float), drawn[~on_d].astype(float)], edges)
    found = learned(counts, places(edges))
    own = 1 + np.searchsorted(edges, np.arange(5.0), side="right")
    assert found[own] == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_neither_scale_nor_side_matters(scale: float) -> None:
    rng = np.random.default_rng(3)
    scores = [rng.normal(shift, 1, 200) * scale for shift in (0, 1)]
    edges = cuts(*(part[:32] for part in scores))
    counts, middle = counted(scores, edges), places(edges)
    found = learned(counts, middle)
    assert found == pytest.approx(1 - learned(counts[::-1], middle), abs=1e-6)
    assert np.ptp(found) > 0.3


def test_ends() -> None:
    """Nothing but NaN, infinities, one value, one side, 10⁹ draws: shares stay in range."""
    edges = cuts(*(np.random.default_rng(4).normal(size=(2, 32))))
    bins = len(edges) + 2
    cases = [np.zeros((2, bins), int)]
    for place in (0, 1, 5, bins // 2, bins - 1):
        for n in (1, 10**9):
            one = np.zeros((2, bins), int)
            one[0, place] = n
            both = one.copy()
            both[1, bins - 1 - place] = n
            cases += [one, both]
    cases.append(np.full((2, bins), 10**6))
    for counts in cases:
        found = learned(counts, places(edges))
        assert np.isfinite(found).all()
        assert ((found >= LEAST_SHARE) & (found <= 1 - LEAST_SHARE)).all()
