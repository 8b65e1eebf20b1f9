"""Neighbouring datasets: what an audit plays against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from dpframe.plugin import Plugin, gives, require, require_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.types import Floats, HostArray, Tree


class Pair(Plugin, kind="pair"):
    """Two neighbouring datasets (D, D′).

    A subclass gives `d0` and `d1`, and says in `adjacency` under which relation they are neighbours
    ("replace one record", "add or remove one record", …). A dataset is an array or a pytree of
    arrays (a tuple, a NamedTuple, a dict); both have the same structure, shapes and types. Where
    they differ in size, pad them and say in a boolean array which rows exist.
    """

    may_be_parameters = frozenset({"adjacency"})

    if TYPE_CHECKING:  # as a property, because a parameter or an attribute may stand for that

        @property
        def adjacency(self) -> str:
            """The relation in which D and D′ are neighbours, in words."""
            raise NotImplementedError

    else:
        adjacency: ClassVar[str]

    parameters_say_all: ClassVar[bool] = False
    """Whether nothing but the parameters and this version of the code decides what D and D′ are.

    Their content is then left out of the address of the draws, so that a release in which they
    change in form only draws the same. Counts are kept apart by content all the same.
    """

    @classmethod
    def check_definition(cls) -> None:
        missing = [part for part in ("d0", "d1", "adjacency") if not gives(cls, part)]
        if missing:
            raise TypeError(f"{cls.__name__}: a pair gives {', '.join(missing)}")
        require_text(cls, "adjacency")
        require(cls, "parameters_say_all", bool)

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
        d0, d1 = jax.tree.leaves(self.d0), jax.tree.leaves(self.d1)
        parts = (part for both in zip(d0, d1, strict=True) for part in _differences(*both))
        if sum(map(np.size, d0)) <= BLOCK:
            return float(np.linalg.norm(np.concatenate(list(parts)), ord=p))
        return float(np.linalg.norm([np.linalg.norm(part, ord=p) for part in parts], ord=p))


def unplayable(pair: Pair) -> str | None:
    """Why two datasets cannot be played against each other; None if they can.

    Raises whatever the pair raises.
    """
    d0, d1 = pair.d0, pair.d1
    structures: list[Any] = [jax.tree.structure(data) for data in (d0, d1)]
    if structures[0] != structures[1]:
        return "D and D′ are pytrees of different structure"
    for before, after in zip(jax.tree.leaves(d0), jax.tree.leaves(d1), strict=True):
        x, y = np.asarray(before), np.asarray(after)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            of = [f"{array.dtype} of shape {array.shape}" for array in (x, y)]
            return f"D is {of[0]}, D′ is {of[1]}: they must be alike"
    return None


EQUAL = "D and D′ are equal: there is nothing to tell apart, so nothing is tested"


def equal(pair: Pair) -> bool:
    """Whether D and D′ are the same; NaN is the same as NaN."""
    both = zip(jax.tree.leaves(pair.d0), jax.tree.leaves(pair.d1), strict=True)
    return all(_same(np.atleast_1d(one), np.atleast_1d(other)) for one, other in both)


def _same(one: HostArray, other: HostArray) -> bool:
    rows = max(1, BLOCK * len(one) // max(1, one.size))
    for first in range(0, len(one), rows):
        x, y = one[first : first + rows], other[first : first + rows]
        if not ((x == y) | ((x != x) & (y != y))).all():  # noqa: PLR0124
            return False
    return True


BLOCK = 1 << 20
"""Coordinates that are compared at a time: two datasets may be most of what the memory holds."""


def _differences(d0: Any, d1: Any) -> Iterator[Floats]:
    """D′ − D of one array, flat, in blocks."""
    if np.shape(d0) != np.shape(d1):
        raise ValueError(f"D has the shape {np.shape(d0)}, D′ has {np.shape(d1)}")
    arrays = np.atleast_1d(d0), np.atleast_1d(d1)
    rows = max(1, BLOCK * len(arrays[0]) // max(1, arrays[0].size))
    for first in range(0, len(arrays[0]), rows):
        before, after = (np.asarray(a[first : first + rows], np.float64) for a in arrays)
        yield np.ravel(after - before)
