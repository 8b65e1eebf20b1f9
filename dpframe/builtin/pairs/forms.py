"""The forms in which mechanisms get the tables D and D′."""

import contextlib
import dataclasses
import importlib
import json
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from dpframe.builtin.pairs.plain import thawed
from dpframe.builtin.pairs.table import Form, Rows, Table, is_number
from dpframe.plugins import HostArray


def formed(of: Table, both: tuple[Rows, Rows], form: Form) -> tuple[Any, Any]:
    """Return D and D′ in the form that a mechanism gets; `form` is not "auto".

    In forms with types, a column has the same type in D and in D′: an integer column with a missing
    cell in one of them is a float column in both.

    Raises:
        ValueError: the records do not have this form.
    """
    d0: Any
    d1: Any
    match form:
        case "array":
            d0, d1 = _arrays(both, of)
        case "integers":
            d0, d1 = _arrays(both, of, whole=True)
        case "rows":
            d0, d1 = ([thawed(r[0] if of.flat else r) for r in rows] for rows in both)
        case "dicts":
            d0, d1 = ([dict(zip(of.names, r, strict=True)) for r in rows] for rows in both)
        case "columns":
            d0, d1 = (
                {name: [r[at] for r in rows] for at, name in enumerate(of.names)} for rows in both
            )
        case "arrays":
            columns = [_column(both, at, of.types) for at in range(len(of.names))]
            d0, d1 = (dict(zip(of.names, (c[i] for c in columns), strict=True)) for i in (0, 1))
        case "frame":
            d0, d1 = _frames(both, of)
        case "xy":
            d0, d1 = _xy(both, of)
        case _:
            d0, d1 = _single(both)
    return d0, d1


def _arrays(
    both: tuple[Rows, Rows], of: Table, *, whole: bool = False
) -> tuple[HostArray, HostArray]:
    cells = {type(cell) for rows in both for r in rows for cell in r}
    for cell in (cell for rows in both for r in rows for cell in r):
        if not is_number(cell):
            raise ValueError(f"{cell!r} is not a number, but the form is an array")
    whole = whole and cells == {int} and _fit(c for rows in both for r in rows for c in r)
    dtype: Any = bool if cells == {bool} else np.int64 if whole else np.float64
    width = len(of.names)
    shape = (-1,) if width == 1 and not of.lists else (-1, width)
    filled = [[[np.nan if c is None else c for c in r] for r in rows] for rows in both]
    made = [np.array(rows, dtype).reshape(-1, width) for rows in filled]
    wanted = of.types[0] if len(set(of.types)) == 1 else ""
    d0, d1 = (array.reshape(shape) for array in _as_given((made[0], made[1]), wanted))
    return d0, d1


def _as_given(both: tuple[HostArray, HostArray], wanted: str) -> tuple[HostArray, HostArray]:
    """Return columns in the type that the author's code had, if that holds all of their cells."""
    if not wanted or wanted.startswith(CATEGORY) or both[0].dtype.kind not in "biuf":
        return both
    try:
        with np.errstate(all="ignore"):
            cast = [np.asarray(column).astype(wanted) for column in both]
            back = [column.astype(each.dtype) for column, each in zip(cast, both, strict=True)]
    except (TypeError, ValueError):  # a type of pandas alone
        return both
    narrow = cast[0].dtype.kind == both[0].dtype.kind == "f"  # rounds, as the author's code does
    same = (
        np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        for one, other in zip(back, both, strict=True)
    )
    return (cast[0], cast[1]) if narrow or all(same) else both


CATEGORY = "category"
"""Begins the type of a column of categories, which follow as a list in JSON."""


def categories_of(wanted: str, cells: Iterable[Any]) -> list[Any] | None:
    """Return the categories of a column with those of its cells; None if it is of another type."""
    if not wanted.startswith(CATEGORY):
        return None
    known: list[Any] = json.loads(wanted.removeprefix(CATEGORY) or "[]")
    fresh = [cell for cell in cells if cell is not None and cell == cell]  # noqa: PLR0124
    return list(dict.fromkeys([*known, *fresh]))


def _fit(numbers: Iterable[int]) -> bool:
    return all(-(2**63) <= number < 2**63 for number in numbers)


def _column(
    both: tuple[Rows, Rows], at: int, types: tuple[str, ...] = ()
) -> tuple[HostArray, HostArray]:
    """Return one column as arrays of one type: as given, or booleans, integers, floats, objects."""
    cells = [[r[at] for r in rows] for rows in both]
    kinds = {type(cell) for column in cells for cell in column}
    whole = _fit(c for column in cells for c in column if isinstance(c, int))
    if kinds == {bool}:
        dtype: Any = bool
    elif kinds == {int} and whole:
        dtype = np.int64
    elif kinds <= {int, float, bool, type(None)}:
        dtype = np.float64
        cells = [[np.nan if c is None else c for c in column] for column in cells]
    else:
        dtype = object
    d0, d1 = (np.array(column, dtype) for column in cells)
    return _as_given((d0, d1), types[at] if types else "")


def _xy(both: tuple[Rows, Rows], of: Table) -> tuple[Any, Any]:
    if len(of.names) < 2:
        raise ValueError('the form "xy" needs at least two columns: the last one is y')
    parts = tuple(tuple(r[:-1] for r in rows) for rows in both)
    front = Table((), of.names[:-1])
    x0, x1 = _arrays((parts[0], parts[1]), front)
    y0, y1 = _column(both, -1)
    width = len(front.names)
    return (x0.reshape(-1, width), y0), (x1.reshape(-1, width), y1)


@dataclasses.dataclass(frozen=True)
class UnmadeFrame:
    """The content of a pandas frame, for a black box in an environment with pandas.

    It is used if this interpreter lacks pandas; `dpframe.workers.program.plain_data` makes the
    frame in the other environment.
    """

    names: list[str]
    columns: list[list[Any]]  # type and cells of each
    rows: int

    unmade: ClassVar[str] = "the form \"frame\" needs pandas: pip install 'dpframe[pandas]'"
    """The message for mechanisms that run in this interpreter."""


def _unmade(both: tuple[Rows, Rows], of: Table) -> tuple[UnmadeFrame, UnmadeFrame]:
    found: tuple[list[Any], list[Any]] = [], []
    names = of.names
    for at in range(len(names)):
        cells = [[r[at] for r in rows] for rows in both]
        own = of.types[at] if of.types else ""
        if (known := categories_of(own, [cell for column in cells for cell in column])) is not None:
            for listed, own_cells in zip(found, cells, strict=True):
                codes = [known.index(c) if c in known else -1 for c in own_cells]
                listed.append([CATEGORY, codes, known, False])
            continue
        columns = _column(both, at, of.types)
        texts = all(isinstance(cell, str | None) for column in columns for cell in column)
        for listed, column in zip(found, columns, strict=True):
            made = column.dtype.kind != "O"
            dtype = str(column.dtype) if made else "str" if texts else "object"
            listed.append([dtype, column if made else column.tolist()])
    d0, d1 = (UnmadeFrame([*names], found[i], len(both[i])) for i in (0, 1))
    return d0, d1


def _frames(both: tuple[Rows, Rows], of: Table) -> tuple[Any, Any]:
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        return _unmade(both, of)
    names = of.names
    together = [*both[0], *both[1]]
    columns = {name: [r[at] for r in together] for at, name in enumerate(names)}
    whole = pandas.DataFrame(columns, columns=list(names))
    for name, wanted in zip(names, of.types, strict=False):
        if (known := categories_of(wanted, columns[name])) is not None:
            whole[name] = pandas.Categorical(columns[name], categories=known)
        elif wanted:
            with contextlib.suppress(TypeError, ValueError, OverflowError):  # it does not hold all
                whole[name] = whole[name].astype(wanted)
    cut = len(both[0])
    return (
        whole.iloc[:cut].reset_index(drop=True),
        whole.iloc[cut:].reset_index(drop=True),
    )


def _single(both: tuple[Rows, Rows]) -> tuple[Any, Any]:
    if len(both[0]) != 1 or len(both[1]) != 1:
        raise ValueError('the form "record" is for a table of one record, which is replaced')
    d0, d1 = (rows[0][0] if len(rows[0]) == 1 else list(rows[0]) for rows in both)
    return d0, d1
