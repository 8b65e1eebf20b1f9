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
    """What Laplace noise of scale b gives for a query that moves by Δ; the shift is μ = Δ/b.

    It is μ-DP and more than that: δ(ε) = max{0, 1 − e^{(ε − μ)/2}} [BalleBG2018, theorem 3]. The
    curve of two Laplace distributions a distance μ apart [Dong2022, lemma A.6] has the two ends of
    μ-DP, and an arc in place of its corner.

    It is reported at δ = 0. The parameter is not called mu, because mu = 1 means Gaussian DP.

    Raises:
        ValueError: the shift is negative or not finite.
    """

    shift: float
    """μ: how far the query moves, in units of the noise's scale."""
    kind: ClassVar[str] = "laplace-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.shift) and self.shift >= 0):
            raise ValueError(f"a claimed shift is finite and not negative, got {self.shift}")

    @property
    def default_delta(self) -> float:
        return 0.0

    def epsilon_at(self, delta: float) -> float:
        return max(0.0, self.shift + 2 * math.log1p(-delta)) if delta < 1 else 0.0

    def delta_at(self, epsilon: float) -> float:
        return max(0.0, -math.expm1((epsilon - self.shift) / 2))

    def tradeoff(self, fpr: Floats) -> Floats:
        """f(x) = 1 − e^μ x to x = e^{−μ}/2, e^{−μ}/(4x) to x = 1/2, then e^{−μ}(1 − x)."""
        import numpy as np

        x = np.asarray(fpr, np.float64)
        knee = math.exp(-self.shift) / 2
        # x/knee and knee/x stay finite where they are used, however small the knee is.
        steep = 1 - np.minimum(x, knee) / (2 * knee) if knee else np.where(x > 0, 0.0, 1.0)
        arc = knee / (2 * np.clip(x, max(knee, 1e-300), None))
        return np.where(x <= knee, steep, np.where(x <= 0.5, arc, 2 * knee * (1 - x)))
