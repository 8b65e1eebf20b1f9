"""Plain Python values as data: hashable, and written as values that TOML and JSON can hold.

TOML has no null, and a record writes NaN as a text. So these values are written as tables:
`{ missing = true }`, `{ text = "'nan'" }`, `{ bytes = "00ff" }`, and `{ dict = [[key, value], …] }`
for a dict that would be read as one of these, or whose keys are not texts.
"""

import datetime
import functools
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NewType

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema

from dpframe.interfaces.pair import Pair

WIDEST = 64  # bits of an integer; a spec holds no more
DEEPEST = 24  # containers within containers; a spec must hold them

NUMBERS = ("nan", "inf", "-inf", "NaN", "Infinity", "-Infinity")
"""Texts that mean numbers in a record; they are written in quotes."""

MARKS = ("missing", "text", "bytes", "dict")


class Fields(tuple[tuple[Any, Any], ...]):
    """A hashable dict: its items in their order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Fields{super().__repr__()}"


def frozen(value: Any, depth: int = 0) -> Any:
    """Return a hashable copy: tuples for lists and arrays, `Fields` for dicts.

    Raises:
        ValueError: it holds anything other than numbers, texts, booleans, bytes, None, and lists,
            arrays and dicts of these; or a spec cannot hold it.
    """
    series = hasattr(value, "tolist") and hasattr(value, "index") and not hasattr(value, "columns")
    if series or isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if depth > DEEPEST:
        raise ValueError("values are nested too deeply")
    if isinstance(value, list | tuple):
        return tuple(frozen(part, depth + 1) for part in value)
    if isinstance(value, Mapping):
        return Fields(
            (frozen(key, depth + 1), frozen(part, depth + 1)) for key, part in value.items()
        )
    return scalar(value)


def scalar(value: Any) -> Any:  # noqa: PLR0911  # one line for each kind of value
    """Return one number, text, boolean, bytes or None; raise ValueError for anything else."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise ValueError(f"{value!r} contains characters that are not Unicode")
        return str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > WIDEST:
            raise ValueError("an integer is too large: it takes more than 64 bits")
        return int(value)
    if isinstance(value, float):
        return math.nan if math.isnan(value) else float(value)  # the one NaN
    raise ValueError(
        f"{value!r} is a {type(value).__name__}; data must be numbers, texts, booleans, bytes, "
        "missing values, or lists and tables of these"
    )


def event_of_kind(kind: str) -> str:
    """Describe the event that an answer has a kind: "the output is NaN", "returns list"."""
    number = re.fullmatch(r"\w+, (NaN|-?inf)", kind)
    return f"the output is {number[1]}" if number else f"returns {kind}"


def is_frame(value: Any) -> bool:
    """True for a table of pandas."""
    return hasattr(value, "columns") and hasattr(value, "to_dict")


def is_series(value: Any) -> bool:
    """True for a column of pandas."""
    return hasattr(value, "to_numpy") and hasattr(value, "index") and not is_frame(value)


def of_frame(frame: Any) -> dict[str, list[Any]]:
    """Return the columns of a pandas table; missing values are None, NaN among floats."""
    columns = {}
    for name in frame.columns:
        column = frame[name]
        cells, missing = column.tolist(), column.isna().tolist()
        if getattr(column.dtype, "kind", "O") != "f":
            cells = [None if gone else c for c, gone in zip(cells, missing, strict=True)]
        columns[str(name)] = cells
    return columns


def read(value: Any) -> Any:
    """Return a value of a spec or a record as `frozen` does.

    Raises:
        ValueError: as `frozen` raises it, or a key of a table is a table.
    """
    return frozen(_unmarked(value))


def _unmarked(value: Any) -> Any:  # noqa: PLR0911  # one line for each mark
    if isinstance(value, list | tuple):
        return [_unmarked(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        ((mark, content),) = value.items()
        match mark:
            case "missing" if content is True:
                return None
            case "text" if isinstance(content, str) and content[1:-1] in NUMBERS:
                return content[1:-1]
            case "bytes" if isinstance(content, str):
                return bytes.fromhex(content)
            case "dict" if isinstance(content, list | tuple):
                return {_key(key): _unmarked(part) for key, part in content}
    return {key: _unmarked(part) for key, part in value.items()}


def _key(key: Any) -> Any:
    key_value = frozen(_unmarked(key))
    if isinstance(key_value, Fields):
        raise ValueError("a key of a table is itself a table")
    return key_value


def written(value: Any) -> Any:
    """Return a frozen value as JSON that `read` accepts, with NaN and infinities as floats."""
    if isinstance(value, Fields):
        names = [key for key, _ in value]
        if (len(names) == 1 and names[0] in MARKS) or not all(isinstance(n, str) for n in names):
            return {"dict": [[written(key), written(part)] for key, part in value]}
        return {key: written(part) for key, part in value}
    if isinstance(value, tuple):
        return [written(part) for part in value]
    if value is None:
        return {"missing": True}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return {"text": f"'{value}'"} if isinstance(value, str) and value in NUMBERS else value


def thawed(value: Any) -> Any:
    """Return a frozen value as new lists and dicts, as black boxes get it."""
    if isinstance(value, Fields):
        return {key: thawed(part) for key, part in value}
    return [thawed(part) for part in value] if isinstance(value, tuple) else value


def arrays(*values: Any) -> tuple[Any, ...] | None:
    """Return frozen values as arrays of one dtype; None if one of them is not an array of numbers.

    The dtype is float if one number is a float, boolean if all are booleans, else integer. None is
    also returned for integers beyond 64 bits.
    """
    leaves = {type(leaf) for value in values for leaf in _leaves(value)}
    if not (leaves <= {int, float} or leaves == {bool}):
        return None
    whole = leaves == {int}
    if whole and any(not -(2**63) <= leaf < 2**63 for value in values for leaf in _leaves(value)):
        return None
    dtype = np.dtype(np.int64 if whole else bool if leaves == {bool} else np.float64)
    try:
        return tuple(np.asarray(value, dtype) for value in values)
    except ValueError:  # lists of unequal length
        return None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple) and not isinstance(value, Fields):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


def same_cell(one: Any, other: Any) -> bool:
    """Compare two single values: 1 is not 1.0, −0.0 is not 0.0, NaN equals NaN."""
    return type(one) is type(other) and repr(one) == repr(other)


Content = NewType("Content", object)
"""Records: single values, lists, or tables by column; or a table of columns."""

ANYTHING = {
    "anyOf": [{"type": kind} for kind in ("number", "boolean", "string", "array", "object")]
}

Given = Annotated[Content, BeforeValidator(read), WithJsonSchema(ANYTHING)]


class Values(Pair, name="values"):
    """D and D′ as written: numbers, texts, lists and tables.

    If all of D and D′ are numbers, in lists of equal lengths to any depth, a mechanism gets
    arrays: of floats if one number has a point, `inf` or `nan` in it, else of integers; or of
    booleans. D and D′ may differ in shape. A black box gets all other values as Python has them:
    texts, lists of unequal lengths, booleans beside numbers, tables as dicts, and
    `{ missing = true }` as None. Nothing checks that D and D′ are neighbours.
    """

    parameters_say_all: ClassVar[bool] = True
    spec_names: ClassVar[dict[str, str]] = {"before": "d0", "after": "d1"}

    before: Given
    """The dataset D: a number, a text, a table, or nested lists of these."""
    after: Given
    """The dataset D′, like D; it may have another size."""
    adjacency: str = "as given"
    """The relation under which they are neighbours, in words."""
    description: str = ""
    """Their difference in a few words, for reports."""

    def __init__(
        self, *, d0: Any, d1: Any, adjacency: str = "as given", description: str = ""
    ) -> None:
        """Take numbers, texts, None, bytes, nested lists or tuples, dicts, or arrays of NumPy."""
        fill(
            self, before=frozen(d0), after=frozen(d1), adjacency=adjacency, description=description
        )

    # Python compares 1, 1.0 and True as equal, and 0.0 and −0.0; as data they differ.

    @functools.cached_property
    def _text(self) -> str:
        return repr((self.before, self.after, self.adjacency, self.description))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def params(self) -> dict[str, Any]:
        # pydantic would write inf and NaN as null.
        described = {"description": self.description} if self.description else {}
        return {
            "d0": written(self.before),
            "d1": written(self.after),
            "adjacency": self.adjacency,
            **described,
        }

    @property
    def d0(self) -> Any:
        return self._data[0]

    @property
    def d1(self) -> Any:
        return self._data[1]

    @property
    def _data(self) -> tuple[Any, ...]:
        as_arrays = arrays(self.before, self.after)
        return (thawed(self.before), thawed(self.after)) if as_arrays is None else as_arrays


def fill(pair: Pair, **fields: Any) -> None:
    """Set the fields of a pair, which is frozen."""
    for field, value in fields.items():
        object.__setattr__(pair, field, value)


CATEGORY = "category"
"""Begins the type of a column of categories, which follow as a list in JSON."""
