"""The columns of a table: kinds, bounds and categories."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType

from pydantic import BeforeValidator, ConfigDict, WithJsonSchema

from dpframe.builtin.pairs.plain import same_cell, scalar, written
from dpframe.builtin.pairs.table import Row, Table

Cell = NewType("Cell", object)  # a number, a text or a boolean

Given = Annotated[
    Cell,
    BeforeValidator(scalar),
    WithJsonSchema({"anyOf": [{"type": kind} for kind in ("number", "boolean", "string")]}),
]


_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Switches:
    """Kinds of cells outside of the schema, each of which may be proposed or not."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    nan: bool | None = None
    """NaN, and what is missing."""
    out_of_bounds: bool | None = None
    """Numbers out of bounds, infinities included, and fractions among whole numbers."""
    unknown_categories: bool | None = None
    """Categories that the schema or else the table does not have."""

    def given(self) -> dict[str, bool]:
        """Return the switches that are set."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(Switches)}
        return {name: value for name, value in found.items() if value is not None}


SWITCHES = tuple(field.name for field in dataclasses.fields(Switches))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column(Switches):
    """Facts on one column of a table that its cells do not show.

    Of `nan`, `out_of_bounds` and `unknown_categories`, true means that such cells belong to the
    data that the claim is about, and false that they never come.
    """

    name: str | None = None
    """Name of the column; without names, entries are in the order of the columns."""
    low: float | None = None
    """Lower bound of its numbers."""
    high: float | None = None
    """Upper bound of its numbers."""
    integer: bool = False
    """True if its numbers are whole."""
    categories: tuple[Given, ...] = ()
    """Its possible values."""
    user: bool = False
    """True if it names the user of a record: an edit is then of all records of one user."""

    def params(self) -> dict[str, Any]:
        """Return the column as a spec has it; a bound of 0 is kept."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        found["categories"] = [written(cell) for cell in self.categories] or None
        found |= {name: found[name] or None for name in ("integer", "user")}
        return {n: value for n, value in found.items() if value is not None}


LARGEST = 2**63
"""Larger whole numbers are proposed as floats, because few libraries accept larger integers."""


class Known(NamedTuple):
    """A column as described by the schema, or else as inferred from the table."""

    name: str
    kind: Literal["number", "category", "user"]
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    floats: bool = False  # True if whole numbers are floats in its table
    categories: tuple[Any, ...] = ()
    may_be_missing: bool = False
    inside: frozenset[str] = frozenset()  # switches whose cells belong to the data
    never: frozenset[str] = frozenset()  # switches whose cells are not proposed

    @property
    def width(self) -> float:
        """Distance between its bounds."""
        return self.high - self.low

    def number(self, value: float) -> Any:
        """Return a number in the type of the column."""
        if not self.whole or not abs(value) < LARGEST:
            return float(value)
        return float(round(value)) if self.floats else round(value)

    def between(self, share: float) -> Any:
        """Return a number between the bounds: 0 gives the lower, 1 the upper."""
        return self.number(self.low + share * self.width)

    def category(self, number: int) -> Any:
        """Return one of the categories; −1 gives the last one. None if there are none."""
        return self.categories[number % len(self.categories)] if self.categories else None

    def needs(self, cell: Any) -> frozenset[str]:
        """Return the switches that a cell needs: none inside the schema, "mistyped" for a new type.

        Any float is a number, whole or not.
        """
        return frozenset(self._needs(cell)) - self.inside

    def _needs(self, cell: Any) -> tuple[str, ...]:
        if cell is None or cell != cell:  # noqa: PLR0124
            number = cell is not None and self.kind == "number"
            return () if self.may_be_missing else ("nan",) if number else ("nan", "mistyped")
        if self.kind == "user":
            return ()
        if self.kind == "category":
            if any(_equal(cell, one) for one in self.categories):
                return ()
            known = type(cell) in {type(one) for one in self.categories}
            return ("unknown_categories",) if known else ("mistyped",)
        if isinstance(cell, bool) or not isinstance(cell, int | float):
            return ("mistyped",)
        fits = self.low <= cell <= self.high
        if self.whole and isinstance(cell, float) and math.isfinite(cell):
            fits = fits and self.floats and cell.is_integer()
        return () if fits else ("out_of_bounds",)


def _equal(cell: Any, other: Any) -> bool:
    """Compare a cell with a category; an array has floats for integers."""
    if any(isinstance(one, bool | str) or one is None for one in (cell, other)):
        return same_cell(cell, other)
    return bool(cell == other)


def known_columns(of: Table, schema: Sequence[Column]) -> tuple[Known, ...]:
    """Return all columns of a table.

    Args:
        of: the table.
        schema: of some columns by name, or of all in their order.

    Raises:
        ValueError: the schema does not fit the table; the message is for the user.
    """
    said = _by_name(of, schema)
    found = []
    for at, name in enumerate(of.names):
        cells = tuple(row[at] for row in of.rows)
        column = _known(name, said.get(name, Column()), cells)
        for number, cell in enumerate(cells):
            if name in said and column.needs(cell):
                raise ValueError(
                    f"column {name} does not fit the table: record {number} has {cell!r} there"
                )
        found.append(column)
    if sum(column.kind == "user" for column in found) > 1:
        raise ValueError("two columns identify the user of a record")
    return tuple(found)


def _by_name(of: Table, schema: Sequence[Column]) -> dict[str, Column]:
    if any(column.name is not None for column in schema):
        names = [str(column.name) for column in schema]
        if unknown := [name for name in names if name not in of.names]:
            raise ValueError(f"there is no column {unknown[0]}; there are {', '.join(of.names)}")
        if len(set(names)) < len(names):
            raise ValueError("two entries describe the same column")
        return dict(zip(names, schema, strict=True))
    if schema and len(schema) != len(of.names):
        raise ValueError(
            f"has {len(schema)} entries without names, but the table has {len(of.names)} columns"
        )
    return dict(zip(of.names, schema, strict=False))


def _known(name: str, said: Column, cells: Row) -> Known:
    missing = any(cell is None or cell != cell for cell in cells)  # noqa: PLR0124
    switches = said.given()
    if missing and switches.get("nan") is False:
        raise ValueError(f"column {name}: nan is false, but a cell is missing or NaN")
    about: dict[str, Any] = {
        "may_be_missing": missing,
        "inside": frozenset(one for one, on in switches.items() if on),
        "never": frozenset(one for one, on in switches.items() if not on),
    }
    there = [cell for cell in cells if cell is not None]
    if said.user:
        return Known(name, "user", **about)
    numeric = all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in there)
    bounds = said.low is not None or said.high is not None or said.integer
    if said.categories or not numeric or not (there or bounds):
        if bounds:
            raise ValueError(f"column {name}: categories have no bounds")
        own: list[Any] = [False, True] if any(isinstance(c, bool) for c in there) else []
        distinct = {(type(cell), cell): cell for cell in said.categories or (*own, *there)}
        return Known(name, "category", categories=tuple(distinct.values()), **about)
    finite = [cell for cell in there if math.isfinite(cell)]
    whole = said.integer or (bool(there) and all(isinstance(cell, int) for cell in there))
    low = said.low if said.low is not None else min(finite, default=0)
    high = said.high if said.high is not None else max(finite, default=1)
    if said.low is not None and said.high is not None and low >= high:
        raise ValueError(f"column {name}: low {low:g} is not below high {high:g}")
    if low >= high:
        low, high = (low, low + 1) if said.low is not None else (high - 1, high)
    floats = any(isinstance(cell, float) for cell in finite)
    return Known(name, "number", float(low), float(high), whole, floats, **about)
