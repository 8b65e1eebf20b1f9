"""Learn from counts the share of the draws in each bin that come from D.

A bet on the whole output needs only these shares; see `output_bets`. The first bets are made after
few draws, so the share is a mean over several models, weighted by their posterior probabilities.
The models are logistic regressions on the score (linear, saturating at several widths, piecewise
linear); the score itself, if it is a logarithm of a likelihood ratio; and, for outputs without an
order, all trees of dyadic groups of bins [Willems1995].
"""

import math

import numpy as np
from scipy.special import betaln, expit, logsumexp

from dpframe.common.types import Floats, Ints

WIDTHS = (0.3, 0.6, 1.2)  # of the middle part in which the share changes, in standard deviations
KNOTS = 8  # where the slope of a piecewise linear logarithm may change
BEND = 0.5  # standard deviation of a change of the slope
FARTHEST = 6.0  # standard deviations from the median at which scores are clipped
NEWTON_STEPS, CLOSE, LONGEST = 20, 1e-4, 2.0  # Newton's method: most steps, tolerance, longest step
LEAST_SHARE = 1e-9  # smallest share
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)  # of an integral over a normal distribution


def places(edges: Floats) -> Floats:
    """Return the middle of each bin, NaN for bins without one; shape [edges + 2].

    The first bin is that of NaN, the second lies below all edges.
    """
    ends = np.asarray(edges, np.float64)
    ends = np.where(np.abs(ends) < np.finfo(np.float32).max, ends, np.nan)
    low, high = np.concatenate([[np.nan], ends]), np.concatenate([ends, [np.nan]])
    middle = np.where(np.isnan(low), high, np.where(np.isnan(high), low, low / 2 + high / 2))
    if len(ends) and np.isnan(ends[0]):
        middle[0] = np.nan  # −∞
    return np.concatenate([[np.nan], middle])


def learned(counts: Ints, middle: Floats | None = None, *, may_be_ratio: bool = True) -> Floats:
    """Return the probability that a draw in each bin comes from D, shape [bins].

    Args:
        counts: of D and D′, shape [2, bins].
        middle: score in the middle of each bin; NaN if it has none; None if bins have no scores,
            as those of decisions.
        may_be_ratio: True if scores may be logarithms of likelihood ratios.
    """
    of = np.asarray(counts, np.float64)
    middle = np.full(of.shape[1], np.nan) if middle is None else middle
    share = (of[0] + 0.5) / (of.sum(axis=0) + 1)
    usual = np.isfinite(middle)
    pooled = np.where(usual, of.sum(axis=0), 0.0)
    observed = pooled > 0
    if np.count_nonzero(observed) > 1:
        z = _standardised(middle[usual], pooled[usual])
        seen = observed[usual]
        models = [_tree(of[:, usual])]
        if may_be_ratio:
            ratio, (d, d_prime) = middle[usual], of[:, usual]  # of D′ to D, as the score says
            logs = -d @ np.logaddexp(0, ratio) - d_prime @ np.logaddexp(0, -ratio)
            models.append((expit(-ratio), float(logs)))
        models += [_regression(of[:, observed], x[seen], x) for x in _features(z, pooled[usual])]
        shares, evidences = zip(*models, strict=True)
        evidence = np.array(evidences)
        share[usual] = np.exp(evidence - logsumexp(evidence)) @ np.stack(shares)
    return np.asarray(np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE), np.float64)


def _standardised(middle: Floats, pooled: Floats) -> Floats:
    """Return the bins' distance from the median, in units of half the 16–84 % range."""
    order = np.argsort(middle)
    middle_of = np.searchsorted(np.cumsum(pooled[order]) / pooled.sum(), (0.16, 0.5, 0.84))
    low, median, high = middle[order][np.minimum(middle_of, len(order) - 1)]
    spread = (high - low) / 2
    if not (spread > 0 and math.isfinite(spread)):
        seen = middle[pooled > 0]
        spread = max(float(seen.max() - seen.min()), abs(float(median)) * 1e-6, 1e-300)
    return np.asarray(np.clip((middle - median) / spread, -FARTHEST, FARTHEST), np.float64)


def _features(z: Floats, pooled: Floats) -> list[Floats]:
    """Return the features of each regression, shape [bins, features]."""
    flat = np.ones_like(z)
    widths = [np.clip(z / width, -1.0, 1.0) for width in WIDTHS]
    ranks = np.minimum(
        np.searchsorted(np.cumsum(pooled) / pooled.sum(), np.linspace(0.02, 0.98, KNOTS)),
        len(z) - 1,
    )
    bends = [np.maximum(z - knot, 0.0) * BEND for knot in z[ranks]]
    designs = [[flat, z], *([flat, one] for one in widths), [flat, z, *bends]]
    return [np.stack(columns, axis=1) for columns in designs]


def _regression(of: Floats, seen: Floats, x: Floats) -> tuple[Floats, float]:
    """Fit a logistic regression with a standard normal prior, by Laplace's approximation.

    Args:
        of: counts of D and D′ in the bins with any, shape [2, seen bins].
        seen: features of these, shape [seen bins, features].
        x: features of all bins, shape [bins, features].

    Returns:
        The mean share of D in each bin, and the logarithm of the evidence.
    """
    n, unit = of.sum(axis=0), np.eye(seen.shape[1])
    at = np.zeros(seen.shape[1])
    for _ in range(NEWTON_STEPS):
        share = expit(seen @ at)
        curvature = (seen * (n * share * (1 - share))[:, None]).T @ seen + unit
        step = np.linalg.solve(curvature, seen.T @ (of[0] - n * share) - at)
        largest = float(np.abs(step).max())
        at = at + step * min(1.0, LONGEST / max(largest, 1e-300))
        if largest < CLOSE:
            break
    logit = seen @ at
    share = expit(logit)
    curvature = (seen * (n * share * (1 - share))[:, None]).T @ seen + unit
    likelihood = -of[0] @ np.logaddexp(0, -logit) - of[1] @ np.logaddexp(0, logit)
    evidence = likelihood - at @ at / 2 - np.linalg.slogdet(curvature)[1] / 2
    spread = np.sqrt(np.einsum("ij,ij->i", x, np.linalg.solve(curvature, x.T).T))
    logits = (x @ at)[:, None] + spread[:, None] * NODES
    return expit(logits) @ (WEIGHTS / WEIGHTS.sum()), float(evidence)


def _tree(of: Floats) -> tuple[Floats, float]:
    """Mix all trees of dyadic groups of bins, each with an unknown share in every leaf."""
    size = 1 << (of.shape[1] - 1).bit_length()
    counts = np.zeros((2, size))
    counts[:, : of.shape[1]] = of
    levels = [counts]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1].reshape(2, -1, 2).sum(axis=2))
    evidence = _evidence(levels[0])
    whole = [np.ones(size)]  # probability that a group is not split
    for level in levels[1:]:
        own, split = _evidence(level), evidence.reshape(-1, 2).sum(axis=1)
        evidence = np.logaddexp(own, split) - math.log(2)
        whole.append(np.exp(own - math.log(2) - evidence))
    share, reached = np.zeros(1), np.ones(1)
    for level, unsplit in zip(levels[::-1], whole[::-1], strict=True):
        if level.shape[1] > len(share):
            share, reached = np.repeat(share, 2), np.repeat(reached, 2)
        share = share + reached * unsplit * (level[0] + 0.5) / (level.sum(axis=0) + 1)
        reached = reached * (1 - unsplit)
    return share[: of.shape[1]], float(evidence[0])


def _evidence(level: Floats) -> Floats:
    return np.asarray(betaln(level[0] + 0.5, level[1] + 0.5) - betaln(0.5, 0.5), np.float64)
