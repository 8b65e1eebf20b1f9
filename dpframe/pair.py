"""Neighbouring datasets: what an audit plays against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import jax
import numpy as np

from dpframe.plugin import Plugin

if TYPE_CHECKING:
    from dpframe.types import Tree


class Pair(Plugin, kind="pair"):
    """Two neighbouring datasets (D, D′).

    A subclass gives `d0` and `d1`, and says in `adjacency` under which relation they are neighbours
    ("replace one record", "add or remove one record", …). A dataset is an array or a pytree of
    arrays (a tuple, a NamedTuple, a dict); both have the same structure, shapes and types. Where
    they differ in size, pad them and say in a boolean array which rows exist.
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
    def d0(self) -> Tree:
        """The dataset D: an array of shape [*dims], or a pytree of arrays."""
        raise NotImplementedError

    @property
    def d1(self) -> Tree:
        """The dataset D′, like D."""
        raise NotImplementedError

    def distance(self, p: float) -> float:
        """The l_p distance of D and D′, p ≥ 1 or inf: the sensitivity of the identity query.

        Of datasets that are pytrees: that of all their arrays, laid end to end.
        """
        both = [jax.tree.leaves(data) for data in (self.d0, self.d1)]
        d0, d1 = (np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in d]) for d in both)
        return float(np.linalg.norm(d1 - d0, ord=p))
