"""The pair of the DPText paper: all zeros against all ones."""

from __future__ import annotations

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

    dim: Annotated[int, Ge(1)] = 1
    """Number of coordinates."""

    @property
    def d0(self) -> HostArray:
        return np.zeros(self.dim, np.float32)

    @property
    def d1(self) -> HostArray:
        return np.ones(self.dim, np.float32)
