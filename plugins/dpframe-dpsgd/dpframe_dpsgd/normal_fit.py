"""Two normal distributions fitted to the scores, with measures of how non-normal the scores are."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import (
    BinCounts,
    Estimate,
    Estimator,
    Ge,
    HostArray,
    Ints,
    Query,
    Statistic,
    Tree,
)
from dpframe.stats.one_run import Normal, normals_epsilon, normals_log_delta
from dpframe.stats.tradeoff import tradeoff_of_profile

RATES = np.concatenate([[0.0], np.geomspace(1e-4, 0.1, 10), np.linspace(0.15, 1.0, 18)])
"""False-positive rates at which the fitted curve is given."""
LINES = 200
"""Points of the fitted profile."""


class Moments(NamedTuple):
    """Mean, spread and shape of one sample."""

    mean: float
    deviation: float
    skewness: float
    kurtosis: float
    """Excess kurtosis: 0 for a normal distribution."""


@dataclasses.dataclass(frozen=True)
class FineBins(BinCounts):
    """Narrow bins over twice the range of the pilot."""

    bins: int

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> Any:
        scores = np.concatenate([pilot0, pilot1])
        low, high = np.min(scores), np.max(scores)
        margin = (high - low) / 2 or 1.0
        return jnp.asarray(np.linspace(low - margin, high + margin, self.bins + 1))


class NormalFit(Estimator, name="normal-fit"):
    """Estimate ε between two normal distributions with the mean and variance of the scores.

    The estimate is correct if the scores are normal, and otherwise too small or too large. Its
    notes give the skewness and excess kurtosis of the scores on D and on D′; both are 0 for a
    normal distribution. They are computed from narrow bins over twice the pilot's range. Scores
    outside count as if they were at the nearest end.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "normally distributed scores"

    bins: Annotated[int, Ge(16)] = 512
    """Number of bins that scores are counted in."""

    def statistic(self) -> Statistic:
        return FineBins(self.bins)

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        edges = np.asarray(layout, np.float64)
        both = [moments(edges, row) for row in np.asarray(counts)]
        shapes = [
            f"on {name}: mean {m.mean:.4g}, standard deviation {m.deviation:.3g}, "
            f"skewness {m.skewness:.2f}, excess kurtosis {m.kurtosis:.2f}"
            for name, m in zip(("D", "D′"), both, strict=True)
        ]
        if not all(m.deviation > 0 for m in both):
            return Estimate(epsilon=math.inf, notes=("all scores of a dataset are equal", *shapes))
        without, with_it = (Normal(m.mean, m.deviation) for m in both)
        epsilon = normals_epsilon(max(query.delta, 1e-12), without, with_it)
        grid = np.linspace(0.0, max(1.0, min(epsilon, 100.0)), LINES)
        deltas = np.exp(
            [
                max(normals_log_delta(e, without, with_it), normals_log_delta(e, with_it, without))
                for e in grid.tolist()
            ]
        )
        curve = tradeoff_of_profile(RATES, grid, deltas)
        return Estimate(
            epsilon=epsilon,
            tradeoff=tuple(zip(RATES.tolist(), curve.tolist(), strict=True)),
            profile=tuple(zip(grid.tolist(), deltas.tolist(), strict=True)),
            notes=("an estimate and never a bound", *shapes),
        )


def moments(edges: HostArray, counts: HostArray) -> Moments:
    """Return mean, standard deviation, skewness and excess kurtosis of binned scores; no NaN."""
    middles = (edges[:-1] + edges[1:]) / 2
    values = np.concatenate([edges[:1], middles, edges[-1:]])
    weights = counts[1:] / max(1, counts[1:].sum())
    mean = float(weights @ values)
    centred = values - mean
    variance, third, fourth = (float(weights @ centred**k) for k in (2, 3, 4))
    if variance <= 0:
        return Moments(mean, 0.0, 0.0, 0.0)
    return Moments(mean, variance**0.5, third / variance**1.5, fourth / variance**2 - 3)
