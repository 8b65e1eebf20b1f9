"""Read one answer: its exact bytes, its numbers and its kind in words."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import pack
from typing import Any

from .codes import ABSENT_NUMBER, MOST_NUMBERS, UnreadableError
from .codes import bytes_of, code, in_short, listed, name_of, number_of, numbers_in, of_int, sized
from .libraries import read_fields, read_hidden, read_other, read_shown, shown

_MOST_PARTS = 1 << 20  # Python objects in one answer, arrays counted as one
_MOST_DEPTH = 64  # containers within containers
_MOST_KEYS = 64  # keys of a table that are remembered together
_MOST_KNOWN = 64  # characters of a text that is remembered
_DEFAULTS = ("__closure__", "__defaults__", "__kwdefaults__")  # values that a function holds
_CODE = ("function", "builtin_function_or_method", "method", "module")


class Reader:
    """Reads one answer from front to back; every method returns the kind of what it read.

    It reads `attributes` of objects of unknown classes.
    """

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
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(self, value)
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
            held = shown(value)[0]  # a subclass of a built-in class may hold more
            return f"{kind} with {read_shown(self, value, held)}" if held else kind
        finally:
            self.open.pop()

    def part(self, tag: bytes, content: bytes = b"") -> None:
        self.parts.append(tag)
        if content:
            self.parts.append(content)

    def add(self, x: float) -> None:
        if len(self.numbers) < MOST_NUMBERS:
            self.numbers.append(x)

    def add_all(self, numbers: list[float]) -> None:
        self.numbers.extend(numbers[: MOST_NUMBERS - len(self.numbers)])

    # Python's own values.

    def none(self, _value: None) -> str:
        self.part(b"n")
        self.add(ABSENT_NUMBER)
        return "None"

    def bool_(self, value: bool) -> str:
        self.part(b"t" if value else b"u")
        self.add(1.0 if value else 0.0)
        return "bool"

    def int_(self, value: int) -> str:
        self.part(b"i", of_int(value))
        self.add(number_of(value))
        return "int"

    def float_(self, value: float) -> str:
        self.part(b"f", pack("<d", value))
        self.add(float(value))
        return "float"

    def complex_(self, value: complex) -> str:
        self.part(b"c", pack("<dd", value.real, value.imag))
        self.add(value.real)
        self.add(value.imag)
        return "complex"

    def str_(self, value: str) -> str:
        text = str.__str__(value)  # also of a subclass of str, whatever its methods return
        content, found, marker = (_of_text if len(text) <= _MOST_KNOWN else _of_long)(text)
        self.part(b"s", content)
        self.of_texts += found
        self.add(marker)
        return "str"

    def bytes_(self, value: bytes) -> str:
        content = bytes(value)
        self.part(b"b", sized(content))
        room = MOST_NUMBERS - len(self.numbers)
        for byte in content[: room // 8 + 1]:
            self.add_all([float(byte >> place & 1) for place in range(7, -1, -1)])
        return f"bytes of length {len(content)}"

    # Containers.

    def container(self, value: Any) -> str:
        kind = type(value)
        if kind is dict:
            return self.table(value)
        if kind is list or kind is tuple:
            return self.row(value)
        if isinstance(value, type) or kind.__name__ in _CODE:
            bound = type(getattr(value, "__self__", sys)) is not type(sys)
            if not self.objects and (bound or any(getattr(value, n, None) for n in _DEFAULTS)):
                return read_hidden(self, value)
            self.part(b"q", sized(bytes_of(str(value.__name__))))
            return "the object " + str(value.__name__)
        if isinstance(value, dict):
            return self.table(value)
        if isinstance(value, (set, frozenset)):
            return self.group(value)
        if isinstance(value, (list, tuple)):
            fields = getattr(kind, "_fields", None)
            return self.row(value) if fields is None else read_fields(self, value, fields)
        if isinstance(value, (bytearray, memoryview)):
            self.part(b"C", sized(name_of(kind).encode()))
            return name_of(kind) + " as " + self.bytes_(bytes(value))
        if isinstance(value, range):
            return "range, " + self.row([value.start, value.stop, value.step])
        if isinstance(value, array):
            self.part(b"r", sized(value.typecode.encode()))
            return "array.array, " + self.row(value.tolist())
        return read_other(self, value, kind)

    def row(self, values: Any) -> str:
        self.part(b"L" if type(values) is list else b"T", pack("<Q", len(values)))
        if type(values) not in (list, tuple):
            self.part(b"C", sized(name_of(type(values)).encode()))
        title = f"{name_of(type(values))} of {len(values)}"
        return self.several(title, values)

    def several(self, title: str, values: Any) -> str:
        """Read values in their order; lists of floats at once."""
        kinds = set(map(type, values))
        if kinds == {float}:
            content = array("d", values)
            if sys.byteorder != "little":
                content.byteswap()
            self.part(b"F", sized(content.tobytes()))
            self.add_all(list(values[:MOST_NUMBERS]))
            return title + " float"
        self.part(b"V")
        found = [self.read(value) for value in values]
        return title + listed(found)

    def table(self, value: Any) -> str:
        """Read a table in its order, which is part of the value, but its numbers by sorted keys."""
        self.part(b"M", pack("<Q", len(value)))
        if type(value) is not dict:
            self.part(b"C", sized(name_of(type(value)).encode()))
        if 0 < len(value) <= _MOST_KEYS and set(map(type, value)) == {str}:
            whole, names, in_order = _head(tuple(value))
            self.parts.append(whole)
            of = {key: self.read(value[key]) for key in in_order}
            held = [f"{label}: {of[key]}" for key, label in names]
            return f"{name_of(type(value))} ({', '.join(held)})"
        keys = []
        for key in value:
            if type(key) is str:
                content = bytes_of(key)
                keys.append((b"s" + sized(content), repr(key).strip("'"), key))
                continue
            mine = self.aside()
            name = mine.read(key)
            label = in_short(key) or name
            keys.append((b"".join(mine.parts), label.strip("'"), key))
            self.count = mine.count
        self.part(b"K", sized(b"".join(sized(code_of) for code_of, _, _ in keys)))
        kinds = {}
        for code_of, _, key in sorted(keys, key=_place):
            kinds[code_of] = self.read(value[key])
        held = [f"{label}: {kinds[code_of]}" for code_of, label, _ in keys]
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
            self.add_all(numbers)
        return f"{name_of(type(value))} of {len(found)}" + listed([k for _, k, _ in found])

    def aside(self) -> Reader:
        """Return a reader of an inner value whose place is not known yet."""
        other = Reader(self.attributes)
        other.open, other.count, other.objects = list(self.open), self.count, self.objects
        return other


@lru_cache(maxsize=1 << 10)
def _head(keys: tuple[str, ...]) -> tuple[bytes, list[tuple[str, str]], list[str]]:
    """Return the bytes of a table's text keys, the keys with labels, and the sorted keys."""
    found = [(b"s" + sized(bytes_of(key)), repr(key).strip("'"), key) for key in keys]
    content = b"K" + sized(b"".join(sized(code_of) for code_of, _, _ in found))
    names = [(key, label) for _, label, key in found]
    return content, names, [key for _, _, key in sorted(found, key=_place)]


@lru_cache(maxsize=1 << 12)
def _of_text(text: str) -> tuple[bytes, list[float], float]:
    """Return the bytes of a text, the numbers in it, and its marker."""
    content = bytes_of(text)
    found, rest = numbers_in(text)
    # The marker is the same for texts that differ only in their numbers.
    return sized(content), found, float(code(rest if found else content) >> 32)


_of_long = _of_text.__wrapped__


def _place(key: tuple[bytes, str, Any]) -> tuple[bool, bytes, bytes]:
    """Order keys: texts by the alphabet, then the rest by their bytes."""
    content, _, value = key
    text = value if isinstance(value, str) else ""
    return type(value) is not str, bytes_of(text), content


_PLAIN: dict[Any, Callable[[Reader, Any], str]] = {
    type(None): Reader.none,
    bool: Reader.bool_,
    int: Reader.int_,
    float: Reader.float_,
    complex: Reader.complex_,
    str: Reader.str_,
    bytes: Reader.bytes_,
}

_BUILT_IN = (*_PLAIN, dict, list, tuple, set, frozenset, bytearray, array)
