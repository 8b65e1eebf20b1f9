"""Neighbouring datasets: what an audit plays against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpframe.plugin import Plugin

if TYPE_CHECKING:
    from dpframe.types import HostArray


class Pair(Plugin, kind="pair"):
    """Two neighbouring datasets (D, D′).

    A subclass gives `d0` and `d1`, arrays of one shape and type, and says in `adjacency` under
    which relation they are neighbours ("replace one record", "add or remove one record", …).
    """

    adjacency: ClassVar[str]

    @classmethod
    def check_definition(cls) -> None:
        missing = [
            part
            for part in ("d0", "d1", "adjacency")
            if not hasattr(cls, part) or getattr(cls, part) is getattr(Pair, part, None)
        ]
        if missing:
            raise TypeError(f"{cls.__name__}: a pair gives {', '.join(missing)}")

    @property
    def d0(self) -> HostArray:
        """The dataset D, shape [*dims]."""
        raise NotImplementedError

    @property
    def d1(self) -> HostArray:
        """The dataset D′, shape [*dims]."""
        raise NotImplementedError

    def distance(self, p: float) -> float:
        """The l_p distance of D and D′, p ≥ 1 or inf: the sensitivity of the identity query."""
        difference = np.asarray(self.d1, np.float64) - np.asarray(self.d0, np.float64)
        return float(np.linalg.norm(difference.ravel(), ord=p))
