"""Integrals over noise whose density has kinks at known places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from dpframe.plugins import Floats

REACH = 45.0
"""Range of the integral beyond the outermost kink: e^{−45} is below 1e-19."""

STEP = 3.0
"""Largest length of a panel."""

ORDER = 24
"""Number of nodes per panel."""


class Law(NamedTuple):
    """A distribution of noise of scale 1, in float64."""

    density: Callable[[Floats], Floats]
    below: Callable[[Floats], Floats]
    """The distribution function."""


LAPLACE = Law(
    lambda x: np.exp(-np.abs(x)) / 2,
    lambda x: np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2),
)
EXPONENTIAL = Law(
    lambda x: np.where(x > 0, np.exp(-np.abs(x)), 0.0),
    lambda x: np.where(x > 0, -np.expm1(-np.abs(x)), 0.0),
)
NORMAL = Law(lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi), special.ndtr)
NO_NOISE = Law(np.zeros_like, lambda x: np.where(x > 0, 1.0, 0.0))
"""No noise."""


def nodes(kinks: Floats, reach: float = REACH) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on the panels between kinks.

    Args:
        kinks: points at which an integrand made of functions e^{±x} changes its form, in any order.
        reach: the integral extends this far beyond the kinks.

    Returns:
        Nodes in ascending order, and their weights; integrands that decay like e^{−|x|} are
        integrated to about 1e-14.
    """
    inner = np.unique(np.asarray(kinks, np.float64))
    edges = np.concatenate([[inner[0] - reach], inner, [inner[-1] + reach]])
    starts = [
        np.linspace(low, high, max(2, int(np.ceil((high - low) / STEP)) + 1))[:-1]
        for low, high in itertools.pairwise(edges)
    ]
    panels = np.concatenate([*starts, edges[-1:]])
    at, weight = np.polynomial.legendre.leggauss(ORDER)
    half, middle = np.diff(panels)[:, None] / 2, (panels[1:] + panels[:-1])[:, None] / 2
    return (middle + half * at).ravel(), (half * weight).ravel()


def largest_of(answers: Floats, law: Law) -> Floats:
    """Return the probability that each answer plus independent noise of scale 1 is the largest.

    Args:
        answers: shape [k].
        law: of the noise.

    Returns:
        Shape [k].
    """
    x, weights = nodes(answers)
    below = law.below(x[None, :] - answers[:, None])
    others = [np.prod(np.delete(below, i, axis=0), axis=0) for i in range(len(answers))]
    pairs = zip(answers, others, strict=True)
    return np.array(
        [np.sum(weights * law.density(x - answer) * others_below) for answer, others_below in pairs]
    )
