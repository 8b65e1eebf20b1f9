"""Datasets as typed bytes, for interpreters that may lack the libraries of this one."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial
from io import BytesIO
from pickle import Pickler, loads
from struct import Struct, pack as struct_pack, unpack as struct_unpack
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    _Tell: TypeAlias = Callable[[bytes], object]

_MOST_DEPTH = 64  # containers within containers
_LENGTH = Struct("<Q")


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
    parts: list[bytes] = []
    _write(value, parts.append, 0)
    return b"".join(parts)


def unpack(content: bytes) -> Any:
    """Return the value of some bytes; no two calls share any part of it.

    Raises PackingError if a library is missing, or the bytes are damaged.
    """
    reader = _ValueReader(content)
    value = reader.read()
    if reader.at != len(content):
        raise PackingError("there is more than one value")
    return value


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _say(tell: _Tell, letter: bytes, content: bytes) -> None:
    tell(letter)
    tell(_LENGTH.pack(len(content)))
    tell(content)


_SINGLE: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    type(None): (b"n", lambda value: b""),
    bool: (b"b", lambda value: b"\1" if value else b"\0"),
    int: (b"i", lambda value: b"%d" % value if abs(value) < 10**4000 else _huge(value)),
    float: (b"f", lambda value: struct_pack("<d", value)),
    complex: (b"c", lambda value: struct_pack("<dd", value.real, value.imag)),
    str: (b"s", _text),
    bytes: (b"y", bytes),
    bytearray: (b"Y", bytes),
    Decimal: (b"D", lambda value: str(value).encode()),
    Fraction: (b"q", lambda value: str(value).encode()),
    datetime.date: (b"d", lambda value: value.isoformat().encode()),
    datetime.datetime: (b"t", lambda value: value.isoformat().encode()),
}
_SEVERAL: dict[type, bytes] = {tuple: b"(", list: b"[", set: b"{", frozenset: b"<"}


def _huge(value: int) -> bytes:
    raise PackingError("an integer has more than 4000 digits")


def _write(value: Any, tell: _Tell, depth: int) -> None:
    kind = type(value)
    if depth > _MOST_DEPTH:
        raise PackingError(f"it is nested deeper than {_MOST_DEPTH} levels, or contains itself")
    if kind in _SINGLE:
        letter, content = _SINGLE[kind]
        _say(tell, letter, content(value))
    elif kind in _SEVERAL:
        tell(_SEVERAL[kind])
        tell(_LENGTH.pack(len(value)))
        for each in sorted(value, key=repr) if kind in (set, frozenset) else value:
            _write(each, tell, depth + 1)
    elif kind is dict:
        tell(b"m")
        tell(_LENGTH.pack(len(value)))
        for each in value.items():
            for part in each:
                _write(part, tell, depth + 1)
    else:
        _write_other(value, kind, tell, depth)


def _write_other(value: Any, kind: Any, tell: _Tell, depth: int) -> None:
    package = str(kind.__module__).partition(".")[0]
    if package == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
        _write_array(value, tell, depth)
    elif package == "pandas" and kind.__name__ == "DataFrame":
        tell(b"P")
        columns = [value.iloc[:, place] for place in range(value.shape[1])]
        _write(list(value.columns), tell, depth + 1)
        _write([_column(column) for column in columns], tell, depth + 1)
        _write(_index(value.index), tell, depth + 1)
    elif package == "dpframe" and kind.__name__ == "UnmadeFrame":  # only the sender has pandas
        tell(b"P")
        for part in (value.names, value.columns, (0, value.rows, 1)):
            _write(part, tell, depth + 1)
    elif package == "pandas" and kind.__name__ == "Series":
        tell(b"S")
        _write([value.name, _column(value), _index(value.index)], tell, depth + 1)
    elif package == "pandas" and kind.__name__ in ("NAType", "NaTType"):
        _say(tell, b"N", kind.__name__.encode())
    elif package == "pandas" and kind.__name__ == "Timestamp":
        _say(tell, b"t", value.to_pydatetime(warn=False).isoformat().encode())
    else:
        raise PackingError(
            f"a value of class {kind.__name__} cannot be sent to another interpreter; data are "
            "numbers, texts, lists, dictionaries, arrays and frames"
        )


def _write_array(value: Any, tell: _Tell, depth: int) -> None:
    """Write an array or a scalar: its dtype, its shape, and its bytes or its objects."""
    dtype = value.dtype
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise PackingError("a masked array cannot be sent to another interpreter; give data, mask")
    scalar = not hasattr(value, "__setitem__")
    tell(b"A")
    if dtype.kind == "O":
        _write([scalar, "O", tuple(value.shape), value.ravel().tolist()], tell, depth + 1)
        return
    if dtype.kind not in "biufcSUmM":
        raise PackingError(f"an array of {dtype} cannot be sent to another interpreter")
    if sys.byteorder != "little" or dtype.byteorder == ">":
        value = value.astype(dtype.newbyteorder("<"))
    content = value.tobytes()  # row by row, whatever the order in memory
    _write([scalar, value.dtype.str, tuple(value.shape), content], tell, depth + 1)


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


class _ValueReader:
    """Reads values from bytes, front to back."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = memoryview(content), 0

    def take(self, number: int) -> bytes:
        found = bytes(self.content[self.at : self.at + number])
        if len(found) != number:
            raise PackingError("there is less than one value")
        self.at += number
        return found

    def read(self) -> Any:
        letter = self.take(1)
        if letter == b"P":
            names, columns, index = self.read(), self.read(), _index_of(self.read())
            held = {place: _series(None, one, index) for place, one in enumerate(columns)}
            frame = _library("pandas").DataFrame(held, index=index)
            frame.columns = names
            return frame
        if letter == b"S":
            name, column, index = self.read()
            return _series(name, column, _index_of(index))
        if letter == b"A":
            return _array(*self.read())
        number = _LENGTH.unpack(self.take(8))[0]
        if letter in _GATHERED:
            return _GATHERED[letter](self.read() for _ in range(number))
        if letter == b"m":
            return {self.read(): self.read() for _ in range(number)}
        if letter not in _MADE:
            raise PackingError(f"there is no value of kind {letter!r}")
        return _MADE[letter](self.take(number))


_GATHERED: dict[bytes, Callable[[Any], Any]] = {b"(": tuple, b"[": list, b"{": set, b"<": frozenset}
_MADE: dict[bytes, Callable[[bytes], Any]] = {
    b"n": lambda content: None,
    b"b": lambda content: content == b"\1",
    b"i": int,
    b"f": lambda content: struct_unpack("<d", content)[0],
    b"c": lambda content: complex(*struct_unpack("<dd", content)),
    b"s": lambda content: content.decode("utf-8", "surrogatepass"),
    b"y": bytes,
    b"Y": bytearray,
    b"D": lambda content: Decimal(content.decode()),
    b"q": lambda content: Fraction(content.decode()),
    b"d": lambda content: datetime.date.fromisoformat(content.decode()),
    b"t": lambda content: datetime.datetime.fromisoformat(content.decode()),
    b"N": lambda content: getattr(_library("pandas"), "NaT" if content == b"NaTType" else "NA"),
}


def _library(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise PackingError(f"the data need {name}, which is not in this environment") from error


def _array(scalar: bool, named: str, shape: tuple[int, ...], content: Any) -> Any:
    try:
        import numpy
    except ImportError:
        flat = content if named == "O" else _plain(named, content)
        return flat[0] if scalar else _nested(flat, shape)
    if named == "O":
        found = numpy.empty(len(content), object)
        found[:] = content
    else:
        found = numpy.frombuffer(content, numpy.dtype(named)).copy()
    found = found.reshape(shape)
    return found[()] if scalar else found


_CODES = {"f2": "e", "f4": "f", "f8": "d", "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q"}
_CODES.update({"u1": "B", "u2": "H", "u4": "I", "u8": "Q"})


def _plain(named: str, content: bytes) -> list[Any]:
    """Return the values of an array as Python values, if NumPy is missing."""
    kind, size = named[1:], int("".join(filter(str.isdigit, named.partition("[")[0])))
    if kind in _CODES:
        return list(struct_unpack(f"<{len(content) // size}{_CODES[kind]}", content))
    if kind in ("c8", "c16"):
        code = "f" if kind == "c8" else "d"
        flat = struct_unpack(f"<{2 * (len(content) // size)}{code}", content)
        return [complex(*flat[at : at + 2]) for at in range(0, len(flat), 2)]
    width = 4 * size if kind[0] == "U" else size
    if not width or kind[0] not in "SU":
        raise PackingError(f"an array of {named} needs numpy, which is not in this environment")
    each = [content[at : at + width] for at in range(0, len(content), width)]
    if kind[0] == "S":
        return [one.rstrip(b"\0") for one in each]
    return [one.decode("utf-32-le", "surrogatepass").rstrip("\0") for one in each]


def _nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    """Return lists within lists, as `tolist` of NumPy does."""
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return list(flat)
    step = len(flat) // shape[0] if shape[0] else 0
    return [_nested(flat[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0])]


def _index_of(index: Any) -> Any:
    pandas = _library("pandas")
    if isinstance(index, tuple):
        return pandas.RangeIndex(*index)
    name, column = index
    return pandas.Index(_series(None, column, None), name=name)


def _series(name: Any, column: Any, index: Any) -> Any:
    pandas = _library("pandas")
    dtype, values, *more = column
    dtype = None if dtype == "str" else dtype  # a type of pandas 3, which infers it
    if more:
        categories, ordered = more
        values = pandas.Categorical.from_codes(values, categories=categories, ordered=ordered)
        return pandas.Series(values, index=index, name=name)
    try:
        return pandas.Series(values, index=index, name=name, dtype=dtype)
    except (TypeError, ValueError):  # a type that another version of pandas does not have
        return pandas.Series(values, index=index, name=name)


class SharedValue:
    """Detects changes of a value that all calls of a black box share.

    Args:
        value: the value.
        whole: True if every part of it counts. Otherwise only plain values, arrays, frames, and
            containers of these count: other objects, such as generators of random numbers and
            connections, may change with every call, and an empty container may be a cache.
    """

    fault = (
        "a call changed its data, or the state that `prepare` made of them, which is the input of "
        "every later call: copy it first"
    )

    def __init__(self, value: Any, *, whole: bool) -> None:
        self._value, self._whole = value, whole
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
        """Return the value as bytes; none if it cannot be written."""
        file = BytesIO()
        try:
            _SharedPickler(file, self._whole).dump(self._value)
        except Exception:
            return b""
        return file.getvalue()


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
