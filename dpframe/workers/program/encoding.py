"""Encode one answer of a black box as its kind, its exact value and its numbers."""

from __future__ import annotations

import datetime
import sys
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from struct import pack
from typing import Any

from .codes import ABSENT_NUMBER, MOST_NUMBERS, NAN, UnreadableError, bytes_of, code, flags
from .codes import in_short, name_of, number_of, numbers_in, plain, short, sized
from .libraries import Parts, exact, of_array_like, parts_of, public_parts

_MOST_PARTS = 1 << 20  # Python objects in one answer, arrays counted as one
_MOST_DEPTH = 64  # containers within containers
_MOST_KEYS = 64  # keys of a table that are remembered together
_MOST_KNOWN = 64  # characters of a text that is remembered
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
    reader = _Reader(attributes)
    kind = reader.read(answer)
    if reader.of_texts and type(answer) is str:  # a report: its numbers, without a marker
        reader.numbers = []
        kind = "str like " + " ".join(numbers_in(answer)[1].split())
    reader.add(reader.of_texts)
    return short(kind + flags(reader.numbers)), b"".join(reader.parts), plain(reader.numbers)


def packed(kind: int, value: int, numbers: Sequence[float], width: int, seconds: float) -> bytes:
    """Return one row of answers: the codes of kind and value, `width` numbers, and a time.

    It has 8 × (3 + width) bytes, of 64-bit words with the least significant byte first.
    """
    padded = list(numbers[:width]) + [ABSENT_NUMBER] * (width - len(numbers))
    return pack(f"<QQd{width}d", kind, value, seconds, *padded)


class _Reader:
    """Reads one answer from front to back; every method returns the kind of what it read."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = attributes
        self.parts: list[bytes] = []
        self.numbers: list[float] = []
        self.count = 0
        self.open: list[int] = []
        """Identities of the containers that are being read, the outermost first."""
        self.objects = 0  # of unknown classes, among the containers that are being read
        self.of_texts: list[float] = []
        """Numbers written in texts. They come last, because their count may vary."""

    def read(self, value: Any) -> str:
        self.count += 1
        if self.count > _MOST_PARTS:
            raise UnreadableError(f"it holds more than {_MOST_PARTS:,} values")
        scalar = _SCALARS.get(type(value))
        if scalar is not None:
            return scalar(self, value)
        if id(value) in self.open:  # it holds itself
            self.part(b"^", pack("<Q", self.open.index(id(value))))
            return "itself"
        if len(self.open) >= _MOST_DEPTH:
            raise UnreadableError(f"it is nested deeper than {_MOST_DEPTH} levels")
        self.open.append(id(value))
        try:
            kind = self.container(value)
            if type(value) in _BUILT_IN or not isinstance(value, _BUILT_IN):
                return kind
            held = public_parts(value)[0]  # a subclass of a built-in class may hold more
            return f"{kind} with {self.shown(value, held)}" if held else kind
        finally:
            self.open.pop()

    def part(self, tag: bytes, content: bytes = b"") -> None:
        self.parts += (tag, content) if content else (tag,)

    def add(self, numbers: Sequence[float]) -> None:
        self.numbers.extend(numbers[: MOST_NUMBERS - len(self.numbers)])

    # Python's own values.

    def none(self, _value: None) -> str:
        self.part(b"n")
        self.add([ABSENT_NUMBER])
        return "None"

    def bool_(self, value: bool) -> str:
        self.part(b"t" if value else b"u")
        self.add([1.0 if value else 0.0])
        return "bool"

    def int_(self, value: int) -> str:
        content = int(value).to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        self.part(b"i", sized(content))
        self.add([number_of(value)])
        return "int"

    def float_(self, value: float) -> str:
        self.part(b"f", pack("<d", value))
        self.add([float(value)])
        return "float"

    def complex_(self, value: complex) -> str:
        self.part(b"c", pack("<dd", value.real, value.imag))
        self.add([value.real, value.imag])
        return "complex"

    def str_(self, value: str) -> str:
        text = str.__str__(value)  # also of a subclass of str, whatever its methods return
        content, found, marker = (_of_text if len(text) <= _MOST_KNOWN else _of_long)(text)
        self.part(b"s", content)
        self.of_texts += found
        self.add([marker])
        return "str"

    def bytes_(self, value: bytes) -> str:
        content = bytes(value)
        self.part(b"b", sized(content))
        for byte in content[: (MOST_NUMBERS - len(self.numbers)) // 8 + 1]:
            self.add([float(byte >> place & 1) for place in range(7, -1, -1)])
        return f"bytes of length {len(content)}"

    # Containers.

    def container(self, value: Any) -> str:
        kind = type(value)
        if kind is Parts:
            return self.named(value.title, value.pairs)
        if isinstance(value, type) or kind.__name__ in _CODE:
            bound = type(getattr(value, "__self__", sys)) is not type(sys)
            if not self.objects and (bound or any(getattr(value, n, None) for n in _DEFAULTS)):
                return self.hidden(value)
            self.part(b"q", sized(bytes_of(str(value.__name__))))
            return "the object " + str(value.__name__)
        if isinstance(value, dict):
            return self.table(value)
        if isinstance(value, (list, tuple)):
            fields = getattr(kind, "_fields", None)
            return self.row(value) if fields is None else self.fields(value, fields)
        if isinstance(value, (set, frozenset)):
            return self.group(value)
        if isinstance(value, (bytearray, memoryview)):
            self.part(b"C", sized(name_of(kind).encode()))
            return name_of(kind) + " as " + self.bytes_(bytes(value))
        if isinstance(value, range):
            return "range, " + self.row([value.start, value.stop, value.step])
        if isinstance(value, array):
            self.part(b"r", sized(value.typecode.encode()))
            return "array.array, " + self.row(value.tolist())
        return self.other(value, kind)

    def row(self, values: Any) -> str:
        self.part(b"L" if type(values) is list else b"T", pack("<Q", len(values)))
        if type(values) not in (list, tuple):
            self.part(b"C", sized(name_of(type(values)).encode()))
        return self.several(f"{name_of(type(values))} of {len(values)}", values)

    def several(self, title: str, values: Any) -> str:
        """Read values in their order; lists of floats at once."""
        if set(map(type, values)) == {float}:
            content = array("d", values)
            if sys.byteorder != "little":
                content.byteswap()
            self.part(b"F", sized(content.tobytes()))
            self.add(list(values[:MOST_NUMBERS]))
            return title + " float"
        self.part(b"V")
        return title + _listed([self.read(value) for value in values])

    def table(self, value: Any) -> str:
        """Read a table in its order, which is part of the value, but its numbers by sorted keys."""
        self.part(b"M", pack("<Q", len(value)))
        if type(value) is not dict:
            self.part(b"C", sized(name_of(type(value)).encode()))
        if len(value) <= _MOST_KEYS and set(map(type, value)) == {str}:
            whole, labels, in_order = _head(tuple(value))
        else:
            whole, labels, in_order = _head_of([(*self.label(key), key) for key in value])
        self.parts.append(whole)
        kinds = {place: self.read(value[key]) for place, key in in_order}
        held = [f"{label}: {kinds[place]}" for place, label in enumerate(labels)]
        return f"{name_of(type(value))} ({', '.join(held)})"

    def group(self, value: Any) -> str:
        """Read a set sorted by the bytes of its items, because its order means nothing."""
        found = []
        for each in value:
            mine = self.aside()
            kind = mine.read(each)
            found.append((b"".join(mine.parts), kind, mine.numbers))
            self.count = mine.count
        found.sort(key=lambda one: one[0])
        self.part(b"S", sized(name_of(type(value)).encode()) + pack("<Q", len(found)))
        for content, _, numbers in found:
            self.part(sized(content))
            self.add(numbers)
        return f"{name_of(type(value))} of {len(found)}" + _listed([k for _, k, _ in found])

    def label(self, key: Any) -> tuple[bytes, str]:
        """Return the bytes of a key or name, and its text."""
        if type(key) is str:
            return b"s" + _of_text(key)[0], repr(key).strip("'")
        mine = self.aside()
        name = mine.read(key)
        self.count = mine.count
        return b"".join(mine.parts), (in_short(key) or name).strip("'")

    def aside(self) -> _Reader:
        """Return a reader of an inner value whose place is not known yet."""
        other = _Reader(self.attributes)
        other.open, other.count, other.objects = list(self.open), self.count, self.objects
        return other

    # Other values.

    def other(self, value: Any, kind: Any) -> str:
        known = parts_of(value)
        if known is not None:
            return self.named(known.title, known.pairs)
        package = str(kind.__module__).partition(".")[0]
        if package == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
            return self.array(value)
        if hasattr(value, "__array__") and not any(hasattr(value, a) for a in self.attributes):
            like = of_array_like(value)
            return self.named(like.title, like.pairs)
        if isinstance(value, (Fraction, Decimal)):
            self.part(b"R", sized(name_of(kind).encode()) + sized(str(value).encode()))
            none = isinstance(value, Decimal) and value.is_nan()
            self.add([NAN if none else number_of(value)])
            return name_of(kind)
        if isinstance(value, Enum):
            return self.fields(value, ("name", "value"))
        if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
            return self.moment(value)
        for base, read in _SCALARS.items():
            if base is not type(None) and isinstance(value, base):
                self.part(b"C", sized(name_of(kind).encode()))
                return name_of(kind) + ", " + read(self, value)
        return self.object(value)

    def array(self, value: Any) -> str:
        """Read an array or a scalar of NumPy."""
        dtype, shape = value.dtype, tuple(map(int, value.shape))
        before, kind = of_array(dtype, shape, not hasattr(value, "__setitem__") and not shape)
        if dtype.names:
            return self.named(kind, [(name, value[name]) for name in dtype.names])
        if dtype.kind in "OT":  # texts of any length are stored by reference, as objects are
            self.part(b"Q", sized(repr(shape).encode()))
            return self.several(kind, value.ravel().tolist())
        self.part(before, sized(exact(value).tobytes()))
        self.add(_numbers_of(value, dtype))
        return kind

    def moment(self, value: Any) -> str:
        self.part(b"W", sized(name_of(type(value)).encode()))
        fold = " again" if getattr(value, "fold", 0) else ""  # the second of two equal times
        self.part(sized((str(value) + fold).encode()))
        if isinstance(value, datetime.timedelta):
            self.add([value.total_seconds()])
        else:
            days = value.toordinal() if hasattr(value, "toordinal") else 0
            hours, minutes, seconds = (getattr(value, x, 0) for x in ("hour", "minute", "second"))
            seconds += hours * 3600 + minutes * 60
            self.add([days * 86400.0 + seconds + getattr(value, "microsecond", 0) / 1e6])
        return name_of(type(value))

    def named(self, title: str, pairs: Sequence[tuple[Any, Any]]) -> str:
        """Read named values in their order; the kind of one without a name follows the title."""
        self.part(b"O", sized(bytes_of(title)) + pack("<Q", len(pairs)))
        whole, held = "", []
        for name, each in pairs:
            content, label = self.label(name)
            self.part(sized(bytes_of(name)) if type(name) is str else b"k" + sized(content))
            kind = self.read(each)
            if name == "":
                whole = kind
            else:
                held.append(f"{label}: {kind}")
        if not whole:
            return f"{title} ({', '.join(held)})"
        whole = f"{title}, {whole}" if title else whole
        return f"{whole} ({', '.join(held)})" if held else whole

    def fields(self, value: Any, names: Sequence[str]) -> str:
        """Read an object by some of its attributes."""
        return self.named(name_of(type(value)), [(name, getattr(value, name)) for name in names])

    def object(self, value: Any) -> str:
        """Read the requested attributes of an object, else its public ones."""
        if self.attributes and (known := [a for a in self.attributes if hasattr(value, a)]):
            return self.fields(value, known)
        if isinstance(value, BaseException) and not hasattr(type(value), "__dataclass_fields__"):
            return self.shown(value, [("args", value.args)])
        held, hidden = public_parts(value)
        if held or not hidden:  # an object without attributes is its class
            return self.shown(value, held)
        return self.hidden(value)

    def shown(self, value: Any, pairs: list[tuple[str, Any]]) -> str:
        """Read an object by its public attributes; those that show nothing are read by class."""
        self.objects += 1
        try:
            return self.named(name_of(type(value)), pairs)
        finally:
            self.objects -= 1

    def hidden(self, value: Any) -> str:
        """Read a part that may hide content by its class alone; refuse it as a whole answer."""
        name = name_of(type(value))
        if self.objects:  # a part of an object that shows more
            self.part(b"o", sized(name.encode()))
            return name
        instead = ", or return a list of its items" if hasattr(value, "__next__") else ""
        raise UnreadableError(
            f"it is an object of class {name}, which has nothing to read: list what to read in "
            f"`attributes`{instead}"
        )


_SCALARS: dict[Any, Callable[[_Reader, Any], str]] = {
    type(None): _Reader.none,
    bool: _Reader.bool_,
    int: _Reader.int_,
    float: _Reader.float_,
    complex: _Reader.complex_,
    str: _Reader.str_,
    bytes: _Reader.bytes_,
}
_BUILT_IN = (*_SCALARS, dict, list, tuple, set, frozenset, bytearray, array, Parts)


def of_array(dtype: Any, shape: tuple[int, ...], scalar: bool) -> tuple[bytes, str]:
    """Return the first bytes of the exact value of an array, and its kind without flags."""
    described = f"{dtype.kind}{dtype.itemsize} {dtype.name} {shape}"
    kind = f"{dtype.name} scalar" if scalar else f"{dtype.name} array of shape {shape}"
    return (b"a" if scalar else b"A") + sized(described.encode()), kind


def _numbers_of(value: Any, dtype: Any) -> list[float]:
    flat = value.ravel()[:MOST_NUMBERS]
    if dtype.kind in "biuf":
        return [number_of(x) for x in flat.astype("f8").tolist()]
    if dtype.kind == "c":
        return [part for x in flat.astype("c16").tolist() for part in (x.real, x.imag)]
    if dtype.kind in "mM":  # NaT is the smallest of all
        return [NAN if x == -(1 << 63) else float(x) for x in flat.astype("i8").tolist()]
    if dtype.kind == "V":
        try:  # bfloat16 and its like
            return [float(x) for x in flat.astype("f8").tolist()]
        except (TypeError, ValueError):
            return []
    return [float(code(x if isinstance(x, bytes) else bytes_of(x)) >> 32) for x in flat.tolist()]


@lru_cache(maxsize=1 << 12)
def _of_text(text: str) -> tuple[bytes, list[float], float]:
    """Return the bytes of a text, the numbers in it, and its marker."""
    content = bytes_of(text)
    found, rest = numbers_in(text)
    # The marker is the same for texts that differ only in their numbers.
    return sized(content), found, float(code(rest if found else content) >> 32)


_of_long = _of_text.__wrapped__


@lru_cache(maxsize=1 << 10)
def _head(keys: tuple[str, ...]) -> tuple[bytes, list[str], list[tuple[int, Any]]]:
    return _head_of([(b"s" + _of_text(key)[0], repr(key).strip("'"), key) for key in keys])


def _head_of(
    keys: list[tuple[bytes, str, Any]],
) -> tuple[bytes, list[str], list[tuple[int, Any]]]:
    """Return the bytes of a table's keys, their labels, and the keys in order with their places.

    The order is that of the alphabet for texts, then that of the bytes for other keys.
    """

    def rank(place: int) -> tuple[bool, bytes, bytes]:
        content, _, key = keys[place]
        return type(key) is not str, bytes_of(key) if isinstance(key, str) else b"", content

    whole = b"K" + sized(b"".join(sized(content) for content, _, _ in keys))
    in_order = [(place, keys[place][2]) for place in sorted(range(len(keys)), key=rank)]
    return whole, [label for _, label, _ in keys], in_order


def _listed(kinds: list[str]) -> str:
    """Name the kinds of the items of a sequence."""
    if len(set(kinds)) < 2:
        return " " + kinds[0] if kinds else ""
    return " (" + ", ".join(kinds) + ")"
