"""What mechanisms share whose noise is made for ε and an l1 sensitivity."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Self

from dpframe import Gt, Mechanism, Pair, PureDP
from dpframe.builtin.mechanisms._laplace import l1_sensitivity, noise_scale

if TYPE_CHECKING:
    pass


class Calibrated(Mechanism):
    """A mechanism that claims ε-DP and takes the scale of its noise from ε and a sensitivity Δ."""

    epsilon: Annotated[float, Gt(0)]
    """The claim, and with the sensitivity the scale of the noise."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """l1 sensitivity Δ; default: the pair's l1 distance."""

    def resolve(self, pair: Pair) -> Self:
        return dataclasses.replace(self, sensitivity=l1_sensitivity(self.sensitivity, pair))

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def scale(self) -> float:
        """Δ/ε, once `resolve` has filled Δ."""
        return noise_scale(self.sensitivity, self.epsilon)
