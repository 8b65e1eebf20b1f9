"""The exact curve of a Gaussian mechanism on a Poisson sample."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, ClassVar

from dpframe.claims.claim import Claim
from dpframe.claims.gaussian import GaussianDP

if TYPE_CHECKING:
    from dpframe.types import Floats


@dataclasses.dataclass(frozen=True)
class SubsampledGaussianDP(Claim):
    """One release of the Gaussian mechanism, the record being in the sample with probability q.

    The distributions are (1 − q) N(0, σ²) + q N(1, σ²) with the record and N(0, σ²) without it
    [Koskela2024, section 3] [Mironov2019]. With G the profile of N(0, σ²) and N(1, σ²),
    δ(ε) = q G(ln(1 + (e^ε − 1)/q)). The curve is that of both directions together:
    f_q = q G + (1 − q)(1 − x), its inverse, and the line of slope −1 that joins them
    [Dong2022, theorem 4.2].

    Raises:
        ValueError: q is outside (0, 1], or σ is not positive and finite.
    """

    sampling_probability: float
    """q, with which the record is in the sample."""
    noise_multiplier: float
    """σ: the noise's standard deviation, divided by the query's sensitivity."""
    kind: ClassVar[str] = "subsampled-gaussian-dp"

    def __post_init__(self) -> None:
        q, sigma = self.sampling_probability, self.noise_multiplier
        if not 0 < q <= 1:
            raise ValueError(f"a claimed sampling_probability is in (0, 1], got {q}")
        if not (math.isfinite(sigma) and sigma > 0):
            raise ValueError(f"a claimed noise_multiplier is finite and positive, got {sigma}")

    @property
    def _whole(self) -> GaussianDP:
        """The same without sampling."""
        return GaussianDP(1 / self.noise_multiplier)

    # Only the distribution P with the record against Q without it counts. With α = e^ε ≥ 1 and
    # P₁ = N(1, σ²), [Q − αP]₊ = [qQ − (α − 1 + q)P₁ − (1 − q)(α − 1)(Q − P₁)]₊ is nowhere above
    # [qQ − (α − 1 + q)P₁]₊, whose integral is that of [P − αQ]₊: P₁ and Q are mirror images.

    def epsilon_at(self, delta: float) -> float:
        q = self.sampling_probability
        whole = self._whole.epsilon_at(min(delta / q, 1.0))
        if whole > 1:  # the same without e^ε, which overflows
            return whole + math.log(q + (1 - q) * math.exp(-whole))
        return math.log1p(q * math.expm1(whole))

    def delta_at(self, epsilon: float) -> float:
        q = self.sampling_probability
        if epsilon > 1:
            whole = epsilon - math.log(q) + math.log1p((q - 1) * math.exp(-epsilon))
        else:
            whole = math.log1p(math.expm1(epsilon) / q)
        return q * self._whole.delta_at(whole)

    def tradeoff(self, fpr: Floats) -> Floats:
        """min{f_q, f_q⁻¹}, made convex [Dong2022, definition 7]."""
        from dpframe.stats.subsampled import subsampled_gaussian_tradeoff

        return subsampled_gaussian_tradeoff(fpr, self.sampling_probability, self.noise_multiplier)
