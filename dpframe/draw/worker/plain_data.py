"""Datasets as bytes, for interpreters that may lack the libraries of this one."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from io import BytesIO
from pickle import Pickler, Unpickler, loads
from struct import unpack as struct_unpack
from time import monotonic
from typing import Any


class PackingError(Exception):
    """A value cannot be packed, or bytes cannot be unpacked."""


def pack(value: Any) -> bytes:
    """Return a value as bytes.

    Args:
        value: numbers, texts, bytes, None, dates, decimals, fractions, tuples, lists, sets and
            dictionaries of such values, arrays and scalars of NumPy, frames and series of pandas.

    Raises:
        PackingError: it contains anything else.
    """
    file = BytesIO()
    try:
        _Packer(file, 4).dump(value)
    except RecursionError:
        raise PackingError("it is nested too deep") from None
    return file.getvalue()


def unpack(content: bytes) -> Any:
    """Return the value of some bytes; no two calls share any part of it.

    Raises PackingError if a library is missing.
    """
    return _Unpacker(BytesIO(content)).load()


_PLAIN = {
    *(type(None), bool, int, float, complex, str, bytes, bytearray, Decimal, Fraction),
    *(tuple, list, set, frozenset, dict, datetime.date, datetime.datetime),
}


class _Packer(Pickler):
    """Pickles plain values; arrays, frames and series become tuples that name their type."""

    def persistent_id(self, value: Any) -> Any:
        """See `pickle`: called for every value; a result takes the place of the value."""
        kind = type(value)
        package = str(kind.__module__).partition(".")[0]
        if package == "pandas" and kind.__name__ in ("NAType", "NaTType"):
            return "missing", kind.__name__
        if package == "pandas" and kind.__name__ == "Timestamp":
            return "moment", value.to_pydatetime(warn=False).isoformat()
        if kind is datetime.datetime and value.tzinfo is not None:
            return "moment", value.isoformat()
        if kind in _PLAIN or (kind is type and value in _PLAIN):
            return None
        if package == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
            return _array(value)
        if package == "pandas" and kind.__name__ == "DataFrame":
            columns = [_column(value.iloc[:, place]) for place in range(value.shape[1])]
            return "frame", list(value.columns), columns, _index(value.index)
        if package == "dpframe" and kind.__name__ == "UnmadeFrame":  # only the sender has pandas
            return "frame", value.names, value.columns, (0, value.rows, 1)
        if package == "pandas" and kind.__name__ == "Series":
            return "series", value.name, _column(value), _index(value.index)
        raise PackingError(
            f"a value of class {kind.__name__} cannot be sent to another interpreter; data are "
            "numbers, texts, lists, dictionaries, arrays and frames"
        )


def _array(value: Any) -> Any:
    """Return the type and shape of an array or a scalar, and its bytes or its objects."""
    dtype = value.dtype
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise PackingError("a masked array cannot be sent to another interpreter; give data, mask")
    scalar = not hasattr(value, "__setitem__")
    if dtype.kind == "O":
        return "array", scalar, "O", tuple(value.shape), value.ravel().tolist()
    if dtype.kind not in "biufcSUmM":
        raise PackingError(f"an array of {dtype} cannot be sent to another interpreter")
    if sys.byteorder != "little" or dtype.byteorder == ">":
        value = value.astype(dtype.newbyteorder("<"))
    # The bytes are row by row, whatever the order in memory.
    return "array", scalar, value.dtype.str, tuple(value.shape), value.tobytes()


def _column(column: Any) -> Any:
    """Return dtype and values of a column; the values are a list if NumPy lacks the type."""
    dtype = column.dtype
    if getattr(dtype, "kind", "O") in "biufcM" and type(dtype).__module__.startswith("numpy"):
        return [str(dtype), column.to_numpy()]
    categories = getattr(dtype, "categories", None)
    if categories is not None and not isinstance(categories, str):
        codes = [int(code) for code in column.cat.codes]
        return ["category", codes, list(categories), bool(dtype.ordered)]
    return [str(dtype), list(column)]


def _index(index: Any) -> Any:
    if all(hasattr(index, name) for name in ("start", "stop", "step")):
        return (int(index.start), int(index.stop), int(index.step))
    return [index.name, _column(index.to_series())]


class _Unpacker(Unpickler):
    def persistent_load(self, written: Any) -> Any:
        """See `pickle`: return the value in whose place a tuple was written."""
        return _MADE[written[0]](*written[1:])


def _pandas() -> Any:
    try:
        return __import__("pandas")
    except ImportError as error:
        raise PackingError("the data need pandas, which is not in this environment") from error


def _made_array(scalar: bool, named: str, shape: tuple[int, ...], content: Any) -> Any:
    try:
        import numpy
    except ImportError:
        flat = content if named == "O" else _numbers(named, content)
        return flat[0] if scalar else _nested(flat, shape)
    if named == "O":
        array = numpy.empty(len(content), object)
        array[:] = content
    else:
        array = numpy.frombuffer(content, numpy.dtype(named)).copy()
    array = array.reshape(shape)
    return array[()] if scalar else array


_CODES = {"f2": "e", "f4": "f", "f8": "d", "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q"}
_CODES.update({"u1": "B", "u2": "H", "u4": "I", "u8": "Q"})


def _numbers(named: str, content: bytes) -> list[Any]:
    """Return the values of an array as Python values, if NumPy is missing."""
    kind, size = named[1], int("".join(filter(str.isdigit, named.partition("[")[0])))
    if named[1:] in _CODES:
        return list(struct_unpack(f"<{len(content) // size}{_CODES[named[1:]]}", content))
    if named[1:] in ("c8", "c16"):
        flat = _numbers(f"<f{size // 2}", content)
        return [complex(*both) for both in zip(flat[::2], flat[1::2])]
    width = 4 * size if kind == "U" else size
    if not width or kind not in "SU":
        raise PackingError(f"an array of {named} needs numpy, which is not in this environment")
    each = [content[at : at + width] for at in range(0, len(content), width)]
    if kind == "S":
        return [one.rstrip(b"\0") for one in each]
    return [one.decode("utf-32-le", "surrogatepass").rstrip("\0") for one in each]


def _nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    """Return lists within lists, as `tolist` of NumPy does."""
    if not shape:
        return flat[0]
    step = len(flat) // shape[0] if shape[0] else 0
    parts = [flat[at * step : (at + 1) * step] for at in range(shape[0])]
    return [_nested(part, shape[1:]) for part in parts]


def _made_frame(names: list[Any], columns: list[Any], index: Any) -> Any:
    own = _made_index(index)
    series = {place: _made_series(None, one, own) for place, one in enumerate(columns)}
    frame = _pandas().DataFrame(series, index=own)
    frame.columns = names
    return frame


def _made_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return _pandas().RangeIndex(*index)
    name, column = index
    return _pandas().Index(_made_series(None, column, None), name=name)


def _made_series(name: Any, column: Any, index: Any) -> Any:
    pandas, (dtype, values, *categories) = _pandas(), column
    dtype = None if categories or dtype == "str" else dtype  # pandas 3 has "str", and infers it
    if categories:
        values = pandas.Categorical.from_codes(values, *categories)
    try:
        return pandas.Series(values, index=index, name=name, dtype=dtype)
    except (TypeError, ValueError):  # a type that another version of pandas does not have
        return pandas.Series(values, index=index, name=name)


_MADE: dict[str, Any] = {
    "array": _made_array,
    "frame": _made_frame,
    "series": lambda name, column, index: _made_series(name, column, _made_index(index)),
    "moment": datetime.datetime.fromisoformat,
    "missing": lambda name: getattr(_pandas(), "NA" if name == "NAType" else "NaT"),
}


STATE_CHANGED = (
    "a call changed its data, or the state that `prepare` made of them, which is the input of "
    "every later call: copy it first"
)


class SharedValue:
    """Detects changes of a value that all calls of a black box share.

    Args:
        value: the value.
        whole: True if every part of it counts. Otherwise only plain values, arrays, frames, and
            containers of these count: other objects, such as generators of random numbers and
            connections, may change with every call, and an empty container may be a cache.
        fault: the message about a change.
    """

    def __init__(self, value: Any, *, whole: bool, fault: str = STATE_CHANGED) -> None:
        self._value, self._whole, self.fault = value, whole, fault
        self.seconds = 0.0  # duration of the last comparison
        self._before = self._content()

    def changed(self) -> bool:
        """True if the value has changed since this object was made."""
        started = monotonic()
        now = self._content()
        changed = now != self._before and (self._whole or not _is_kept(self._before, now))
        self.seconds = monotonic() - started
        return changed

    def _content(self) -> bytes:
        """Return the value as bytes, or their digest if that is enough; none if it has none."""
        file = BytesIO()
        try:
            _SharedPickler(file, self._whole).dump(self._value)
        except Exception:
            return b""
        return blake2b(file.getbuffer()).digest() if self._whole else file.getvalue()


class _SharedPickler(Pickler):
    def __init__(self, file: BytesIO, whole: bool) -> None:
        super().__init__(file, 4)
        self._whole = whole

    def reducer_override(self, value: Any) -> Any:
        """See `pickle`: called for all values but Python's own plain ones and containers."""
        if value is tuple or value is bytes:
            return NotImplemented
        if isinstance(value, tuple):
            return tuple, ([*value],)
        if type(value) is partial:
            return tuple, ([value.args, value.keywords],)
        try:
            return bytes, (pack(value),)  # reading a frame may change its pickle, but not this
        except Exception:
            package = str(type(value).__module__).partition(".")[0]
            is_array = package == "numpy" and hasattr(value, "dtype")
            is_data = self._whole or is_array or package in ("pandas", "polars")
            return NotImplemented if is_data else (bytes, ())


def _is_kept(before: bytes, now: bytes) -> bool:
    """True if a pickled value is equal to an earlier one, but for containers empty at that time."""
    try:
        return _holds(loads(now), loads(before))
    except Exception:  # what cannot be read back differs
        return False


def _holds(now: Any, before: Any) -> bool:
    if type(now) is not type(before):
        return False
    if isinstance(before, (dict, list, set)) and not before:
        return True
    if isinstance(before, dict):
        return now.keys() == before.keys() and all(_holds(now[key], before[key]) for key in before)
    if isinstance(before, (list, tuple)):
        return len(now) == len(before) and all(map(_holds, now, before))
    # NaN is not equal to itself, and equal sets may be written in different orders.
    return bool(repr(now) == repr(before) or now == before)
