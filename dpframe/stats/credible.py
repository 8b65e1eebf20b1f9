"""Posterior mass of a privacy region, and credible limits from it.

Bayesian, with Jeffreys' prior on both error rates; coverage is not guaranteed.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from dpframe.common.types import Floats
from dpframe.stats.roots import crossing

Curve = Callable[[Floats], Floats]


REACH = 8.0  # standard deviations on each side of the median: the tails beyond have mass 1e-15
PANELS = 32

NODES = 12  # Gauss-Legendre nodes of a panel
UNIT_NODES, UNIT_WEIGHTS = np.polynomial.legendre.leggauss(NODES)


def beta_integral(
    function: Callable[[Floats, Floats], Floats],
    a: float,
    b: float,
    kinks: Sequence[float] = (),
) -> float:
    """Return E[g(X, 1 − X)] for X ~ Beta(a, b).

    The quantile function is integrated along a normal scale, on which it is nearly straight for any
    a and b. Panels with a kink are split. Changes over much less than a tenth of a standard
    deviation are not resolved.

    Args:
        function: g, for arrays of X and 1 − X; both are given without cancellation.
        a: above 0.
        b: above 0.
        kinks: values of X, or of 1 − X, where g is not smooth.
    """
    edges = np.linspace(-REACH, REACH, PANELS + 1)
    x, complement, weights = _panels(a, b)
    sums = (function(x, complement) * weights).reshape(PANELS, NODES).sum(axis=1)
    places = np.concatenate([_normal_score(kinks, a, b), -_normal_score(kinks, b, a)])
    panels = np.searchsorted(edges, places) - 1
    for panel in {int(p) for p in panels if 0 <= p < PANELS}:
        inside = places[panels == panel]
        ends = np.unique([edges[panel], *inside, edges[panel + 1]])
        x, complement, weights = _nodes(ends, a, b)
        sums[panel] = function(x, complement) @ weights
    return float(sums.sum())


def _normal_score(x: Sequence[float], a: float, b: float) -> Floats:
    """Φ⁻¹(Pr[X ≤ x])."""
    below, above = special.betainc(a, b, x), special.betaincc(a, b, x)
    return np.where(below < above, special.ndtri(below), -special.ndtri(above))


@functools.lru_cache(maxsize=8)  # root finding asks for the same distribution again and again
def _panels(a: float, b: float) -> tuple[Floats, Floats, Floats]:
    return _nodes(np.linspace(-REACH, REACH, PANELS + 1), a, b)


def _nodes(ends: Floats, a: float, b: float) -> tuple[Floats, Floats, Floats]:
    """Return quantiles, their distances from 1, and weights, between ends on the normal scale."""
    half = np.diff(ends)[:, None] / 2
    z = ((ends[:-1, None] + half) + half * UNIT_NODES).ravel()
    weights = (half * UNIT_WEIGHTS).ravel() * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    tail, left = special.ndtr(-np.abs(z)), z < 0
    x, complement = np.empty_like(z), np.empty_like(z)
    x[left] = special.betaincinv(a, b, tail[left])
    complement[left] = special.betainccinv(b, a, tail[left])
    x[~left] = special.betainccinv(a, b, tail[~left])
    complement[~left] = special.betaincinv(b, a, tail[~left])
    return x, complement, weights


TOLERANCE = 1e-9  # of a limit, relative to 1 + the limit


class Posterior(NamedTuple):
    """Counts of a decision rule, which give independent Beta posteriors of its error rates.

    FNR ~ Beta(½ + FN, ½ + TP) and FPR ~ Beta(½ + FP, ½ + TN) [Zanella2023].
    """

    false_negatives: float
    true_positives: float
    false_positives: float
    true_negatives: float


def outside_mass(posterior: Posterior, curve: Curve, kinks: Sequence[float] = ()) -> float:
    """Return the posterior mass outside the region between a trade-off curve and its reflection.

    One minus equation 2.5 of [Koskela2024]. The integral over FNR has the closed form Pr[FNR <
    f(FPR)] + Pr[TPR < f(TNR)], whose second term is the reversed attack; an integral over FPR is
    left. Kinks of the curve, given by their FPR, make it more accurate.
    """
    a, b = posterior.false_negatives + 0.5, posterior.true_positives + 0.5

    def outside(fpr: Floats, tnr: Floats) -> Floats:
        return np.asarray(special.betainc(a, b, curve(fpr)) + special.betainc(b, a, curve(tnr)))

    law = posterior.false_positives + 0.5, posterior.true_negatives + 0.5
    return min(1.0, beta_integral(outside, *law, kinks))


def region_mass(posterior: Posterior, curve: Curve, kinks: Sequence[float] = ()) -> float:
    """Return P_f, the posterior mass of the region that a curve allows (equation 2.5)."""
    return 1 - outside_mass(posterior, curve, kinks)


def credible_limits(
    mass_outside: Callable[[float], float],
    levels: Sequence[float],
    *,
    guess: float,
    spread: float,
) -> list[float]:
    """Find the parameters at which a family of growing regions reaches given masses.

    Args:
        mass_outside: maps the parameter, at least 0, to the posterior mass outside its region.
        levels: masses in (0, 1).
        guess: about the parameter of mass ½.
        spread: about the standard deviation of the parameter, above 0.

    Returns:
        A parameter for each level; 0 if the region of parameter 0 holds more.
    """

    def limit(level: float) -> float:
        z = float(special.ndtri(level))

        def excess(parameter: float) -> float:
            # On a normal scale the posterior is nearly straight.
            return float(-special.ndtri(mass_outside(parameter))) - z

        place = max(0.0, guess + z * spread)
        return crossing(excess, guess=place, spread=spread / 4, tolerance=TOLERANCE)

    return [limit(level) for level in levels]


def credible_epsilon(posterior: Posterior, delta: float, levels: Sequence[float]) -> list[float]:
    """Return the quantiles of ε at δ at which the (ε, δ)-region has the posterior masses `levels`.

    [Zanella2023]: the levels a/2 and 1 − a/2 give an equal-tailed interval, the level a alone a
    one-sided lower limit.
    """
    rest = 1 - delta
    fn, tp, fp, tn = posterior
    if fn + tp > fp + tn:
        # The region is its own reflection, so the rates may be swapped. The integral over the rate
        # that is known better has the smoother integrand.
        posterior = Posterior(fp, tn, fn, tp)

    def outside(epsilon: float) -> float:
        growth = math.exp(epsilon)

        def curve(x: Floats) -> Floats:
            return np.clip(np.maximum(rest - growth * x, (rest - x) / growth), 0.0, 1.0)

        return outside_mass(posterior, curve, (rest / (1 + growth), rest))

    guess, spread = _rough_epsilon(posterior)
    return credible_limits(outside, levels, guess=guess, spread=spread)


def _rough_epsilon(posterior: Posterior) -> tuple[float, float]:
    """Return the largest of four losses at the posterior means, and its standard deviation."""
    fn, tp, fp, tn = (count + 0.5 for count in posterior)
    ratios = ((tp, fn, fp, tn), (tn, fp, fn, tp), (fn, tp, tn, fp), (fp, tn, tp, fn))
    losses = [math.log(hit / (hit + miss) * (c + d) / c) for hit, miss, c, d in ratios]
    hit, miss, c, d = ratios[losses.index(max(losses))]
    return max(losses), math.sqrt(miss / hit / (hit + miss) + d / c / (c + d))
