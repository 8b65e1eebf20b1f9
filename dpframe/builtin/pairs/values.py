"""A pair that is written down, value by value."""

from __future__ import annotations

import functools
from typing import Annotated, Any, ClassVar, NewType

from pydantic import BeforeValidator, WithJsonSchema

from dpframe import Pair
from dpframe.builtin.pairs._plain import arrays, frozen, read, thawed, written

Content = NewType("Content", object)
"""Numbers, texts, booleans and what is missing, and nested tuples and tables of these."""

ANYTHING = {
    "anyOf": [{"type": kind} for kind in ("number", "boolean", "string", "array", "object")]
}

Given = Annotated[Content, BeforeValidator(read), WithJsonSchema(ANYTHING)]


class Values(Pair, name="values"):
    """D and D′ as they are written: numbers, texts, lists and tables.

    Where all of D and D′ are numbers, in lists of equal lengths to any depth, a mechanism gets
    arrays: of floats if one number has a point, `inf` or `nan` in it, else of integers; or of
    booleans. D and D′ may differ in shape. Everything else a black box gets as Python has it:
    texts, lists of unequal lengths, booleans beside numbers, tables as dicts, and
    `{ missing = true }` as None. Nothing checks that D and D′ are neighbours: whoever writes them
    says so.
    """

    parameters_say_all: ClassVar[bool] = True
    spec_names: ClassVar[dict[str, str]] = {"before": "d0", "after": "d1"}

    before: Given
    """The dataset D: a number, a text, a table, or nested lists of these."""
    after: Given
    """The dataset D′, like D; it may have another size."""
    adjacency: str = "as given"
    """The relation in which they are neighbours, in words."""
    description: str = ""
    """What tells them apart, in a few words; reports say it."""

    def __init__(
        self, *, d0: Any, d1: Any, adjacency: str = "as given", description: str = ""
    ) -> None:
        """Takes numbers, texts, None, bytes, nested lists or tuples, dicts, or arrays of NumPy."""
        for field, value in (("before", frozen(d0)), ("after", frozen(d1))):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "adjacency", adjacency)
        object.__setattr__(self, "description", description)

    # Python takes 1, 1.0 and True for equal, and 0.0 and −0.0; as data they are not.

    @functools.cached_property
    def _text(self) -> str:
        return repr((self.before, self.after, self.adjacency, self.description))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def params(self) -> dict[str, Any]:
        # pydantic would write inf and NaN as null.
        told = {"description": self.description} if self.description else {}
        return {
            "d0": written(self.before),
            "d1": written(self.after),
            "adjacency": self.adjacency,
            **told,
        }

    @property
    def d0(self) -> Any:
        return self._data[0]

    @property
    def d1(self) -> Any:
        return self._data[1]

    @property
    def _data(self) -> tuple[Any, ...]:
        found = arrays(self.before, self.after)
        return (thawed(self.before), thawed(self.after)) if found is None else found
