"""Claims: each is a trade-off curve and gives ε(δ) and δ(ε)."""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dpframe.common.types import Floats
    from dpframe.stats.tradeoff import Envelope


# δ at which a claim that is a whole curve is reported, unless the spec names another.
DEFAULT_DELTA = 1e-5

# δ at which a report looks for the clearest difference from such a claim.
TELLING_DELTAS = (
    *(1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3),
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
)

POINTS = 4000  # points of the privacy profile from which a curve without a formula is made


def check_parameter(name: str, value: float) -> None:
    """Raise ValueError for a number that is negative or not finite."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"a claimed {name} must be finite and not negative, got {value}")


class Claim(ABC):
    """A differential-privacy guarantee, seen as a bound on every attack's error rates.

    A subclass gives `epsilon_at` and `delta_at`. The defaults of the rest are those of a claim
    that is a whole curve, with something to say at every δ.
    """

    kind: ClassVar[str]

    @property
    def default_delta(self) -> float:
        """The δ at which the claim is reported unless the spec names another."""
        return DEFAULT_DELTA

    @property
    def telling_deltas(self) -> tuple[float, ...]:
        """The δ at which a report looks for the clearest difference between bound and claim."""
        return tuple(sorted({*TELLING_DELTAS, self.default_delta}))

    @abstractmethod
    def epsilon_at(self, delta: float) -> float:
        """Smallest ε, in nats, for which (ε, δ)-DP follows from the claim; inf if there is none."""

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """Smallest δ for which (ε, δ)-DP follows from the claim; ε is not negative."""

    def tradeoff(self, fpr: Floats) -> Floats:
        """Lowest false-negative rate that the claim allows at each false-positive rate.

        This is the function f of f-DP [Dong2022, Definition 2.2]: convex, continuous,
        non-increasing and equal to its own inverse.

        The default makes it from points (ε, δ) of the claim, by lemma 7 and Algorithm 1 of
        [Koskela2024]. Between two points the resulting curve lies a little below the claimed one. A
        lower curve allows more, so a verdict can only become more lenient by it.

        Args:
            fpr: false-positive rates in [0, 1], any shape.

        Returns:
            False-negative rates, same shape.
        """
        return self._envelope.at(fpr)

    def parameters(self) -> dict[str, Any]:
        """Return the claim's parameters as JSON values for the record."""
        this: Any = self
        fields = dataclasses.fields(this) if dataclasses.is_dataclass(this) else ()
        return {field.name: getattr(self, field.name) for field in fields}

    def _profile(self) -> tuple[Floats, Floats]:
        """Return points (ε, δ) of the claim that determine its curve, in any order."""
        import numpy as np

        tiny = [d for d in (0.0, 1e-15, *self.telling_deltas) if self.epsilon_at(d) < np.inf]
        furthest = self.epsilon_at(tiny[0]) if tiny else 0.0
        # Small ε shape the curve's middle, whatever the largest ε is.
        small = np.geomspace(furthest / 1e6, furthest, POINTS // 2) if furthest else np.zeros(1)
        grid = np.append(np.linspace(0.0, furthest, POINTS // 2), small)
        return grid, np.array([self.delta_at(epsilon) for epsilon in grid.tolist()])

    @functools.cached_property
    def _envelope(self) -> Envelope:
        import numpy as np

        from dpframe.stats.tradeoff import tradeoff_envelope

        epsilons, deltas = self._profile()
        # At the δ that reports use, curve and ε(δ) agree to the last digit.
        telling = np.array(self.telling_deltas)
        at_told = np.array([self.epsilon_at(delta) for delta in self.telling_deltas])
        return tradeoff_envelope(np.append(epsilons, at_told), np.append(deltas, telling))


_LARGEST_EXPONENT = 700.0  # e^700 is finite in float64; a larger ε claims nothing in practice


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
        check_parameter("epsilon", self.epsilon)
        if not 0 <= self.delta < 1:
            raise ValueError(f"a claimed delta must be in [0, 1), got {self.delta}")

    @property
    def default_delta(self) -> float:
        return self.delta

    @property
    def telling_deltas(self) -> tuple[float, ...]:
        return (self.delta,)

    @property
    def _corner(self) -> float:
        """Return the point where the curve meets its own reflection: the fixed point of f."""
        return (1 - self.delta) / (1 + self._growth)

    @property
    def _growth(self) -> float:
        return math.exp(min(self.epsilon, _LARGEST_EXPONENT))

    def epsilon_at(self, delta: float) -> float:
        """Return the ε whose line 1 − δ − e^ε x passes through the corner of the curve."""
        if delta < self.delta:
            return math.inf
        if delta == self.delta:
            return self.epsilon
        height = 1 - delta - self._corner
        return math.log(height / self._corner) if height > self._corner else 0.0

    def delta_at(self, epsilon: float) -> float:
        """Return the δ whose line 1 − δ − e^ε x passes through the corner of the curve."""
        if epsilon >= self.epsilon:
            return self.delta
        return max(self.delta, 1 - self._corner * (1 + math.exp(min(epsilon, _LARGEST_EXPONENT))))

    def tradeoff(self, fpr: Floats) -> Floats:
        """Return max{0, 1 − δ − e^ε x, e^{−ε}(1 − δ − x)} [Dong2022, equation 5]."""
        import numpy as np

        rest = 1 - self.delta
        return np.maximum(0.0, np.maximum(rest - self._growth * fpr, (rest - fpr) / self._growth))


@dataclasses.dataclass(frozen=True)
class PureDP(ApproxDP):
    """ε-differential privacy [Dwork2006]: (ε, δ)-DP with δ = 0."""

    delta: float = dataclasses.field(default=0.0, init=False)
    kind: ClassVar[str] = "pure-dp"


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
        check_parameter("mu", self.mu)

    def epsilon_at(self, delta: float) -> float:
        return _epsilon(float(self.mu), float(delta))

    def delta_at(self, epsilon: float) -> float:
        from dpframe.stats.gaussian import gaussian_delta

        return float(gaussian_delta(epsilon, self.mu))

    def tradeoff(self, fpr: Floats) -> Floats:
        """Return Φ(Φ⁻¹(1 − x) − μ) [Dong2022, equation 6]."""
        from dpframe.stats.gaussian import gaussian_tradeoff

        return gaussian_tradeoff(fpr, self.mu)


@functools.lru_cache(maxsize=4096)  # a report asks for the same few δ again and again
def _epsilon(mu: float, delta: float) -> float:
    from dpframe.stats.gaussian import gaussian_epsilon

    return float(gaussian_epsilon(delta, mu))


@dataclasses.dataclass(frozen=True)
class LaplaceDP(Claim):
    """The guarantee of Laplace noise of scale b for a query that moves by Δ; the shift is μ = Δ/b.

    It is μ-DP and more than that: δ(ε) = max{0, 1 − e^{(ε − μ)/2}} [BalleBG2018, theorem 3]. The
    curve of two Laplace distributions a distance μ apart [Dong2022, lemma A.6] has the two ends of
    μ-DP, and an arc in place of its corner.

    It is reported at δ = 0. The parameter is called shift, because mu = 1 means Gaussian DP.

    Raises:
        ValueError: the shift is negative or not finite.
    """

    shift: float
    """μ: how far the query moves, in units of the noise's scale."""
    kind: ClassVar[str] = "laplace-dp"

    def __post_init__(self) -> None:
        check_parameter("shift", self.shift)

    @property
    def default_delta(self) -> float:
        return 0.0

    def epsilon_at(self, delta: float) -> float:
        return max(0.0, self.shift + 2 * math.log1p(-delta)) if delta < 1 else 0.0

    def delta_at(self, epsilon: float) -> float:
        return max(0.0, -math.expm1(min(0.0, epsilon - self.shift) / 2))

    def tradeoff(self, fpr: Floats) -> Floats:
        """Return 1 − e^μ x to x = e^{−μ}/2, e^{−μ}/(4x) to x = ½, then e^{−μ}(1 − x)."""
        import numpy as np

        x = np.asarray(fpr, np.float64)
        knee = math.exp(-self.shift) / 2
        # x/knee and knee/x stay finite where they are used, however small the knee is.
        steep = 1 - np.minimum(x, knee) / (2 * knee) if knee else np.where(x > 0, 0.0, 1.0)
        arc = knee / (2 * np.clip(x, max(knee, 1e-300), None))
        return np.where(x <= knee, steep, np.where(x <= 0.5, arc, 2 * knee * (1 - x)))


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
    """q, the probability that the record is in the sample."""
    noise_multiplier: float
    """σ: the noise's standard deviation, divided by the query's sensitivity."""
    kind: ClassVar[str] = "subsampled-gaussian-dp"

    def __post_init__(self) -> None:
        q, sigma = self.sampling_probability, self.noise_multiplier
        if not 0 < q <= 1:
            raise ValueError(f"a claimed sampling_probability must be in (0, 1], got {q}")
        if not (math.isfinite(sigma) and sigma > 0):
            raise ValueError(f"a claimed noise_multiplier must be finite and positive, got {sigma}")

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
        from dpframe.stats.gaussian import subsampled_gaussian_tradeoff

        return subsampled_gaussian_tradeoff(fpr, self.sampling_probability, self.noise_multiplier)
