"""The claim of a Gaussian mechanism."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, ClassVar

from dpframe.claims.claim import Claim

if TYPE_CHECKING:
    from dpframe.types import Floats


@dataclasses.dataclass(frozen=True)
class GaussianDP(Claim):
    """μ-Gaussian differential privacy [Dong2022, definition 3].

    No attack tells D and D′ apart better than N(0, 1) and N(μ, 1). Noise of standard deviation σ
    on a query with ℓ2 sensitivity Δ is exactly that, with μ = Δ/σ. The curve is
    f(x) = Φ(Φ⁻¹(1 − x) − μ), and δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) [Balle2018, theorem 8].
    There is no ε at δ = 0, unless μ = 0.

    Raises:
        ValueError: μ is negative or not finite.
    """

    mu: float
    kind: ClassVar[str] = "gaussian-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mu) and self.mu >= 0):
            raise ValueError(f"a claimed mu is finite and not negative, got {self.mu}")

    def epsilon_at(self, delta: float) -> float:
        return _epsilon(float(self.mu), float(delta))

    def delta_at(self, epsilon: float) -> float:
        from dpframe.stats.gaussian import gaussian_delta

        return float(gaussian_delta(epsilon, self.mu))

    def tradeoff(self, fpr: Floats) -> Floats:
        """f(x) = Φ(Φ⁻¹(1 − x) − μ) [Dong2022, equation 6]."""
        from dpframe.stats.gaussian import gaussian_tradeoff

        return gaussian_tradeoff(fpr, self.mu)


@functools.lru_cache(maxsize=4096)  # a report asks for the same few δ again and again
def _epsilon(mu: float, delta: float) -> float:
    from dpframe.stats.gaussian import gaussian_epsilon

    return float(gaussian_epsilon(delta, mu))
