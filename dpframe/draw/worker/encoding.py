"""Encode one answer of a black box as its kind, its exact value and its numbers."""

from __future__ import annotations

import datetime
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from struct import pack
from typing import Any, NamedTuple, Tuple

from .codes import ABSENT_NUMBER, MOST_NUMBERS, NAN, UnreadableError, bytes_of, code, flags
from .codes import in_short, name_of, number_of, numbers_in, plain, short, sized
from .libraries import Parts, exact, of_array_like, parts_of, public_parts

_MOST_PARTS = 1 << 20  # Python objects in one answer, arrays counted as one
_MOST_DEPTH = 64  # containers within containers
_MOST_KEPT = 64  # characters or keys in what is remembered between answers
_DEFAULTS = ("__closure__", "__defaults__", "__kwdefaults__")  # values that a function holds
_CODE = ("function", "builtin_function_or_method", "method", "module")


def encode(answer: Any, attributes: Sequence[str] = ()) -> tuple[str, bytes, list[float]]:
    """Encode an answer: any Python value.

    From objects of unknown classes, `attributes` are read; default: the public names in their
    `__dict__` or `__slots__`.

    Returns:
        The kind in words; the exact value with its types as bytes, equal for two answers if and
        only if the answers are equal bit for bit; and the numbers, at most `MOST_NUMBERS`.

    Raises:
        UnreadableError: an object shows nothing, or the answer is too large or too deep.
    """
    content, kind, numbers, of_texts = _Reader(attributes).read(answer)
    if of_texts and type(answer) is str:  # a report: its numbers, without a marker
        numbers, kind = [], "str like " + " ".join(numbers_in(answer)[1].split())
    numbers = [*numbers, *of_texts][:MOST_NUMBERS]
    return short(kind + flags(numbers)), content, plain(numbers)


def of_array(dtype: Any, shape: tuple[int, ...], scalar: bool) -> tuple[bytes, str]:
    """Return the first bytes of the exact value of an array, and its kind without flags."""
    described = f"{dtype.kind}{dtype.itemsize} {dtype.name} {shape}"
    kind = f"{dtype.name} scalar" if scalar else f"{dtype.name} array of shape {shape}"
    return (b"a" if scalar else b"A") + sized(described.encode()), kind


def is_plain(value: Any) -> bool:
    """True for a scalar of NumPy that is read as Python's: its type says nothing about the data.

    Otherwise `rng.choice(values)` and a value itself would differ, although both print the same.
    """
    dtype: Any = getattr(value, "dtype", None)
    known = type(value).__module__ == "numpy" and not hasattr(value, "__setitem__")
    return known and (dtype.kind in "biuSU" or dtype.name == "float64")


_Label = Tuple[bytes, str, Tuple[bool, bytes]]
"""A key or name: its bytes, its text, and its rank among others."""


class _Piece(NamedTuple):
    """An encoded value, perhaps within another one."""

    content: bytes
    kind: str
    numbers: Sequence[float] = ()
    of_texts: Sequence[float] = ()
    """Numbers written in texts. They come last in an answer, because their count may vary."""


def _joined(before: bytes, kind: str, pieces: Iterable[_Piece]) -> _Piece:
    contents = [before]
    numbers: list[float] = []
    of_texts: list[float] = []
    for content, _, own, written in pieces:
        contents.append(content)
        numbers += own
        of_texts += written
    return _Piece(b"".join(contents), kind, numbers[:MOST_NUMBERS], of_texts[:MOST_NUMBERS])


# Python's scalars.


def _int(value: int) -> _Piece:
    content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return _Piece(b"i" + sized(content), "int", [number_of(value)])


def _str(value: str) -> _Piece:
    content, numbers, marker = _kept(_text, len(value))(value)
    return _Piece(b"s" + content, "str", [marker], numbers)


@lru_cache(maxsize=1 << 12)
def _text(value: str) -> tuple[bytes, list[float], float]:
    """Return the bytes of a text, the numbers in it, and its marker.

    The marker is the same for texts that differ only in their numbers.
    """
    content = bytes_of(value)
    numbers, without_numbers = numbers_in(value)
    return sized(content), numbers, float(code(without_numbers if numbers else content) >> 32)


@lru_cache(maxsize=1 << 12)
def _label(key: str) -> _Label:
    return b"s" + sized(bytes_of(key)), repr(key).strip("'"), (False, bytes_of(key))


@lru_cache(maxsize=1 << 10)
def _head(labels: tuple[_Label, ...]) -> tuple[bytes, list[int]]:
    """Return the bytes of a table's keys, and their places in the order of their ranks."""
    content = b"K" + sized(b"".join([sized(content) for content, _, _ in labels]))
    return content, sorted(range(len(labels)), key=lambda at: (labels[at][2], labels[at][0]))


def _kept(function: Any, size: int) -> Any:
    """Return a function that remembers its results, or for large arguments one that does not."""
    return function if size <= _MOST_KEPT else function.__wrapped__


def _bytes(value: bytes) -> _Piece:
    bits = [float(x >> at & 1) for x in value[: MOST_NUMBERS // 8] for at in range(7, -1, -1)]
    return _Piece(b"b" + sized(value), f"bytes of length {len(value)}", bits)


_SCALARS: dict[type, Callable[[Any], _Piece]] = {
    type(None): lambda _: _Piece(b"n", "None", [ABSENT_NUMBER]),
    bool: lambda x: _Piece(b"t" if x else b"u", "bool", [float(x)]),
    int: _int,
    float: lambda x: _Piece(b"f" + pack("<d", x), "float", [x]),
    complex: lambda x: _Piece(b"c" + pack("<dd", x.real, x.imag), "complex", [x.real, x.imag]),
    str: _str,
    bytes: _bytes,
}
_PLAIN: dict[type, Callable[[Any], Any]] = {one: one for one in _SCALARS}
_PLAIN.update({str: str.__str__, float: float.__float__})
"""Makes a scalar of a subclass one of the class itself, whatever the methods of the subclass do."""

_BUILT_IN = (*_SCALARS, dict, list, tuple, set, frozenset, bytearray, array, Parts)


class _Reader:
    """Reads one answer from front to back."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = attributes
        self.count = 0
        self.open: list[int] = []
        """Identities of the containers that are being read, the outermost first."""
        self.objects = 0  # of unknown classes, among the containers that are being read

    def read(self, value: Any) -> _Piece:
        self.count += 1
        if self.count > _MOST_PARTS:
            raise UnreadableError(f"it holds more than {_MOST_PARTS:,} values")
        if (scalar := _SCALARS.get(type(value))) is not None:
            return scalar(value)
        if is_plain(value):
            return self.read(value.item())
        if id(value) in self.open:  # it holds itself
            return _Piece(b"^" + pack("<Q", self.open.index(id(value))), "itself")
        if len(self.open) >= _MOST_DEPTH:
            raise UnreadableError(f"it is nested deeper than {_MOST_DEPTH} levels")
        self.open.append(id(value))
        try:
            piece = self.container(value, type(value))
            if type(value) in _BUILT_IN or not isinstance(value, _BUILT_IN):
                return piece
            attributes = public_parts(value)[0]  # a subclass of a built-in class may hold more
            if not attributes:
                return piece
            more = self.shown(value, attributes)
            return _joined(b"", f"{piece.kind} with {more.kind}", [piece, more])
        finally:
            self.open.pop()

    def container(self, value: Any, kind: Any) -> _Piece:
        if kind is Parts:
            return self.named(value.title, value.pairs)
        if isinstance(value, type) or kind.__name__ in _CODE:
            bound = type(getattr(value, "__self__", sys)) is not type(sys)
            if not self.objects and (bound or any(getattr(value, n, None) for n in _DEFAULTS)):
                return self.hidden(value)
            name = str(value.__name__)
            return _Piece(b"q" + sized(bytes_of(name)), "the object " + name)
        if isinstance(value, dict):
            return self.table(value, kind)
        if isinstance(value, (list, tuple)):
            fields = getattr(kind, "_fields", None)
            return self.row(value) if fields is None else self.fields(value, fields)
        # A set is sorted by bytes, because its order means nothing. Numbers in its texts would have
        # no fixed places, so they are left out.
        if isinstance(value, (set, frozenset)):
            pieces = sorted((self.read(one)[:3] for one in value), key=lambda piece: piece[0])
            title = f"{name_of(kind)} of {len(pieces)}" + _listed([each for _, each, _ in pieces])
            before = b"S" + _class(kind)[1:] + pack("<Q", len(pieces))
            parts = [_Piece(sized(content), each, own) for content, each, own in pieces]
            return _joined(before, title, parts)
        if isinstance(value, (bytearray, memoryview)):
            return _within(_class(kind), name_of(kind) + " as ", _bytes(bytes(value)))
        if isinstance(value, range):
            return _within(b"", "range, ", self.row([value.start, value.stop, value.step]))
        if isinstance(value, array):
            before = b"r" + sized(value.typecode.encode())
            return _within(before, "array.array, ", self.row(value.tolist()))
        return self.other(value, kind)

    def row(self, values: Any) -> _Piece:
        kind = type(values)
        before = (b"L" if kind is list else b"T") + pack("<Q", len(values))
        before += b"" if kind in (list, tuple) else _class(kind)
        return self.several(before, f"{name_of(kind)} of {len(values)}", values)

    def several(self, before: bytes, title: str, values: Any) -> _Piece:
        """Read values in their order; lists of floats at once."""
        kinds = set(map(type, values))
        if any(kind.__module__ == "numpy" for kind in kinds):
            values = [value.item() if is_plain(value) else value for value in values]
            kinds = set(map(type, values))
        if kinds == {float}:
            content = array("d", values)
            if sys.byteorder != "little":
                content.byteswap()
            before += b"F" + sized(content.tobytes())
            return _Piece(before, title + " float", values[:MOST_NUMBERS])
        pieces = [self.read(value) for value in values]
        return _joined(before + b"V", title + _listed([one.kind for one in pieces]), pieces)

    def table(self, value: Any, kind: Any) -> _Piece:
        """Read a table in its order, which is part of the value, but its numbers by sorted keys.

        Keys that are texts are sorted by the alphabet; others follow, by their bytes.
        """
        labels = tuple([self.label(key) for key in value])
        keys, (content, in_order) = list(value), _kept(_head, len(labels))(labels)
        before = b"M" + pack("<Q", len(keys)) + (b"" if kind is dict else _class(kind))
        pieces = {place: self.read(value[keys[place]]) for place in in_order}
        column_kinds = [f"{label[1]}: {pieces[place].kind}" for place, label in enumerate(labels)]
        title = f"{name_of(kind)} ({', '.join(column_kinds)})"
        return _joined(before + content, title, pieces.values())

    def label(self, key: Any) -> _Label:
        """Return the bytes of a key or name, its text, and its rank among others."""
        if is_plain(key):
            key = key.item()
        if type(key) is str:
            label: _Label = _kept(_label, len(key))(key)
            return label
        piece = self.read(key)
        rank = True, bytes_of(key) if isinstance(key, str) else b""
        return piece.content, (in_short(key) or piece.kind).strip("'"), rank

    def other(self, value: Any, kind: Any) -> _Piece:
        """Read a value of a library, of a class of the standard library, or any object."""
        if (named_parts := parts_of(value)) is not None:
            return self.named(*named_parts)
        package = str(kind.__module__).partition(".")[0]
        if package == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
            return self.array(value)
        if hasattr(value, "__array__") and not any(hasattr(value, a) for a in self.attributes):
            return self.named(*of_array_like(value))
        if isinstance(value, (Fraction, Decimal)):
            none = isinstance(value, Decimal) and value.is_nan()
            content = b"R" + _class(kind)[1:] + sized(str(value).encode())
            return _Piece(content, name_of(kind), [NAN if none else number_of(value)])
        if isinstance(value, Enum):
            return self.fields(value, ("name", "value"))
        if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
            fold = " again" if getattr(value, "fold", 0) else ""  # the second of two equal times
            content = b"W" + _class(kind)[1:] + sized((str(value) + fold).encode())
            return _Piece(content, name_of(kind), [_seconds(value)])
        for base, read in _SCALARS.items():
            if isinstance(value, base):
                return _within(_class(kind), name_of(kind) + ", ", read(_PLAIN[base](value)))
        return self.object(value)

    def array(self, value: Any) -> _Piece:
        """Read an array or a scalar of NumPy."""
        dtype, shape = value.dtype, tuple(map(int, value.shape))
        before, kind = of_array(dtype, shape, not hasattr(value, "__setitem__") and not shape)
        if dtype.names:
            return self.named(kind, [(name, value[name]) for name in dtype.names])
        if dtype.kind in "OT":  # texts of any length are stored by reference, as objects are
            return self.several(b"Q" + sized(repr(shape).encode()), kind, value.ravel().tolist())
        content = before + sized(exact(value).tobytes())
        return _Piece(content, kind, _numbers_of(value.ravel()[:MOST_NUMBERS], dtype.kind))

    def named(self, title: str, pairs: Sequence[tuple[Any, Any]]) -> _Piece:
        """Read named values in their order; the kind of one without a name follows the title."""
        pieces, whole, kinds = [], "", []
        for name, each in pairs:
            content, label, _ = self.label(name)
            piece = self.read(each)
            before = content[1:] if type(name) is str else b"k" + sized(content)
            pieces.append(_within(before, "", piece))
            if name == "":
                whole = piece.kind
            else:
                kinds.append(f"{label}: {piece.kind}")
        kind = ", ".join(filter(None, (title, whole))) if whole else title
        kind += f" ({', '.join(kinds)})" if kinds or not whole else ""
        return _joined(b"O" + sized(bytes_of(title)) + pack("<Q", len(pairs)), kind, pieces)

    def fields(self, value: Any, names: Sequence[str]) -> _Piece:
        """Read an object by some of its attributes."""
        return self.named(name_of(type(value)), [(name, getattr(value, name)) for name in names])

    def object(self, value: Any) -> _Piece:
        """Read the requested attributes of an object, else its public ones."""
        if self.attributes and (requested := [a for a in self.attributes if hasattr(value, a)]):
            return self.fields(value, requested)
        if isinstance(value, BaseException) and not hasattr(type(value), "__dataclass_fields__"):
            return self.shown(value, [("args", value.args)])
        attributes, hidden = public_parts(value)
        if attributes or not hidden:  # an object without attributes is its class
            return self.shown(value, attributes)
        return self.hidden(value)

    def shown(self, value: Any, pairs: list[tuple[str, Any]]) -> _Piece:
        """Read an object by its public attributes; those that show nothing are read by class."""
        self.objects += 1
        try:
            return self.named(name_of(type(value)), pairs)
        finally:
            self.objects -= 1

    def hidden(self, value: Any) -> _Piece:
        """Read a part that may hide content by its class alone; refuse it as a whole answer."""
        name = name_of(type(value))
        if self.objects:  # a part of an object that shows more
            return _Piece(b"o" + sized(name.encode()), name)
        instead = ", or return a list of its items" if hasattr(value, "__next__") else ""
        raise UnreadableError(
            f"it is an object of class {name}, which has nothing to read: list what to read in "
            f"`attributes`{instead}"
        )


def _class(kind: type) -> bytes:
    return b"C" + sized(name_of(kind).encode())


def _within(before: bytes, title: str, piece: _Piece) -> _Piece:
    """Return a piece with bytes before its own, and words before its kind."""
    return piece._replace(content=before + piece.content, kind=title + piece.kind)


def _listed(kinds: list[str]) -> str:
    """Name the kinds of the items of a sequence."""
    if len(set(kinds)) < 2:
        return " " + kinds[0] if kinds else ""
    return " (" + ", ".join(kinds) + ")"


def _seconds(value: Any) -> float:
    """Return the seconds of a duration, since midnight, or since the year 1."""
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    days = value.toordinal() if hasattr(value, "toordinal") else 0
    hours, minutes, seconds = (getattr(value, name, 0) for name in ("hour", "minute", "second"))
    whole = seconds + (hours * 3600 + minutes * 60)
    return float(days * 86400.0 + whole + getattr(value, "microsecond", 0) / 1e6)


def _numbers_of(flat: Any, kind: str) -> list[float]:
    """Return the numbers of a flat array of NumPy of some kind of type."""
    if kind in "mM":  # NaT is the smallest of all
        return [NAN if x == -(1 << 63) else float(x) for x in flat.astype("i8").tolist()]
    if kind in "SU":
        return [float(code(text) >> 32) for text in flat.tolist()]
    try:
        numbers: list[float] = (
            flat.astype("c16").view("f8") if kind == "c" else flat.astype("f8")
        ).tolist()
    except (TypeError, ValueError):  # bytes of no type; bfloat16 and its like have numbers
        return []
    return numbers
