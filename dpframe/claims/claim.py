"""What every claim is: a trade-off curve that gives ε(δ) and δ(ε)."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dpframe.stats.envelope import Envelope
    from dpframe.types import Floats

DEFAULT_DELTA = 1e-5
"""δ at which a claim that is a curve is reported, unless the spec names another."""

TELLING_DELTAS = (
    *(1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3),
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""δ at which a report looks for the clearest difference from a claim that is a curve."""

POINTS = 4000
"""Points of the privacy profile from which a curve without a formula is made."""


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
        [Koskela2024]. Between two points the curve so made lies a little below the claimed one. A
        lower curve allows more, so a verdict can only become more lenient by it.

        Args:
            fpr: false-positive rates in [0, 1], any shape.

        Returns:
            False-negative rates, same shape.
        """
        return self._envelope.at(fpr)

    def parameters(self) -> dict[str, Any]:
        """What the claim is about, as JSON values for the record."""
        this: Any = self
        fields = dataclasses.fields(this) if dataclasses.is_dataclass(this) else ()
        return {field.name: getattr(self, field.name) for field in fields}

    def _profile(self) -> tuple[Floats, Floats]:
        """Points (ε, δ) of the claim that determine its curve, in any order."""
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

        from dpframe.stats.envelope import tradeoff_envelope

        epsilons, deltas = self._profile()
        # At the δ that reports use, curve and ε(δ) agree to the last digit.
        told = np.array(self.telling_deltas)
        at_told = np.array([self.epsilon_at(delta) for delta in self.telling_deltas])
        return tradeoff_envelope(np.append(epsilons, at_told), np.append(deltas, told))
