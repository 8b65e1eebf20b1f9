"""The exact curve of a mechanism with finitely many outputs."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from scipy import optimize

from dpframe.plugins import Claim, Floats


@dataclasses.dataclass(frozen=True)
class FiniteDP(Claim):
    """The loss of outputs with these probabilities on D and on D′, in the worse direction.

    Raises:
        ValueError: the two datasets have different numbers of outputs.
    """

    on_zero: tuple[float, ...]
    on_one: tuple[float, ...]
    kind: ClassVar[str] = "finite"

    def __post_init__(self) -> None:
        if len(self.on_zero) != len(self.on_one):
            raise ValueError("D and D′ have the same outputs")

    @classmethod
    def of(cls, on_zero: Floats, on_one: Floats) -> FiniteDP:
        """Return the curve of arrays of probabilities of any shape; each is normalised."""
        zero, one = (np.ravel(part) / np.sum(part) for part in (on_zero, on_one))
        return cls(tuple(zero.tolist()), tuple(one.tolist()))

    @property
    def default_delta(self) -> float:
        return 0.0

    def delta_at(self, epsilon: float) -> float:
        """Return the hockey-stick divergence Σ max(0, p − e^ε q), in the larger direction."""
        zero, one = self._both
        growth = np.exp(min(epsilon, 700.0))
        ways = (np.maximum(0.0, p - growth * q).sum() for p, q in ((zero, one), (one, zero)))
        return float(max(ways))

    def epsilon_at(self, delta: float) -> float:
        """Return ε at δ by bisection; at δ = 0, from the largest ratio of two probabilities."""
        largest = self._largest()
        if delta == 0 or self.delta_at(0.0) <= delta:
            return largest if delta == 0 else 0.0
        ceiling = largest if largest < np.inf else 700.0
        if self.delta_at(ceiling) > delta:
            return float("inf")
        return float(optimize.brentq(lambda e: self.delta_at(e) - delta, 0.0, ceiling))

    def parameters(self) -> dict[str, Any]:
        return {"on_zero": list(self.on_zero), "on_one": list(self.on_one)}

    @property
    def _both(self) -> tuple[Floats, Floats]:
        return np.array(self.on_zero), np.array(self.on_one)

    def _largest(self) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.abs(np.log(self._both[1]) - np.log(self._both[0]))
        return float(np.nanmax(ratios, initial=0.0))  # NaN: possible on neither
