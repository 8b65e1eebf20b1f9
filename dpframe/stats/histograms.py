"""Divergences of histograms, their sampling error, bin widths, and Gaussian noise from them."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from dpframe.common.types import Floats, HostArray

Indices = npt.NDArray[np.intp]


LARGEST_EPSILON = 700.0
"""e^700 is finite in float64; a ratio of two nonzero frequencies is far smaller."""


def bin_counts(edges: HostArray, scores: HostArray) -> HostArray:
    """Count scores, shape [n], between ascending edges as `BinCounts` does: NaN first."""
    numbers = np.sort(scores[~np.isnan(scores)])
    below = np.searchsorted(numbers, edges)  # ten times faster than a search for each score
    steps = np.diff(below, prepend=0, append=len(numbers))
    return np.append(len(scores) - len(numbers), steps).astype(np.int32)


def half_line(edge: Any, *, is_above: bool) -> str:
    """Describe the numbers from an edge up, or below it: "at most 0" for those < 5e-324."""
    edge = np.asarray(edge)[()]  # in the dtype of the scores
    with np.errstate(all="ignore"):  # subnormal numbers and infinities raise warnings
        before = np.nextafter(edge, edge.dtype.type(-np.inf))
    is_before = before == 0 or len(str(before)) + 2 < len(str(edge))
    text = f"{float(str((before if is_before else edge) + 0)):.6g}"  # 0.0 has no sign
    if is_above:
        return f"more than {text}" if is_before else f"{text} or more"
    return f"at most {text}" if is_before else f"less than {text}"


class NestedEvents(NamedTuple):
    """The events that best distinguish two histograms, from the empty one to the whole."""

    fpr: Floats  # Q(E), ascending, shape [k + 1]
    fnr: Floats  # 1 − P(E), descending, the same shape


def hockey_stick(p: npt.ArrayLike, q: npt.ArrayLike, epsilon: npt.ArrayLike) -> Floats:
    """Return H_{e^ε}(P‖Q) = Σ_j [p_j − e^ε q_j]₊ [Koskela2024, equation 2.1], shaped as ε."""
    first, second = np.asarray(p, np.float64), np.asarray(q, np.float64)
    growth = np.exp(np.minimum(np.asarray(epsilon, np.float64), LARGEST_EPSILON))
    return np.asarray(np.maximum(first - growth[..., None] * second, 0.0).sum(axis=-1))


def privacy_profile(p: npt.ArrayLike, q: npt.ArrayLike, epsilon: npt.ArrayLike) -> Floats:
    """Return δ(ε): the larger divergence of the two directions, shape of `epsilon`."""
    return np.maximum(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def total_variation(p: npt.ArrayLike, q: npt.ArrayLike) -> float:
    """Return ½ Σ |p_j − q_j|, the divergence at ε = 0 (equation 2.3)."""
    return float(np.abs(np.asarray(p, np.float64) - np.asarray(q, np.float64)).sum() / 2)


def ratio_order(p: npt.ArrayLike, q: npt.ArrayLike) -> Indices:
    """Order bins from the largest p_j/q_j to the smallest; empty bins count as ratio 1."""
    first, second = np.asarray(p, np.float64), np.asarray(q, np.float64)
    both = first + second
    share = np.where(both > 0, first, 0.5) / np.where(both > 0, both, 1.0)
    return np.argsort(-share, kind="stable")


def best_events(p: npt.ArrayLike, q: npt.ArrayLike) -> NestedEvents:
    """Return the k + 1 unions of the first bins, ordered by decreasing ratio p_j/q_j.

    For every real ε one of them, the bins with p_j > e^ε q_j, maximises P(E) − e^ε Q(E); so
    H_{e^ε}(P‖Q) is the maximum over them. Their complements do the same for H_{e^ε}(Q‖P).
    """
    order = ratio_order(p, q)
    first, second = np.asarray(p, np.float64)[order], np.asarray(q, np.float64)[order]
    # Each is summed from its own small end, where digits matter.
    fnr = np.append(np.cumsum(first[::-1])[::-1], 0.0)
    return NestedEvents(fpr=np.concatenate([[0.0], np.cumsum(second)]), fnr=fnr)


def histogram_epsilon(p: npt.ArrayLike, q: npt.ArrayLike, delta: float) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ `delta`, in [0, 1).

    Over the best events E, max{ln((P(E) − δ)/Q(E)), ln((Q(Eᶜ) − δ)/P(Eᶜ))}: with two bins this is
    equation 6.2. Inf if bins that are empty on one side have more than δ of the mass of the other.
    """
    if not (np.any(p) and np.any(q)):
        return 0.0  # nothing was counted
    fpr, fnr = best_events(p, q)
    below = np.concatenate([fpr, fnr])
    above = 1 - delta - np.concatenate([fnr, fpr])
    shown = above > 1e-15  # below this it is the rounding error of an empty event
    if bool((shown & (below == 0)).any()):
        return math.inf
    ratios = np.where(shown, above, 0.0) / np.where(below > 0, below, 1.0)
    return math.log(max(1.0, float(ratios.max())))


def subsampled_gaussian_hockey_stick(epsilon: npt.ArrayLike, q: float, sigma: float) -> Floats:
    """Return H_{e^ε}(P‖Q) of P = q N(1, σ²) + (1 − q) N(0, σ²) and Q = N(0, σ²).

    The density ratio 1 − q + q e^{(2x − 1)/(2σ²)} rises in x, so the best event is a half-line (the
    pair of [Koskela2024, section 3]; q = 1 is their equation 2.2).

    Args:
        epsilon: any real numbers up to 700.
        q: sampling probability in (0, 1].
        sigma: positive.
    """
    growth = np.exp(np.asarray(epsilon, np.float64))
    inside = growth > 1 - q
    log_ratio = np.log(np.where(inside, growth - (1 - q), q) / q)
    t = 0.5 + sigma**2 * log_ratio
    there = special.ndtr(-t / sigma)
    mixture = q * special.ndtr((1 - t) / sigma) + (1 - q) * there
    # Where the ratio is larger everywhere, all outcomes say P.
    return np.asarray(np.where(inside, np.maximum(mixture - growth * there, 0), 1 - growth))


def canonne_radius(trials: npt.ArrayLike, bins: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Return τ with Pr[TV(P, P̂) > τ] ≤ error: √(max{k, 2 ln(2/error)}/n), at most 1.

    Lemma 2 of [Koskela2024], after theorem 1 of [Canonne2020]: the mean of TV is at most ½√(k/n),
    and McDiarmid's inequality bounds its excess.

    Args:
        trials: n ≥ 1.
        bins: k ≥ 1, empty ones included.
        error: in (0, 1]; all three broadcast.
    """
    n, k, a = (np.asarray(value, np.float64) for value in (trials, bins, error))
    return np.asarray(np.minimum(np.sqrt(np.maximum(k, 2 * np.log(2 / a)) / n), 1.0))


def one_sided_radius(trials: npt.ArrayLike, bins: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Return the sharper τ = ½√(k/n) + √(ln(1/error)/(2n)), never larger than `canonne_radius`.

    One score moves TV by at most 1/n, so TV exceeds its mean by t with probability at most
    exp(−2nt²) [McDiarmid1989]. The lower tail gets no error, and no term is rounded up to τ/2.
    Arguments as above.
    """
    n, k, a = (np.asarray(value, np.float64) for value in (trials, bins, error))
    return np.asarray(np.minimum(np.sqrt(k / n) / 2 + np.sqrt(-np.log(a) / (2 * n)), 1.0))


NORMAL = 2 * 3 ** (1 / 3) * math.pi ** (1 / 6)
"""3.4908…: width = NORMAL · σ · n^{−1/3} for two normal distributions (equation 4.2)."""

SMALLEST = 1e-100  # smaller deviations count as 0, because their inverse cubes overflow


def scott_width(
    roughness_p: npt.ArrayLike, roughness_q: npt.ArrayLike, trials: npt.ArrayLike
) -> Floats:
    """Return (12/(∫p′² + ∫q′²))^{1/3} n^{−1/3}, the best width for both densities [Scott1979].

    Equation 4.1 of [Koskela2024]: with it the hockey-stick divergence of the histograms approaches
    the true one in the mean as n^{−1/3}, for every order (theorem 4).

    Args:
        roughness_p: ∫p′², positive.
        roughness_q: ∫q′², positive.
        trials: n per distribution; all three broadcast.
    """
    total = np.asarray(roughness_p, np.float64) + np.asarray(roughness_q, np.float64)
    return np.asarray(np.cbrt(12 / (total * np.asarray(trials, np.float64))))


def normal_roughness(sigma: npt.ArrayLike) -> Floats:
    """Return ∫p′² of a normal density: 1/(4 √π σ³)."""
    cube = np.asarray(sigma, np.float64) ** 3
    return np.asarray(1 / (4 * math.sqrt(math.pi) * cube))


def common_deviation(sigma_p: float, sigma_q: float) -> float:
    """Return the common σ that gives the best width for two normal densities.

    (2/(σ_P^{−3} + σ_Q^{−3}))^{1/3}, between the smaller one and 1.26 times it. A distribution
    without spread is left out; 0 if neither has one.
    """
    sigmas = [sigma for sigma in (sigma_p, sigma_q) if sigma > SMALLEST]
    if not sigmas:
        return 0.0
    least = min(sigmas)
    return least * float(np.cbrt(len(sigmas) / sum((least / sigma) ** 3 for sigma in sigmas)))


ROOT_8 = math.sqrt(8)


def sigma_of_total_variation(tv: npt.ArrayLike, sampling_probability: float = 1.0) -> Floats:
    """Return the σ of a subsampled Gaussian with a total variation, 1/(2 Φ⁻¹((TV/q + 1)/2)).

    [Koskela2024, section 7].

    Args:
        tv: at least 0.
        sampling_probability: q in (0, 1].

    Returns:
        Inf at TV = 0; 0 if TV is q or more, which no noise explains.
    """
    share = np.clip(np.asarray(tv, np.float64) / sampling_probability, 0.0, 1.0)
    slope = special.erfinv(share)
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (ROOT_8 * slope))
