"""Claims about Rényi divergences.

They become (ε, δ) by proposition 12 of [CanonneKS2020]: if D_α ≤ ε_α then
δ(ε) ≤ exp((α − 1)(ε_α − ε)) (1 − 1/α)^{α−1} / α. Near ε = 0 the total variation distance says
more. It is at most √(KL/2) (Pinsker) and √(1 − e^{−KL}) [Bretagnolle1979], and KL is
at most every D_α of an order above 1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, ClassVar

from dpframe.claims.claim import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.common.types import Floats


POINTS = 2000  # points from which the curve of zero-concentrated DP is made
SMALLEST_LOG_DELTA = -745.0  # of a float64


@dataclasses.dataclass(frozen=True)
class RenyiDP(Claim):
    """(α, ε)-Rényi differential privacy [Mironov2017]: D_α ≤ ε in both directions, at one order.

    ε(δ), δ(ε) and the curve come from conversions that are not tight, so a verdict is lenient.
    At δ = 0 ε is infinite, unless the divergence is 0.

    Raises:
        ValueError: the order is not above 1 and finite, or ε is negative or not finite.
    """

    order: float
    epsilon: float
    kind: ClassVar[str] = "renyi-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.order) and self.order > 1):
            raise ValueError(f"a claimed order must be finite and above 1, got {self.order}")
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(
                f"a claimed epsilon must be finite and not negative, got {self.epsilon}"
            )

    def epsilon_at(self, delta: float) -> float:
        if delta >= _total_variation(self.epsilon):
            return 0.0
        return max(0.0, _epsilon(self.order - 1, self.epsilon, delta)) if delta > 0 else math.inf

    def delta_at(self, epsilon: float) -> float:
        return _delta(self.order - 1, self.epsilon, epsilon)


@dataclasses.dataclass(frozen=True)
class ZeroConcentratedDP(Claim):
    """ρ-zero-concentrated differential privacy [Bun2016]: D_α ≤ ρα for all α > 1.

    ε(δ), δ(ε) and the curve come from the best order. At δ = 0 ε is infinite, unless ρ = 0.

    Raises:
        ValueError: ρ is negative or not finite.
    """

    rho: float
    kind: ClassVar[str] = "zero-concentrated-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rho) and self.rho >= 0):
            raise ValueError(f"a claimed rho must be finite and not negative, got {self.rho}")

    # With b = α − 1, the best order for ε solves (2b + 1)ρ + ln(b/(1 + b)) = ε, and there ln δ is
    # −ρb² − ln(1 + b). Both are monotone, and every order is valid, so an inexact root only makes ε
    # and δ larger.

    def epsilon_at(self, delta: float) -> float:
        if delta >= _total_variation(self.rho):
            return 0.0
        return _zero_concentrated_epsilon(self.rho, delta) if delta > 0 else math.inf

    def delta_at(self, epsilon: float) -> float:
        rho = self.rho
        b = _root(lambda b: (2 * b + 1) * rho + math.log(b) - math.log1p(b) - epsilon)
        return min(_delta(b, rho * (1 + b), epsilon), _total_variation(rho))

    def _profile(self) -> tuple[Floats, Floats]:
        import numpy as np

        if self.rho == 0:
            return np.zeros(1), np.zeros(1)
        # From the order that is best at ε = 0 to that at the smallest δ of float64.
        least = _root(lambda b: (2 * b + 1) * self.rho + math.log(b) - math.log1p(b))
        most = max(math.sqrt(-SMALLEST_LOG_DELTA) / math.sqrt(self.rho), 2 * least)
        b = np.append(np.geomspace(least, most, POINTS), np.linspace(least, most, POINTS))
        epsilon = (2 * b + 1) * self.rho + np.log(b) - np.log1p(b)
        delta = np.exp(-self.rho * b * b) / (1 + b)
        return np.append(np.maximum(epsilon, 0.0), 0.0), np.append(delta, self.delta_at(0.0))


@functools.lru_cache(maxsize=4096)
def _zero_concentrated_epsilon(rho: float, delta: float) -> float:
    b = _root(lambda b: rho * b * b + math.log1p(b) + math.log(delta))
    return max(0.0, _epsilon(b, rho * (1 + b), delta))


def _epsilon(b: float, divergence: float, delta: float) -> float:
    """Return ε at δ from a divergence of order 1 + b."""
    return divergence + math.log(b) - math.log1p(b) - (math.log(delta) + math.log1p(b)) / b


def _delta(b: float, divergence: float, epsilon: float) -> float:
    """Return δ at ε from a divergence of order 1 + b."""
    log_delta = b * (divergence - epsilon + math.log(b) - math.log1p(b)) - math.log1p(b)
    return min(math.exp(min(0.0, log_delta)), _total_variation(divergence))


def _total_variation(divergence: float) -> float:
    """Bound the total variation distance from above."""
    return min(math.sqrt(divergence / 2), math.sqrt(-math.expm1(-divergence)))


def _root(rising: Callable[[float], float]) -> float:
    """Return the b > 0 above which an increasing function is positive, by bisection of ln b."""
    from dpframe.stats.roots import bisection

    return math.exp(bisection(lambda log_b: rising(math.exp(log_b)) > 0, -700.0, 700.0)[1])
