"""A pair that is written down, number by number."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NewType

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema

from dpframe import Pair

if TYPE_CHECKING:
    from dpframe import HostArray

Numbers = NewType("Numbers", object)
"""A number, or nested tuples of numbers, alike in length; or booleans in the same way."""

NESTED = {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "array"}]}


def frozen(values: Any) -> Numbers:
    """Nested lists, or an array, as nested tuples.

    Raises:
        ValueError: something in it is neither a number nor a boolean, or lists differ in length.
    """
    # The one NaN: others would be equal to nothing, themselves included.
    return Numbers(_nested(values.tolist() if isinstance(values, np.ndarray) else values))


def _nested(values: Any) -> Any:
    if isinstance(values, list | tuple):
        found = tuple(_nested(part) for part in values)
        shapes = {np.shape(part) for part in found}
        if len(shapes) > 1:
            raise ValueError("lists beside each other must have the same length and depth")
        return found
    if isinstance(values, np.generic):
        values = values.item()
    if not isinstance(values, bool | int | float):
        raise ValueError(f"{values!r} is no number; numbers, booleans and lists of them are taken")
    return math.nan if values != values else values  # noqa: PLR0124


Given = Annotated[Numbers, BeforeValidator(frozen), WithJsonSchema(NESTED)]


class Values(Pair, name="values"):
    """D and D′ as they are written.

    Numbers, or lists of them to any depth, of the same shape in D and D′. They are floats if one of
    them has a point, `inf` or `nan` in it, else integers; or all of them are booleans. Nothing
    checks that D and D′ are neighbours: whoever writes them says so.
    """

    parameters_say_all: ClassVar[bool] = True
    spec_names: ClassVar[dict[str, str]] = {"before": "d0", "after": "d1"}

    before: Given
    """The dataset D: a number, or nested lists of numbers."""
    after: Given
    """The dataset D′, of the same shape."""
    adjacency: str = "as given"
    """The relation in which they are neighbours, in words."""

    def __init__(self, *, d0: Any, d1: Any, adjacency: str = "as given") -> None:
        """Takes numbers, nested lists or tuples of numbers, or arrays of NumPy."""
        for field, value in (("before", frozen(d0)), ("after", frozen(d1))):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "adjacency", adjacency)

    # Python takes 1, 1.0 and True for equal, and 0.0 and −0.0; as data they are not.

    @functools.cached_property
    def _text(self) -> str:
        return repr((self.before, self.after, self.adjacency))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def check(self) -> None:
        kinds = {array.dtype.kind == "b" for array in self._arrays if array.size}
        if any(_mixed(part) for part in (self.before, self.after)) or len(kinds) > 1:
            raise ValueError("booleans and numbers are mixed")
        if any(array.dtype.kind not in "bif" for array in self._arrays):
            raise ValueError("an integer is too large: it takes more than 64 bits")

    def params(self) -> dict[str, Any]:
        # pydantic would write inf and NaN as null.
        return {
            "d0": _lists(self.before),
            "d1": _lists(self.after),
            "adjacency": self.adjacency,
        }

    @property
    def d0(self) -> HostArray:
        return self._arrays[0]

    @property
    def d1(self) -> HostArray:
        return self._arrays[1]

    @property
    def _arrays(self) -> tuple[HostArray, HostArray]:
        d0, d1 = (np.asarray(part) for part in (self.before, self.after))
        if "f" in (d0.dtype.kind, d1.dtype.kind):
            d0, d1 = (np.asarray(part, np.float64) for part in (d0, d1))
        return d0, d1


def _mixed(part: Any) -> bool:
    """Whether there are booleans beside numbers, which NumPy would turn into 0 and 1."""
    return len({isinstance(leaf, bool) for leaf in _leaves(part)}) > 1


def _leaves(part: Any) -> list[Any]:
    if isinstance(part, tuple):
        return [leaf for inner in part for leaf in _leaves(inner)]
    return [part]


def _lists(part: Any) -> Any:
    return [_lists(inner) for inner in part] if isinstance(part, tuple) else part
