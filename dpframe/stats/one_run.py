"""Auditing one training run with many canaries, each in the data with probability ½.

A guesser decides for r of m canaries if they are in, abstains on the others, and is right about v.
The number of guesses must be fixed beforehand, or several numbers must share the error. A claimed
trade-off curve f is used as its inverse blow-up function x ↦ f(1 − x): the least probability that
an event of probability x can have after the record is exchanged.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from dpframe.common.types import Floats
from dpframe.stats.roots import crossing


def one_run_p_value(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """Return the p-value of the claim of (ε, δ)-DP [Steinke2023, theorem 5.2].

    p = β(v) + 2mδ max_{1 ≤ i ≤ v} (β(v − i) − β(v))/i, at most 1, where β(w) = Pr[Bin(r, q) ≥ w]
    and q = e^ε/(1 + e^ε).

    Args:
        canaries: m, each included independently with probability ½.
        guesses: r ≤ m.
        correct: v ≤ r.
        epsilon: at least 0.
        delta: in [0, 1).
    """
    wins = np.arange(correct, -1, -1, dtype=np.float64)
    tail = np.ones(len(wins))
    has_wins = wins > 0
    success = special.expit(epsilon)
    tail[has_wins] = special.betainc(wins[has_wins], guesses - wins[has_wins] + 1, success)
    gains = (tail[1:] - tail[0]) / np.arange(1, correct + 1)
    return float(min(1.0, tail[0] + 2 * canaries * delta * gains.max(initial=0.0)))


def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """Return a lower limit of ε at δ: up to it every p-value is at most the error."""

    def excess(epsilon: float) -> float:
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) - error

    return crossing(excess)


SMALLEST_ERROR = 1e-12  # least p-value; a curve given as a function of 1 − x has no more digits


def one_run_rejects(
    canaries: int,
    guesses: int,
    correct: int,
    blow_up: Callable[[float], float],
    error: float,
) -> bool:
    """Return True if a claimed trade-off curve is rejected [Mahloujifar2024].

    Suppose that `correct` guesses are right with probability at least the error. The paper's
    recursion, from this number down to 0, bounds from below the probabilities that this requires of
    right (r) and of wrong guesses (h). If they exceed the available probability, the curve is
    refuted.

    Args:
        canaries: m.
        guesses: c′ ≤ m, the most that are made.
        correct: c ≤ c′.
        blow_up: the inverse blow-up function of the curve, convex and increasing on [0, 1]: x ↦
            Φ(Φ⁻¹(x) − μ) for μ-GDP.
        error: in (0, 1).
    """
    available = guesses / canaries
    right = error * correct / canaries
    wrong = error * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        larger = blow_up(right)
        if not larger > wrong:  # nothing changes any more
            break
        right = min(1.0, right + i / (guesses - i) * (larger - wrong))
        wrong = larger
        if right + wrong > available:  # neither ever falls
            return True
    return right + wrong > available


def one_run_fdp_p_value(
    canaries: int, guesses: int, correct: int, blow_up: Callable[[float], float]
) -> float:
    """Return the smallest error at which a curve is rejected, at least `SMALLEST_ERROR`."""
    origin = math.log(SMALLEST_ERROR)

    def rejected(log_ratio: float) -> float:
        error = min(1.0, math.exp(origin + log_ratio))
        return 1.0 if one_run_rejects(canaries, guesses, correct, blow_up, error) else -1.0

    if rejected(-origin) < 0:
        return 1.0
    width = 1e-6  # of the logarithm; the crossing is from below, a p-value goes up
    return min(1.0, math.exp(origin + crossing(rejected, most=-origin, tolerance=width) + 3e-5))


def one_run_fdp_epsilon(
    canaries: int, guesses: int, correct: int, delta: float, error: float
) -> float:
    """Return a lower limit of ε at δ for any mechanism: (ε, δ)-DP is rejected up to it."""
    result = canaries, guesses, correct
    return _rejected_up_to(result, error, lambda epsilon: approximate_blow_up(epsilon, delta))


def one_run_gaussian_mu(canaries: int, guesses: int, correct: int, error: float) -> float:
    """Return a lower limit of μ, for Gaussian mechanisms: the smallest μ not rejected."""
    return _rejected_up_to((canaries, guesses, correct), error, gaussian_blow_up)


def approximate_blow_up(epsilon: float, delta: float) -> Callable[[float], float]:
    """Return x ↦ max{0, 1 − δ − e^ε (1 − x), e^−ε (x − δ)}, that of (ε, δ)-DP."""
    steep, flat, rest = math.exp(min(epsilon, 700.0)), math.exp(-epsilon), 1 - delta
    return lambda x: max(0.0, rest - steep * (1 - x), flat * (x - delta))


def gaussian_blow_up(mu: float) -> Callable[[float], float]:
    """Return x ↦ Φ(Φ⁻¹(x) − μ), that of μ-GDP."""
    return lambda x: float(special.ndtr(special.ndtri(x) - mu))


def _rejected_up_to(
    result: tuple[int, int, int],
    error: float,
    curves: Callable[[float], Callable[[float], float]],
) -> float:
    """Find the parameter up to which the curves of a family are rejected."""

    def excess(parameter: float) -> float:
        return -1.0 if one_run_rejects(*result, curves(parameter), error) else 1.0

    return crossing(excess, tolerance=1e-8)  # from below, so a bound stays one


def binned_exposures(counts: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the exposures of bins, in bits and ascending, and the number of scores that have each.

    The exposure of a score is log₂ n − log₂ rank among n reference scores [Carlini2019]. The rank
    is 1 plus the number of reference scores at least as large, but at most n. Scores in one bin
    count as ties, and ties count against the canary, so an exposure may be too small but never too
    large. Without a leak it is about 1 bit in the median and log₂ e = 1.44 bits in the mean.

    Args:
        counts: shape [2, bins], bins in ascending order of scores; row 0 without the canary, with
            at least one score, row 1 with it.
    """
    reference, canaries = np.asarray(counts, np.float64)
    n = reference.sum()
    at_least = np.cumsum(reference[::-1])[::-1]
    return math.log2(n) - np.log2(np.minimum(at_least + 1, n)), canaries


def exposure_epsilon(exposure: float, delta: float = 0.0) -> float:
    """Return ln((½ − δ) 2^exposure), the loss that a median exposure suggests [Jagielski2023].

    With the median of the canaries' scores as threshold, TPR is ½ and FPR is 2^−exposure. So the
    loss is (exposure − 1) ln 2 at δ = 0: the first bit is chance. At least 0. An estimate, not a
    bound.
    """
    if delta >= 0.5:
        return 0.0
    return max(0.0, math.log(0.5 - delta) + exposure * math.log(2))


# The loss between two normal distributions that differ in mean and variance.
#
# One-shot audits with random canaries [AndrewK2024] estimate it: the cosines of canaries with the
# model are normal, N(0, 1/d) for those left out, with a fitted mean and variance for those in.


class Normal(NamedTuple):
    """A normal distribution."""

    mean: float
    deviation: float  # above 0

    def log_mass(self, low: float, high: float) -> float:
        left, right = (low - self.mean) / self.deviation, (high - self.mean) / self.deviation
        if left + right > 0:  # the tail that keeps its digits
            left, right = -right, -left
        above, below = float(special.log_ndtr(right)), float(special.log_ndtr(left))
        return above + math.log1p(-math.exp(below - above)) if below < above else -math.inf


def normals_epsilon(delta: float, first: Normal, second: Normal) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ `delta` > 0 in both directions, at most 1e9."""

    def excess(epsilon: float) -> float:
        forth = normals_log_delta(epsilon, first, second)
        return math.log(delta) - max(forth, normals_log_delta(epsilon, second, first))

    return crossing(excess, most=1e9)


def normals_log_delta(epsilon: float, first: Normal, second: Normal) -> float:
    """Return the logarithm of δ(ε) = Pr₁[L > ε] − e^ε Pr₂[L > ε], L being the log-ratio."""
    pieces = _where_the_loss_exceeds(epsilon, first, second)
    ours, theirs = (
        float(np.logaddexp.reduce([law.log_mass(*piece) for piece in pieces], initial=-math.inf))
        for law in (first, second)
    )
    factor = epsilon + theirs - ours if ours > -math.inf else 0.0
    return ours + math.log1p(-math.exp(factor)) if factor < 0 else -math.inf


def _where_the_loss_exceeds(
    epsilon: float, first: Normal, second: Normal
) -> list[tuple[float, float]]:
    """Find where a y² + b y + c, the log-ratio of the densities less ε, is positive."""
    (m1, s1), (m2, s2) = first, second
    a = (s2**-2 - s1**-2) / 2
    b = m1 / s1**2 - m2 / s2**2
    c = ((m2 / s2) ** 2 - (m1 / s1) ** 2) / 2 + math.log(s2 / s1) - epsilon
    inside = b * b - 4 * a * c
    if inside <= 0:  # a ratio of densities is nowhere above e^ε, or (rounding) just touches it
        return []
    # The root that does not cancel gives the other one, which is infinite at equal variances.
    larger = -(b + math.copysign(math.sqrt(inside), b)) / 2
    near = c / larger
    far = larger / a if a else math.copysign(math.inf, b)
    low, high = min(near, far), max(near, far)
    if a > 0:
        return [(-math.inf, low), (high, math.inf)]
    return [(low, high)]
