"""One answer of a black box as its kind, its exact value and its numbers.

This file is also sent to interpreters that have neither dpframe nor NumPy: Python 3.8 and its
standard library are all that it uses, and what belongs to NumPy, pandas and others is known by how
it looks. Nothing here depends on the process: no `hash`, no `id`, no `repr` of somebody's class.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import struct
import sys
from array import array
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ABSENT = 0x7FF80000_0000AB5E
"""Bits of the NaN that stands where an answer has no number."""

ABSENT_NUMBER: float = struct.unpack("<d", struct.pack("<Q", ABSENT))[0]
"""The same as a float; told from other NaNs by identity."""

NAN: float = struct.unpack("<d", struct.pack("<Q", 0x7FF80000_00000000))[0]
"""Every NaN of an answer, in its numbers; the value keeps which one it was."""

MOST_NUMBERS = 8192
"""Numbers of one answer; what lies beyond is only part of the value."""

MOST_PARTS = 1 << 20
"""Python objects in one answer, arrays counted as one."""

MOST_DEPTH = 64
"""Containers within containers."""

MOST_TEXT = 240
"""Characters of a kind in words."""

IN_PYTHON = 1 << 9
"""The flag of classes that Python code defines; others may hold what no attribute shows."""

PLACES = 16
"""Numbers of which the kind says where NaN and infinities are; above, only whether there are."""

WHOLE = 1 << 16
"""Bytes above which a value holds the digest of a text or an array."""


RAISES = "raises "
"""How the kind of an exception begins, and no other."""


class UnreadableError(Exception):
    """An answer of which nothing can be told."""


def encode(answer: Any, attributes: Sequence[str] = ()) -> tuple[str, bytes, list[float]]:
    """What can be told of an answer.

    Args:
        answer: any Python value.
        attributes: names of what is read of objects of unknown classes; default: what their
            `__dict__` or `__slots__` hold in public.

    Returns:
        The kind in words; the exact value with its types as bytes, the same for two answers if and
        only if they are the same to the bit; and the numbers, at most `MOST_NUMBERS`.

    Raises:
        UnreadableError: an object shows nothing, or the answer is too large or too deep.
    """
    if type(answer) in _FLAT and (known := _layout(answer)) is not None:
        return _laid_out(answer, known)
    reader = _Reader(attributes)
    kind = reader.read(answer)
    if reader.of_texts and type(answer) is str:  # a report: its numbers, without a marker
        reader.numbers = []
        kind = "str like " + " ".join(numbers_in(answer)[1].split())
    reader.add_all(reader.of_texts)
    return short(kind + flags(reader.numbers)), b"".join(reader.parts), _plain(reader.numbers)


MOST_FLAT = 32
"""Values of a small table or list whose layout is remembered."""

MOST_LAYOUTS = 1 << 10

_FLAT = (dict, list, tuple)
_ONES = {float, int, bool, type(None)}
_layouts: dict[Any, Any] = {}
"""By all but the values: what stands before these, the keys in the order of the numbers (None where
all are floats of a list), and the kind. None: read it as any other."""


def _layout(answer: Any) -> Any:
    """How a small table, list or tuple of numbers is laid out: most boxes answer alike always."""
    if not 0 < len(answer) <= MOST_FLAT:
        return None
    if type(answer) is dict:
        if set(map(type, answer)) != {str}:
            return None
        look: Any = (tuple(map(type, answer.values())), tuple(answer))
    else:
        look = (tuple(map(type, answer)), type(answer))
    if look not in _layouts:
        if len(_layouts) >= MOST_LAYOUTS:
            return None
        _layouts[look] = _new_layout(answer) if set(look[0]) <= _ONES else None
    return _layouts[look]


def _new_layout(answer: Any) -> Any:
    """Asks the reader for answers of the same look, so that both tell the same."""
    keys = list(answer) if type(answer) is dict else list(range(len(answer)))
    floats = type(answer) is not dict and set(map(type, answer)) == {float}

    def read(values: Any) -> tuple[_Reader, str]:
        reader = _Reader(())
        like = dict(zip(keys, values)) if type(answer) is dict else type(answer)(values)
        return reader, reader.read(like)

    plain, _ = read([0.0 if floats else None] * len(keys))
    before = b"".join(plain.parts)[: -len(keys) * (8 if floats else 1)]
    # Whole numbers and None, so that it is no list of floats.
    places, _ = read([*map(float, range(len(keys) - 1)), None])
    order = [keys[-1 if x is ABSENT_NUMBER else int(x)] for x in places.numbers]
    return before, None if floats else order, _Reader(()).read(answer)


def _laid_out(answer: Any, layout: Any) -> tuple[str, bytes, list[float]]:
    before, order, kind = layout
    if order is None:
        numbers = list(answer)
        value = before + struct.pack(f"<{len(numbers)}d", *numbers)
    else:
        parts, numbers = [before], []
        for key in order:
            part, number = _one(answer[key])
            parts.append(part)
            numbers.append(number)
        value = b"".join(parts)
    marks = flags(numbers)
    return short(kind + marks), value, _plain(numbers) if marks else numbers


def _one(x: Any) -> tuple[bytes, float]:
    of = type(x)
    if of is float:
        return _FLOAT(b"f", x), x
    if of is int:
        return b"i" + _of_int(x), _number(x)
    if of is bool:
        return (b"t", 1.0) if x else (b"u", 0.0)
    return b"n", ABSENT_NUMBER


_FLOAT = struct.Struct("<cd").pack


def _of_int(value: int) -> bytes:
    return _sized(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def encode_raised(error: BaseException) -> tuple[str, bytes, list[float]]:
    """What can be told of an exception that a box raised, like `encode`.

    The kind is its class and its message without numbers; the numbers are those of the message.
    Addresses of objects are left out everywhere.
    """
    name = _name(type(error))
    try:
        text = str(error)
    except Exception:  # a message that cannot be made
        text = ""
    text = _ADDRESS.sub("0x", text)
    value = [b"!", _sized(name.encode()), _sized(_bytes_of(text))]
    found = [_float_of(number) for number in _NUMBER.findall(text[:MOST_READ])]
    words = _SEVERAL.sub("#", _NUMBER.sub("#", " ".join(text.split())))
    kind = RAISES + name + (": " + words if words else "")
    return short(kind), b"".join(value), found[:MOST_NUMBERS]


def code(text: str | bytes) -> int:
    """64 bits that stand for a text or bytes, the same in every process."""
    content = _bytes_of(text) if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


@lru_cache(maxsize=1 << 12)
def code_of_kind(kind: str) -> int:
    """64 bits that stand for a kind; the last one says whether it is an exception."""
    return code(kind) & ~1 | kind.startswith(RAISES)


def row(
    kind: str, value: bytes, numbers: Sequence[float], width: int, seconds: float = 0.0
) -> bytes:
    """One row of an array of answers as bytes: what `encode` gave, `width` numbers, and a time.

    Returns:
        8 × (3 + width) bytes, of 64-bit words with the least significant byte first.
    """
    padded = list(numbers[:width]) + [ABSENT_NUMBER] * (width - len(numbers))
    return struct.pack(f"<QQd{width}d", code_of_kind(kind), code(value), seconds, *padded)


def in_short(answer: Any) -> str | None:
    """A few words for an answer, where its class is one of Python's own; else None."""
    if type(answer) in (float, int, bool, str, bytes, type(None)):
        try:
            text = repr(answer)
        except ValueError:  # an integer of thousands of digits
            return None
        return text if len(text) <= 60 else text[:57] + "…"
    return None


MOST_READ = 1 << 12
"""Characters of a text in which numbers are looked for."""

MOST_ITEMS = 32
"""Of an answer that is told in words, those of its lists and tables among them."""

LONGEST = 120
"""Characters of it."""


def in_words(answer: Any) -> str | None:
    """The same, also for a few such values in lists, tuples, tables and arrays."""
    text = _in_words(answer, [MOST_ITEMS])
    return text if text is None or len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _in_words(answer: Any, left: list[int]) -> str | None:
    kind = type(answer)
    if kind.__module__ == "numpy" and hasattr(answer, "tolist"):
        if getattr(answer, "size", MOST_ITEMS + 1) > left[0]:
            return None
        answer = answer.tolist()
        kind = type(answer)
    if kind not in (list, tuple, dict, set, frozenset):
        return in_short(answer)
    left[0] -= len(answer)
    if left[0] < 0:
        return None
    parts = []
    for each in answer.items() if kind is dict else answer:
        texts = [_in_words(one, left) for one in (each if kind is dict else (each,))]
        if None in texts:
            return None
        parts.append(": ".join(map(str, texts)))
    if kind in (set, frozenset):
        parts.sort()  # their order means nothing
    brackets = "[]" if kind is list else "()" if kind is tuple else "{}"
    return brackets[0] + ", ".join(parts) + brackets[1]


def texts_in(answer: Any) -> dict[int, str]:
    """Short texts in a list or a table, by the codes that their markers are made of."""
    found: dict[int, str] = {}
    rest, seen = [answer], 0
    while rest and seen < MOST_ITEMS:
        value = rest.pop(0)
        seen += 1
        if type(value) is str:
            numbers, plain = numbers_in(value)
            found[code(plain if numbers else value)] = str(in_short(value))
        elif type(value) in (list, tuple):
            rest.extend(value[:MOST_ITEMS])
        elif type(value) is dict and len(value) <= MOST_ITEMS:
            rest.extend(value.values())
    return found


_CODE = ("function", "builtin_function_or_method", "method", "module")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:0x[0-9a-fA-F]+|(?:\d[\d_]*(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|nan\b|inf\b)(?!\w)",
)
_SEVERAL = re.compile(r"#(?:[\s,;]+#)+")


def _float_of(number: str) -> float:
    try:
        return float(number.replace(",", ""))
    except ValueError:  # hexadecimal
        return float(int(number.lstrip("+-"), 16) % (1 << 53))


def numbers_in(text: str) -> tuple[list[float], str]:
    """Numbers that are written in a text, as in a report or in JSON, and the text without them.

    A text of zeros and ones is a list of bits.
    """
    begin = text[:MOST_READ]
    if len(begin) > 1 and not begin.strip("01"):
        return [float(bit) for bit in begin], f"{len(text)} bits"
    found = [_float_of(number) for number in _NUMBER.findall(begin)]
    return found, _NUMBER.sub("#", text) if found else text


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def sized_prefix(length: int) -> bytes:
    """What stands before so many bytes, at most `WHOLE`."""
    return b"=" + struct.pack("<Q", length)


def _sized(content: bytes) -> bytes:
    if len(content) > WHOLE:
        digest = hashlib.blake2b(content, digest_size=32).digest()
        return b"#" + struct.pack("<Q", len(content)) + digest
    return sized_prefix(len(content)) + bytes(content)


def _name(kind: Any) -> str:
    """Of a class; modules are left out, since a box may be loaded under another name."""
    return str(getattr(kind, "__qualname__", kind.__name__)).rsplit("<locals>.", 1)[-1]


def short(kind: str) -> str:
    """A kind in words, cut where it is long; what is cut off still makes a difference."""
    if len(kind) <= MOST_TEXT:
        return kind
    return f"{kind[:MOST_TEXT]}… ({code(kind) >> 32:08x})"


def flags(numbers: list[float]) -> str:
    """Where the numbers are none, or infinite, in words."""
    total = sum(numbers)
    if total - total == 0:  # the fast way for most
        return ""
    found = []
    for what, where in (
        ("NaN", [i for i, x in enumerate(numbers, 1) if x != x and x is not ABSENT_NUMBER]),
        ("inf", [i for i, x in enumerate(numbers, 1) if x == _INF]),
        ("-inf", [i for i, x in enumerate(numbers, 1) if x == -_INF]),
    ):
        if where and len(numbers) == 1:
            return ", " + what
        if where and len(numbers) <= PLACES:
            found.append(what + " at " + ", ".join(map(str, where)))
        elif where:
            found.append(what)
    return " with " + " and ".join(found) if found else ""


_INF = float("inf")


def _plain(numbers: list[float]) -> list[float]:
    return [x if x == x or x is ABSENT_NUMBER else NAN for x in numbers]


def _number(x: Any) -> float:
    """The float nearest to a number of any size."""
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -sys.float_info.max


class _Reader:
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
        self.part(b"i", _of_int(value))
        self.add(_number(value))
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
        content = _bytes_of(value)
        self.part(b"s", _sized(content))
        found, rest = numbers_in(value)
        self.of_texts += found
        # A marker: the same for the same text, whatever numbers are in it.
        self.add(float(code(rest if found else content) >> 32))
        return "str"

    def bytes_(self, value: bytes) -> str:
        content = bytes(value)
        self.part(b"b", _sized(content))
        room = MOST_NUMBERS - len(self.numbers)
        for byte in content[: room // 8 + 1]:
            self.add_all([float(byte >> place & 1) for place in range(7, -1, -1)])
        return f"bytes of length {len(content)}"

    # What holds other values.

    def container(self, value: Any) -> str:
        kind = type(value)
        package = str(getattr(kind, "__module__", "")).split(".", 1)[0]
        if isinstance(value, type) or kind.__name__ in _CODE:
            self.part(b"q", _sized(_bytes_of(str(value.__name__))))
            return "the object " + str(value.__name__)
        if isinstance(value, dict):
            return self.table(value)
        if isinstance(value, (set, frozenset)):
            return self.group(value)
        if isinstance(value, (list, tuple)):
            return self.named_tuple(value) if hasattr(kind, "_fields") else self.row(value)
        if isinstance(value, (bytearray, memoryview)):
            self.part(b"C", _sized(_name(kind).encode()))
            return _name(kind) + " as " + self.bytes_(bytes(value))
        if isinstance(value, range):
            return "range, " + self.row([value.start, value.stop, value.step])
        if isinstance(value, array):
            self.part(b"r", _sized(value.typecode.encode()))
            return "array.array, " + self.row(value.tolist())
        return self.foreign(value, kind, package)

    def row(self, values: Any) -> str:
        self.part(b"L" if type(values) is list else b"T", struct.pack("<Q", len(values)))
        if type(values) not in (list, tuple):
            self.part(b"C", _sized(_name(type(values)).encode()))
        title = f"{_name(type(values))} of {len(values)}"
        return self.several(title, values)

    def several(self, title: str, values: Any) -> str:
        """Values one after the other; many floats at once."""
        kinds = set(map(type, values))
        if kinds == {float}:
            content = array("d", values)
            if sys.byteorder != "little":
                content.byteswap()
            self.part(b"F", _sized(content.tobytes()))
            self.add_all(list(values[:MOST_NUMBERS]))
            return title + " float"
        self.part(b"V")
        found = [self.read(value) for value in values]
        return title + _listed(found)

    def table(self, value: Any) -> str:
        """As it stands, since its order shows; but its numbers by sorted keys."""
        self.part(b"M", struct.pack("<Q", len(value)))
        if type(value) is not dict:
            self.part(b"C", _sized(_name(type(value)).encode()))
        keys = []
        for key in value:
            if type(key) is str:
                content = _bytes_of(key)
                keys.append((b"s" + _sized(content), repr(key).strip("'"), key))
                continue
            mine = self.aside()
            name = mine.read(key)
            label = in_short(key) or name
            keys.append((b"".join(mine.parts), label.strip("'"), key))
            self.count = mine.count
        self.part(b"K", _sized(b"".join(_sized(code_of) for code_of, _, _ in keys)))
        kinds = {}
        for code_of, _, key in sorted(keys, key=_place):
            kinds[code_of] = self.read(value[key])
        held = [f"{label}: {kinds[code_of]}" for code_of, label, _ in keys]
        return f"{_name(type(value))} ({', '.join(held)})"

    def group(self, value: Any) -> str:
        """Sorted, since the order of a set says nothing."""
        found = []
        for each in value:
            mine = self.aside()
            kind = mine.read(each)
            found.append((b"".join(mine.parts), kind, mine.numbers))
            self.count = mine.count
        found.sort(key=lambda one: one[0])
        self.part(b"S", _sized(_name(type(value)).encode()) + struct.pack("<Q", len(found)))
        for content, _, numbers in found:
            self.part(_sized(content))
            self.add_all(numbers)
        return f"{_name(type(value))} of {len(found)}" + _listed([k for _, k, _ in found])

    def aside(self) -> _Reader:
        """A reader of what lies within, of which the order is not known yet."""
        other = _Reader(self.attributes)
        other.open, other.count = list(self.open), self.count
        return other

    def named_tuple(self, value: Any) -> str:
        return self.fields(value, [(name, getattr(value, name)) for name in type(value)._fields])

    def fields(self, value: Any, pairs: list[tuple[str, Any]]) -> str:
        """An object by its fields, in their order."""
        self.part(b"O", _sized(_name(type(value)).encode()) + struct.pack("<Q", len(pairs)))
        held = []
        for name, each in pairs:
            self.part(_sized(str(name).encode("utf-8", "surrogatepass")))
            held.append(f"{name}: {self.read(each)}")
        return f"{_name(type(value))} ({', '.join(held)})"

    # What belongs to libraries, and objects.

    def foreign(self, value: Any, kind: Any, package: str) -> str:
        if package == "pandas" and kind.__name__ in ("NAType", "NaTType"):
            self.part(b"N", _sized(kind.__name__.encode()))
            self.add(ABSENT_NUMBER)
            return "missing"
        if package == "pandas" and hasattr(value, "columns") and hasattr(value, "index"):
            columns = [value.iloc[:, place] for place in range(len(value.columns))]
            return self.frame(value, list(value.columns), columns)
        if package == "pandas" and hasattr(value, "dtype") and hasattr(value, "to_numpy"):
            return self.column(value, _name(kind))
        if package == "pandas" and hasattr(value, "left") and hasattr(value, "closed"):
            parts = ("left", "right", "closed")
            return self.fields(value, [(part, getattr(value, part)) for part in parts])
        if package == "pyarrow":
            return self.arrow(value)
        if package == "polars" and hasattr(value, "get_columns"):
            return self.frame(value, list(value.columns), list(value.get_columns()))
        if package == "polars" and hasattr(value, "to_list"):
            return self.column(value, _name(kind))
        if package == "torch" and hasattr(value, "detach"):
            self.part(b"J", _sized(package.encode()))
            return package + " " + self.numpy(value.detach().cpu().numpy())
        if hasattr(value, "tocoo") and hasattr(value, "shape"):
            whole = value.tocoo()
            held = [("shape", tuple(map(int, value.shape))), ("row", whole.row)]
            return self.fields(value, [*held, ("col", whole.col), ("data", whole.data)])
        if package == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
            return self.numpy(value)
        if hasattr(value, "__array__") and not any(hasattr(value, a) for a in self.attributes):
            self.part(b"J", _sized(package.encode()))
            return _name(kind) + " as " + self.numpy(value.__array__())
        if isinstance(value, (Fraction, Decimal)):
            return self.ratio(value)
        if isinstance(value, Enum):
            return self.fields(value, [("name", value.name), ("value", value.value)])
        if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
            return self.moment(value)
        for base, method in _BASES:
            if isinstance(value, base):
                self.part(b"C", _sized(_name(kind).encode()))
                return _name(kind) + ", " + method(self, value)
        return self.object_(value)

    def arrow(self, value: Any) -> str:
        """What pyarrow has, as Python's own values."""
        described = str(getattr(value, "schema", getattr(value, "type", "")))
        self.part(b"Z", _sized(_name(type(value)).encode()) + _sized(_bytes_of(described)))
        for method in ("to_pydict", "to_pylist", "as_py"):
            if hasattr(value, method):
                return _name(type(value)) + " of " + self.read(getattr(value, method)())
        return self.object_(value)

    def object_(self, value: Any) -> str:
        if self.attributes and (known := [a for a in self.attributes if hasattr(value, a)]):
            return self.fields(value, [(name, getattr(value, name)) for name in known])
        names = getattr(type(value), "__dataclass_fields__", None)
        if names is None and isinstance(value, BaseException):
            return self.fields(value, [("args", value.args)])
        hidden = False
        if names is None:
            names = list(getattr(value, "__dict__", ()))
            for base in type(value).__mro__:
                slots = base.__dict__.get("__slots__", ())
                names += [slots] if isinstance(slots, str) else list(slots)
            hidden = any(n.startswith("_") and n not in ("__dict__", "__weakref__") for n in names)
            names = sorted(name for name in names if not name.startswith("_"))
        held = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
        plain = all(base.__flags__ & IN_PYTHON for base in type(value).__mro__[:-1])
        if held or (plain and not hidden):  # a class without anything in it says what it is
            return self.fields(value, held)
        if len(self.open) > 1:  # something inside of an object that tells more
            self.part(b"o", _sized(_name(type(value)).encode()))
            return _name(type(value))
        raise UnreadableError(
            f"it is an object of class {_name(type(value))}, which shows nothing: say in "
            "`attributes` what is read of it"
        )

    def ratio(self, value: Any) -> str:
        self.part(b"R", _sized(_name(type(value)).encode()) + _sized(str(value).encode()))
        none = isinstance(value, Decimal) and value.is_nan()
        self.add(NAN if none else _number(value))
        return _name(type(value))

    def moment(self, value: Any) -> str:
        self.part(b"W", _sized(_name(type(value)).encode()))
        self.part(_sized(str(value).encode()))
        if isinstance(value, datetime.timedelta):
            self.add(value.total_seconds())
        else:
            days = value.toordinal() if hasattr(value, "toordinal") else 0
            parts = [getattr(value, part, 0) for part in ("hour", "minute", "second")]
            seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
            self.add(days * 86400.0 + seconds + getattr(value, "microsecond", 0) / 1e6)
        return _name(type(value))

    def frame(self, value: Any, names: list[Any], columns: list[Any]) -> str:
        self.part(b"P", _sized(_name(type(value)).encode()) + struct.pack("<Q", len(columns)))
        held = []
        if hasattr(value, "index"):
            held.append("index: " + self.index(value.index))
        for name, column in zip(names, columns):
            mine = self.aside()
            mine.read(name)
            self.part(_sized(b"".join(mine.parts)))
            held.append(f"{in_short(name) or 'column'}: {self.column(column, '')}")
        return f"{_name(type(value))} ({'; '.join(held)})"

    def index(self, index: Any) -> str:
        if all(hasattr(index, name) for name in ("start", "stop", "step")):
            bounds = [int(index.start), int(index.stop), int(index.step)]
            self.part(b"x", _sized(repr(bounds).encode()))
            return f"{len(index)} rows"
        return self.column(index, "")

    def column(self, column: Any, title: str) -> str:
        """A series; as an array where it is numbers, else value by value."""
        dtype = str(column.dtype)
        categories = getattr(column.dtype, "categories", None)
        self.part(b"Y", _sized((title + " " + dtype).encode("utf-8", "surrogatepass")))
        if categories is not None:  # they show, also those that no row has
            known = list(categories.to_list() if hasattr(categories, "to_list") else categories)
            mine = self.aside()
            mine.several("", known)
            ordered = b"t" if getattr(column.dtype, "ordered", False) else b"u"
            self.part(ordered, _sized(b"".join(mine.parts)))
            self.count = mine.count
            dtype += " of " + ", ".join(in_short(each) or "…" for each in known[:PLACES])
        name = getattr(column, "name", None)
        if title:
            mine = self.aside()
            mine.read(name)
            self.part(_sized(b"".join(mine.parts)))
            if hasattr(column, "index"):
                self.index(column.index)
        values = column.to_list() if hasattr(column, "to_list") else column.to_numpy().tolist()
        return (
            (title + " " if title else "") + dtype + ", " + self.several(str(len(values)), values)
        )

    def numpy(self, value: Any) -> str:
        """An array or a scalar of NumPy, or something that looks like one."""
        dtype, shape = value.dtype, tuple(map(int, value.shape))
        if hasattr(value, "mask") and hasattr(value, "filled"):
            self.part(b"m")
            return "masked " + self.numpy(value.data) + ", mask " + self.numpy(value.mask)
        if hasattr(value, "__setitem__") and type(value).__name__ in ("matrix", "recarray"):
            self.part(b"j", _sized(_name(type(value)).encode()))
            return _name(type(value)) + ", " + self.numpy(value.__array__())
        scalar = not hasattr(value, "__setitem__") and not shape
        before, kind = of_array(dtype, shape, scalar)
        if dtype.names:
            self.part(b"H", _sized(repr((dtype.str, shape)).encode()))
            held = []
            for name in dtype.names:
                self.part(_sized(name.encode()))
                held.append(f"{name}: {self.numpy(value[name])}")
            return f"{kind} with {', '.join(held)}"
        if dtype.kind == "O":
            self.part(b"Q", _sized(repr(shape).encode()))
            return self.several(kind, value.ravel().tolist())
        content = value.tobytes()
        order = dtype.str[:1]
        if order == ">" or (order == "=" and sys.byteorder != "little"):
            content = value.astype(dtype.newbyteorder("<")).tobytes()
        self.part(before, _sized(content))
        self.add_all(_numbers_of(value, dtype))
        return kind


def of_array(dtype: Any, shape: tuple[int, ...], scalar: bool) -> tuple[bytes, str]:
    """What the value of an array begins with, and its kind as far as its numbers do not matter."""
    described = f"{dtype.kind}{dtype.itemsize} {dtype.name} {shape}"
    kind = f"{dtype.name} scalar" if scalar else f"{dtype.name} array of shape {shape}"
    return (b"a" if scalar else b"A") + _sized(described.encode()), kind


def _numbers_of(value: Any, dtype: Any) -> list[float]:
    """The first numbers of an array, in order."""
    flat = value.ravel()[:MOST_NUMBERS]
    if dtype.kind in "biuf":
        return [_number(x) for x in flat.astype("f8").tolist()]
    if dtype.kind == "c":
        return [part for x in flat.astype("c16").tolist() for part in (x.real, x.imag)]
    if dtype.kind in "mM":
        return [_number(x) for x in flat.view("i8").tolist()]
    if dtype.kind == "V":
        try:  # bfloat16 and its like
            return [float(x) for x in flat.astype("f8").tolist()]
        except (TypeError, ValueError):
            return []
    return [float(code(x if isinstance(x, bytes) else _bytes_of(x)) >> 32) for x in flat.tolist()]


def _place(key: tuple[bytes, str, Any]) -> tuple[bool, bytes, bytes]:
    """Where the numbers under a key stand: texts by the alphabet, then the rest."""
    content, _, value = key
    text = value if isinstance(value, str) else ""
    return type(value) is not str, _bytes_of(text), content


def _listed(kinds: list[str]) -> str:
    """What a sequence holds, in words."""
    if not kinds:
        return ""
    if len(set(kinds)) == 1:
        return " " + kinds[0]
    return " (" + ", ".join(kinds) + ")"


_PLAIN: dict[Any, Callable[[_Reader, Any], str]] = {
    type(None): _Reader.none,
    bool: _Reader.bool_,
    int: _Reader.int_,
    float: _Reader.float_,
    complex: _Reader.complex_,
    str: _Reader.str_,
    bytes: _Reader.bytes_,
}
_BASES: tuple[tuple[Any, Callable[[_Reader, Any], str]], ...] = (
    (bool, _Reader.bool_),
    (int, _Reader.int_),
    (float, _Reader.float_),
    (complex, _Reader.complex_),
    (str, _Reader.str_),
    (bytes, _Reader.bytes_),
)
