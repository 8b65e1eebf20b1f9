"""The pair of the DPText paper: all zeros against all ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dpframe import Ge, Pair

if TYPE_CHECKING:
    from dpframe import HostArray


class ZerosOnes(Pair, name="zeros-ones"):
    """D = (0, …, 0) and D′ = (1, …, 1): one person's record, replaced [Habernal2022, section 4].

    The l1 distance is dim: the two are as far apart as records in [0, 1]^dim can be.
    """

    adjacency: ClassVar[str] = "replace one record"
    parameters_say_all: ClassVar[bool] = True

    dim: Annotated[int, Ge(1)] = 1
    """Number of coordinates."""

    # Views of one number: a million coordinates take no memory before somebody draws from them.

    @property
    def d0(self) -> HostArray:
        return np.broadcast_to(np.float32(0), self.dim)

    @property
    def d1(self) -> HostArray:
        return np.broadcast_to(np.float32(1), self.dim)

    def distance(self, p: float) -> float:
        return 1.0 if p == math.inf else math.sqrt(self.dim) if p == 2 else self.dim ** (1 / p)
