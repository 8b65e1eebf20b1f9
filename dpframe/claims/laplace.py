"""The exact curve of a Laplace mechanism."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, ClassVar

from dpframe.claims.claim import Claim

if TYPE_CHECKING:
    from dpframe.types import Floats


@dataclasses.dataclass(frozen=True)
class LaplaceDP(Claim):
    """What Laplace noise of scale b gives for a query that moves by Δ, μ = Δ/b.

    It is μ-DP, and more: δ(ε) = max{0, 1 − e^{(ε − μ)/2}} (Balle, Barthe and Gaboardi 2018,
    theorem 3). The curve of two Laplace distributions a distance μ apart (Dong, Roth and Su 2022,
    lemma A.6) has two ends of slope −e^{±μ} like that of μ-DP, and an arc in place of its corner.
    It is reported at δ = 0.

    Raises:
        ValueError: μ is negative or not finite.
    """

    mu: float
    kind: ClassVar[str] = "laplace-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mu) and self.mu >= 0):
            raise ValueError(f"a claimed mu is finite and not negative, got {self.mu}")

    @property
    def default_delta(self) -> float:
        return 0.0

    def epsilon_at(self, delta: float) -> float:
        return max(0.0, self.mu + 2 * math.log1p(-delta)) if delta < 1 else 0.0

    def delta_at(self, epsilon: float) -> float:
        return max(0.0, -math.expm1((epsilon - self.mu) / 2))

    def tradeoff(self, fpr: Floats) -> Floats:
        """f(x) = 1 − e^μ x, then e^{−μ}/(4x), then e^{−μ}(1 − x)."""
        import numpy as np

        x = np.asarray(fpr, np.float64)
        shrink = math.exp(-self.mu)
        knee = shrink / 2
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            steep, arc = 1 - x / shrink, knee / (2 * x)
        found = np.where(x < knee, steep, np.where(x <= 0.5, arc, shrink * (1 - x)))
        return np.where(x > 0, found, 1.0)
