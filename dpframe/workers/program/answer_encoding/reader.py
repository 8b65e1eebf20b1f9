"""Reads an answer: Python's own values, and what holds other values."""

from __future__ import annotations

import struct
import sys
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpframe.workers.program.answer_encoding.content import (
    ABSENT_NUMBER,
    MOST_NUMBERS,
    UnreadableError,
    bytes_of,
    code,
    number_of,
    of_int,
    sized,
)
from dpframe.workers.program.answer_encoding.kinds import listed, name_of
from dpframe.workers.program.answer_encoding.objects import read_foreign, read_named_tuple
from dpframe.workers.program.answer_encoding.texts import numbers_in
from dpframe.workers.program.answer_encoding.words import in_short

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MOST_PARTS = 1 << 20
"""Python objects in one answer, arrays counted as one."""

MOST_DEPTH = 64
"""Containers within containers."""

_CODE = ("function", "builtin_function_or_method", "method", "module")


MOST_KEYS = 64
"""Keys of a table that are remembered together."""

MOST_KNOWN = 64
"""Characters of a text that is remembered."""


class Reader:
    """Reads one answer from front to back; every method returns the kind of what it read."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = attributes
        self.parts: list[bytes] = []
        self.numbers: list[float] = []
        self.count = 0
        self.open: list[int] = []
        """Identities of the containers that are being read, the outermost first."""
        self.of_texts: list[float] = []
        """Numbers that are written in texts. They come last: how many there are may vary."""

    def read(self, value: Any) -> str:
        self.count += 1
        if self.count > MOST_PARTS:
            raise UnreadableError(f"it holds more than {MOST_PARTS:,} values")
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(self, value)
        if id(value) in self.open:  # it holds itself
            self.part(b"^", struct.pack("<Q", self.open.index(id(value))))
            return "itself"
        if len(self.open) >= MOST_DEPTH:
            raise UnreadableError(f"it is nested deeper than {MOST_DEPTH} levels")
        self.open.append(id(value))
        try:
            return self.container(value)
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
        self.part(b"f", struct.pack("<d", value))
        self.add(float(value))
        return "float"

    def complex_(self, value: complex) -> str:
        self.part(b"c", struct.pack("<dd", value.real, value.imag))
        self.add(value.real)
        self.add(value.imag)
        return "complex"

    def str_(self, value: str) -> str:
        text = str.__str__(value)  # of a class that extends str too, whatever it makes of itself
        content, found, marker = (_of_text if len(text) <= MOST_KNOWN else _of_long)(text)
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

    # What holds other values.

    def container(self, value: Any) -> str:
        kind = type(value)
        if kind is dict:
            return self.table(value)
        if kind is list or kind is tuple:
            return self.row(value)
        package = str(getattr(kind, "__module__", "")).split(".", 1)[0]
        if isinstance(value, type) or kind.__name__ in _CODE:
            self.part(b"q", sized(bytes_of(str(value.__name__))))
            return "the object " + str(value.__name__)
        if isinstance(value, dict):
            return self.table(value)
        if isinstance(value, (set, frozenset)):
            return self.group(value)
        if isinstance(value, (list, tuple)):
            return read_named_tuple(self, value) if hasattr(kind, "_fields") else self.row(value)
        if isinstance(value, (bytearray, memoryview)):
            self.part(b"C", sized(name_of(kind).encode()))
            return name_of(kind) + " as " + self.bytes_(bytes(value))
        if isinstance(value, range):
            return "range, " + self.row([value.start, value.stop, value.step])
        if isinstance(value, array):
            self.part(b"r", sized(value.typecode.encode()))
            return "array.array, " + self.row(value.tolist())
        return read_foreign(self, value, kind, package)

    def row(self, values: Any) -> str:
        self.part(b"L" if type(values) is list else b"T", struct.pack("<Q", len(values)))
        if type(values) not in (list, tuple):
            self.part(b"C", sized(name_of(type(values)).encode()))
        title = f"{name_of(type(values))} of {len(values)}"
        return self.several(title, values)

    def several(self, title: str, values: Any) -> str:
        """Values one after the other; many floats at once."""
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
        """As it stands, since its order shows; but its numbers by sorted keys."""
        self.part(b"M", struct.pack("<Q", len(value)))
        if type(value) is not dict:
            self.part(b"C", sized(name_of(type(value)).encode()))
        if 0 < len(value) <= MOST_KEYS and set(map(type, value)) == {str}:
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
        """Sorted, since the order of a set says nothing."""
        found = []
        for each in value:
            mine = self.aside()
            kind = mine.read(each)
            found.append((b"".join(mine.parts), kind, mine.numbers))
            self.count = mine.count
        found.sort(key=lambda one: one[0])
        self.part(b"S", sized(name_of(type(value)).encode()) + struct.pack("<Q", len(found)))
        for content, _, numbers in found:
            self.part(sized(content))
            self.add_all(numbers)
        return f"{name_of(type(value))} of {len(found)}" + listed([k for _, k, _ in found])

    def aside(self) -> Reader:
        """A reader of what lies within, of which the order is not known yet."""
        other = Reader(self.attributes)
        other.open, other.count = list(self.open), self.count
        return other


@lru_cache(maxsize=1 << 10)
def _head(keys: tuple[str, ...]) -> tuple[bytes, list[tuple[str, str]], list[str]]:
    """Of a table by texts: its keys as bytes, what they are called, and their order."""
    found = [(b"s" + sized(bytes_of(key)), repr(key).strip("'"), key) for key in keys]
    content = b"K" + sized(b"".join(sized(code_of) for code_of, _, _ in found))
    names = [(key, label) for _, label, key in found]
    return content, names, [key for _, _, key in sorted(found, key=_place)]


@lru_cache(maxsize=1 << 12)
def _of_text(text: str) -> tuple[bytes, list[float], float]:
    """Of a text: its bytes, the numbers in it, and its marker."""
    content = bytes_of(text)
    found, rest = numbers_in(text)
    # A marker: the same for the same text, whatever numbers are in it.
    return sized(content), found, float(code(rest if found else content) >> 32)


_of_long = _of_text.__wrapped__


def _place(key: tuple[bytes, str, Any]) -> tuple[bool, bytes, bytes]:
    """Where the numbers under a key stand: texts by the alphabet, then the rest."""
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
