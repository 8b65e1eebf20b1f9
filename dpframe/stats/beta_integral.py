"""Expectations under a Beta distribution, by its quantile function."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

REACH = 8.0
"""Standard deviations on each side of the median: the tails beyond have mass 1e-15."""

PANELS = 32

NODES = 12
"""Gauss-Legendre nodes of a panel."""


def beta_integral(
    function: Callable[[Floats, Floats], Floats],
    a: float,
    b: float,
    kinks: Sequence[float] = (),
    kinks_from_1: Sequence[float] = (),
) -> float:
    """E[g(X, 1 − X)] for X ~ Beta(a, b).

    The quantile function is integrated along a normal scale, where it is nearly straight whatever
    a and b are. Panels with a kink are split there. What changes over much less than a tenth of a
    standard deviation is not resolved.

    Args:
        function: g, for arrays of X and 1 − X; both are given without cancellation.
        a: above 0.
        b: above 0.
        kinks: values of X where g is not smooth.
        kinks_from_1: the same for values of 1 − X.
    """
    edges = np.linspace(-REACH, REACH, PANELS + 1)
    x, rest, weights = _panels(a, b)
    sums = (function(x, rest) * weights).reshape(PANELS, NODES).sum(axis=1)
    places = np.concatenate([_normal_score(kinks, a, b), -_normal_score(kinks_from_1, b, a)])
    panels = np.searchsorted(edges, places) - 1
    for panel in {int(p) for p in panels if 0 <= p < PANELS}:
        inside = places[panels == panel]
        ends = np.unique([edges[panel], *inside, edges[panel + 1]])
        x, rest, weights = _nodes(ends, a, b)
        sums[panel] = function(x, rest) @ weights
    return float(sums.sum())


def _normal_score(x: Sequence[float], a: float, b: float) -> Floats:
    """Φ⁻¹(Pr[X ≤ x])."""
    below, above = special.betainc(a, b, x), special.betaincc(a, b, x)
    return np.where(below < above, special.ndtri(below), -special.ndtri(above))


@functools.lru_cache(maxsize=8)  # root finding asks for the same distribution again and again
def _panels(a: float, b: float) -> tuple[Floats, Floats, Floats]:
    return _nodes(np.linspace(-REACH, REACH, PANELS + 1), a, b)


def _nodes(ends: Floats, a: float, b: float) -> tuple[Floats, Floats, Floats]:
    """Quantiles, their distances from 1, and their weights, between ends on the normal scale."""
    unit, weight = _unit_nodes()
    half = np.diff(ends)[:, None] / 2
    z = ((ends[:-1, None] + half) + half * unit).ravel()
    weights = (half * weight).ravel() * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    tail, left = special.ndtr(-np.abs(z)), z < 0
    x, rest = np.empty_like(z), np.empty_like(z)
    x[left] = special.betaincinv(a, b, tail[left])
    rest[left] = special.betainccinv(b, a, tail[left])
    x[~left] = special.betainccinv(a, b, tail[~left])
    rest[~left] = special.betaincinv(b, a, tail[~left])
    return x, rest, weights


@functools.cache
def _unit_nodes() -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [−1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights
