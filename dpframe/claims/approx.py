"""The claims with one δ: (ε, δ)-DP and ε-DP."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, ClassVar

from dpframe.claims.claim import Claim

if TYPE_CHECKING:
    from dpframe.types import Floats

_LARGEST_EXPONENT = 700.0  # e^700 is finite in float64; beyond it a claim says nothing anyway


@dataclasses.dataclass(frozen=True)
class ApproxDP(Claim):
    """(ε, δ)-differential privacy [DworkKMMN2006].

    Raises:
        ValueError: ε is negative or not finite, or δ is outside [0, 1).
    """

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approx-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(f"a claimed epsilon is finite and not negative, got {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"a claimed delta is in [0, 1), got {self.delta}")

    @property
    def default_delta(self) -> float:
        return self.delta

    @property
    def telling_deltas(self) -> tuple[float, ...]:
        return (self.delta,)

    @property
    def _corner(self) -> float:
        """Where the curve meets its own reflection: the fixed point of f."""
        return (1 - self.delta) / (1 + self._growth)

    @property
    def _growth(self) -> float:
        return math.exp(min(self.epsilon, _LARGEST_EXPONENT))

    def epsilon_at(self, delta: float) -> float:
        """The line 1 − δ − e^ε x of the answer passes through the claimed curve's corner."""
        if delta < self.delta:
            return math.inf
        if delta == self.delta:
            return self.epsilon
        height = 1 - delta - self._corner
        return math.log(height / self._corner) if height > self._corner else 0.0

    def delta_at(self, epsilon: float) -> float:
        """The line 1 − δ − e^ε x of the answer passes through the claimed curve's corner."""
        if epsilon >= self.epsilon:
            return self.delta
        return max(self.delta, 1 - self._corner * (1 + math.exp(min(epsilon, _LARGEST_EXPONENT))))

    def tradeoff(self, fpr: Floats) -> Floats:
        """f(x) = max{0, 1 − δ − e^ε x, e^{−ε}(1 − δ − x)} [Dong2022, equation 5]."""
        import numpy as np

        rest = 1 - self.delta
        return np.maximum(0.0, np.maximum(rest - self._growth * fpr, (rest - fpr) / self._growth))


@dataclasses.dataclass(frozen=True)
class PureDP(ApproxDP):
    """ε-differential privacy [Dwork2006]: (ε, δ)-DP with δ = 0."""

    delta: float = dataclasses.field(default=0.0, init=False)
    kind: ClassVar[str] = "pure-dp"
