"""Joint confidence regions for two error rates, limits of the loss, and multiple claims.

A bound on ε needs an upper limit of one rate and a lower limit of another. Two limits at α/2 each
allow for both rates to be at their worst at once. A joint test is sharper: it replaces the sum of
two standard errors by the root of the sum of their squares.
"""

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.special import betaln, xlog1py, xlogy

from dpframe.common.types import Floats, Ints
from dpframe.stats import betting, binomial

CAP = 0.1
"""Share of the error spent on each rate alone; the rest goes to their weighted sum. It keeps the
region small if the weights are poor. Its value hardly matters between 0.02 and 0.2."""

CORNERS = 64  # steps of the staircase that covers a region
FURTHEST = -8.0  # standard errors


def joint_staircases(
    false: npt.ArrayLike,
    trials_false: npt.ArrayLike,
    true: npt.ArrayLike,
    trials_true: npt.ArrayLike,
    weight: npt.ArrayLike,
    error: npt.ArrayLike,
) -> Floats:
    """Return staircases that each contain their (FPR, FNR) with probability at least 1 − error.

    Let U(x) = Pr[Bin(n, x) ≤ false] and V(p) = Pr[Bin(n′, p) ≥ true] be the exact one-sided
    p-values of the two rates. They are independent, and at the true rates each is at most u with
    probability at most u. A pair (x, p) is outside the region if U(x) ≤ κa, or V(p) ≤ κa, or

        w Φ⁻¹(1 − U(x)) + √(1 − w²) Φ⁻¹(1 − V(p)) ≥ Φ⁻¹(1 − (1 − 2κ)a).

    The sum on the left is at most a standard normal variable (Stouffer's combination with weights
    [Liptak1958]), so at the true rates one of the three happens with probability at most a. κ is
    `CAP`. The region shrinks as a grows.

    The same holds if the event is {score > t} with t the r-th largest of the n scores on which it
    is false, and `false` is r − 1: then 1 − F(t) is at most a Beta(r, n − r + 1) variable, of which
    U(x) is the upper tail, and given t the other count is binomial.

    Args:
        false: counts of the event on the dataset against which it speaks, integers, shape [k].
        trials_false: number of trials on that dataset.
        true: counts on the other dataset, shape [k].
        trials_true: number of trials on the other dataset.
        weight: w in (0, 1), the share of the false positives; must not depend on these counts.
        error: a in (0, 1]; all broadcast.

    Returns:
        Shape [k, corners, 2]: the region lies in the union of the boxes [0, x] × [0, y].
    """
    columns = np.broadcast_arrays(false, trials_false, true, trials_true, weight, error)
    k, n, hits, n_true, w, a = (np.asarray(c, np.float64).reshape(-1, 1) for c in columns)
    v = np.sqrt(1 - w * w)
    cap = -special.ndtri(CAP * a)
    critical = -special.ndtri((1 - 2 * CAP) * a)
    # Along the edge of the region: from where the cap of the true rate ends it to the other cap.
    # Below FURTHEST Pr[Bin ≤ false] would be rounded to 1; the first box covers that part.
    first = np.maximum(np.minimum((critical - v * cap) / w, cap), FURTHEST)
    z = first + (cap - first) * np.linspace(0, 1, CORNERS + 1)
    z_true = np.where(z == FURTHEST, cap, np.minimum((critical - w * z) / v, cap))
    fpr = binomial.clopper_pearson_upper(k, n, special.ndtr(-z[:, 1:]))
    tpr = binomial.clopper_pearson_lower(hits, n_true, special.ndtr(-z_true[:, :-1]))
    return np.stack([fpr, 1 - tpr], axis=-1)


def threshold_epsilon(fpr: npt.ArrayLike, fnr: npt.ArrayLike, delta: npt.ArrayLike) -> Floats:
    """Return the loss of one decision rule: max{0, ln((1 − δ − FNR)/FPR), ln((1 − δ − FPR)/FNR)}.

    Equation 6.2 of [Koskela2024], after [Kairouz2015, theorem 2.1]: no (ε, δ)-DP mechanism with a
    smaller ε has these error rates. With upper limits of both rates it is a lower limit of ε
    [Jagielski2020]; with lower limits it is an upper limit of the loss that this rule shows.

    Args:
        fpr: in [0, 1].
        fnr: in [0, 1].
        delta: in [0, 1); all broadcast.

    Returns:
        Inf if a rate is 0 and the other leaves something above δ.
    """
    x, y, d = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (fpr, fnr, delta)))
    above, below = np.stack([1 - d - y, 1 - d - x]), np.stack([x, y])
    shows = above > below  # the others show no loss, and may have no logarithm
    with np.errstate(divide="ignore"):
        losses = np.log(np.where(shows, above, 1.0)) - np.log(np.where(shows, below, 1.0))
    return np.asarray(losses.max(axis=0), np.float64)


LARGEST = 40.0  # larger limits of ε are reported as infinite
HALVINGS = (6, 5, 5, 5, 5)  # numbers of bisections that are made together


def evidence_below(hits: Ints, trials: int, slope: Floats, delta: Floats | float) -> Floats:
    """Return the logarithm of the evidence that events do not reach a loss, valid at any time.

    The evidence is the likelihood of the counts under Jeffreys' mixture, divided by the largest
    likelihood under a loss of at least ε [Wasserman2020]. The ratio of the mixture to the true
    likelihood is a martingale of mean 1. If the true loss is at least ε, the denominator is at
    least the true likelihood. So the evidence ever exceeds 1/a with probability at most a
    [Ville1939].

    `hits` counts on the side multiplied by e^ε and on the other, shape [events, 2], out of `trials`
    each; slope e^ε and δ broadcast with [events].
    """
    of_q, of_p = hits[..., 0], hits[..., 1]
    q, p = of_q / trials, of_p / trials
    inside = p >= slope * q + delta
    q0, p0 = betting.project(q, p, slope, delta)
    q0, p0 = np.where(inside, q, q0), np.where(inside, p, p0)
    largest_likelihood = _log_likelihood(of_q, trials, q0) + _log_likelihood(of_p, trials, p0)
    evidence = _log_mixture(of_q, trials) + _log_mixture(of_p, trials) - largest_likelihood
    # No event reaches a loss that would need a probability above 1.
    return np.asarray(np.where(np.asarray(delta) >= 1, np.inf, evidence), np.float64)


def reaches(hits: Ints, trials: int, delta: float, error: float) -> float:
    """Return an upper limit of the largest loss of any of the events, at any time; inf if none.

    Several events need no more error than one: if one of them has the loss ε, a limit below ε is
    wrong only if the evidence against this event is. Arguments as above, with at least one trial;
    `error` is the probability that the limit is wrong.
    """
    wanted = -np.log(error)
    # An event that cannot reach a loss that another one may reach does not have the largest limit.
    low, high, left = 0.0, LARGEST, hits
    for steps in HALVINGS:
        # All places that these bisections may reach are evaluated at once; halving is exact.
        parts = 1 << steps
        width = (high - low) / parts
        inner = low + width * np.arange(1, parts)
        kept = evidence_below(left[:, None], trials, np.exp(inner), delta) < wanted
        first, last, rows = 0, parts, np.full(len(left), True)
        while last - first > 1:
            middle = (first + last) // 2
            still = rows & kept[:, middle - 1]
            first, last, rows = (middle, last, still) if still.any() else (first, middle, rows)
        low, high, left = low + width * first, low + width * last, left[rows]
    return float(high) if high < LARGEST else np.inf


def _log_mixture(hits: Ints, trials: int) -> Floats:
    return np.asarray(betaln(hits + 0.5, trials - hits + 0.5) - betaln(0.5, 0.5), np.float64)


def _log_likelihood(hits: Ints, trials: int, rate: Floats) -> Floats:
    return np.asarray(xlogy(hits, rate) + xlog1py(trials - hits, -rate), np.float64)


def holm(p_values: npt.ArrayLike, m: int) -> Floats:
    """Adjust p-values by Holm's step-down procedure [Holm1979], valid under any dependence.

    Args:
        p_values: shape [k], k ≤ m; the other m − k tests count as never rejected.
        m: number of tests planned.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (m - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def bonferroni(p_values: npt.ArrayLike, m: int) -> Floats:
    """Adjust p-values, shape [k], by Bonferroni's procedure for m planned tests: p·m, at most 1."""
    return np.minimum(np.asarray(p_values, np.float64) * m, 1.0)
