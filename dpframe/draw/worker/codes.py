"""Codes of 64 bits for kinds and values, and kinds, values and texts in words.

Nothing here depends on the process: no `hash`, no `id`, no `repr` of an object of unknown class.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from hashlib import blake2b
from struct import pack, unpack
from typing import Any

ABSENT = 0x7FF80000_0000AB5E  # bits of the NaN that fills a row beyond the numbers of an answer

ABSENT_NUMBER: float = unpack("<d", pack("<Q", ABSENT))[0]
"""`ABSENT` as a float; distinguished from other NaNs by identity."""

NAN: float = unpack("<d", pack("<Q", 0x7FF80000_00000000))[0]
"""Replaces every NaN among the numbers of an answer; the exact value keeps the bits of each."""

MOST_NUMBERS = 8192  # of one answer; further numbers are only part of its exact value
WHOLE = 1 << 16  # bytes; a longer text or array enters the exact value by its digest


class UnreadableError(Exception):
    """An answer that cannot be encoded."""


def code(text: str | bytes) -> int:
    """Return 64 bits that stand for a text or bytes, the same in every process."""
    content = bytes_of(text) if isinstance(text, str) else text
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def bytes_of(text: str) -> bytes:
    """Encode a text that may hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def sized_prefix(length: int) -> bytes:
    """Return what precedes content of `length` bytes, at most `WHOLE`."""
    return b"=" + pack("<Q", length)


def sized(content: bytes) -> bytes:
    """Return bytes, or the digest of many, with their length before them."""
    if len(content) > WHOLE:
        return b"#" + pack("<Q", len(content)) + blake2b(content, digest_size=32).digest()
    return sized_prefix(len(content)) + content


def number_of(x: Any) -> float:
    """Return the finite float nearest to a number of any size; NaN and infinities stay."""
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -sys.float_info.max


# Kinds of answers in words.

RAISES = "raises "  # the kind of every exception begins with it, and no other kind does
UNREADABLE = ", unreadable"  # ends the kind of every answer whose type alone is known
MOST_TEXT = 240  # characters of a kind
PLACES = 16  # a kind names the places of NaN and infinities among at most this many numbers


@lru_cache(maxsize=1 << 12)
def code_of_kind(kind: str) -> int:
    """Return 64 bits that stand for a kind; the last marks exceptions and unreadable answers."""
    return code(kind) & ~1 | (kind.startswith(RAISES) or kind.endswith(UNREADABLE))


def code_of_trace(kind: int) -> int:
    """Return the code of an exception's traceback, given the code of its kind."""
    return code(b"trace" + pack("<Q", kind))


def code_of_print(value: int) -> int:
    """Return the code of the text that a release printed, given the code of its value."""
    return code(b"print" + pack("<Q", value))


@lru_cache(maxsize=256)
def code_of_part(path: str) -> int:
    """Return the code of the path to a part of answers."""
    return code("part" + path)


def code_of_slip(kind: int) -> int:
    """Return the code of the slip that an exception shows, given the code of its kind."""
    return code(b"slip" + pack("<Q", kind))


def name_of(kind: Any) -> str:
    """Return the name of a class without its module, which differs between interpreters."""
    return str(getattr(kind, "__qualname__", kind.__name__)).rsplit("<locals>.", 1)[-1]


def short(kind: str) -> str:
    """Shorten a long kind; a digest of the whole keeps kinds different."""
    if len(kind) <= MOST_TEXT:
        return kind
    return f"{kind[:MOST_TEXT]}… ({code(kind) >> 32:08x})"


def flags(numbers: list[float]) -> str:
    """Describe which numbers are NaN or infinite."""
    total = sum(numbers)
    if total - total == 0:  # the fast way for most
        return ""
    places: dict[str, list[str]] = {"nan": [], "inf": [], "-inf": []}
    for place, x in enumerate(numbers, 1):
        if x - x != 0 and x is not ABSENT_NUMBER:
            places[repr(x)].append(str(place))
    names = [name.replace("nan", "NaN") for name, where in places.items() if where]
    if len(numbers) == 1:
        return "".join(", " + name for name in names)
    if len(numbers) <= PLACES:
        where = filter(None, places.values())
        names = [f"{name} at {', '.join(each)}" for name, each in zip(names, where)]
    return " with " + " and ".join(names) if names else ""


def plain(numbers: list[float]) -> list[float]:
    """Replace every NaN of the answer by `NAN`."""
    return [x if x == x or x is ABSENT_NUMBER else NAN for x in numbers]


# Numbers that are written in texts, such as messages, reports and JSON.

_MOST_READ = 1 << 12  # characters of a text in which numbers are looked for
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:0x[0-9a-fA-F]+|(?:\d[\d_]*(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|nan\b|inf\b)(?!\w)",
)


def numbers_in(text: str, bits: bool = True) -> tuple[list[float], str]:
    """Return the numbers written in a text, and the text without them.

    With `bits`, a text of zeros and ones is a list of bits.
    """
    begin = text[:_MOST_READ]
    if bits and len(begin) > 1 and not begin.strip("01"):
        return [float(bit) for bit in begin], f"{len(text)} bits"
    numbers = [_float_of(number) for number in _NUMBER.findall(begin)]
    return numbers, _NUMBER.sub("#", text) if numbers else text


def _float_of(number: str) -> float:
    try:
        return float(number.replace(",", ""))
    except ValueError:  # hexadecimal
        return float(int(number.lstrip("+-"), 16) % (1 << 53))


# Short answers, and texts in answers, in words.

LONGEST = 120  # characters of an answer in words
_MOST_ITEMS = 32  # values in an answer that is described, those of its lists and tables included
_SIMPLE = (float, int, bool, str, bytes, type(None))
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: "{}"}


def in_short(answer: Any) -> str | None:
    """Describe a value of Python's simple types; None for any other."""
    if type(answer) in _SIMPLE:
        try:
            text = repr(answer)
        except ValueError:  # an integer of thousands of digits
            return None
        return text if len(text) <= 60 else text[:57] + "…"
    return None


def in_words(answer: Any) -> str | None:
    """Describe a simple value, or a few of them in lists, tuples, tables, sets and arrays."""
    text = _in_words(answer, [_MOST_ITEMS])
    return text if text is None or len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _in_words(answer: Any, left: list[int]) -> str | None:
    if type(answer).__module__ == "numpy" and getattr(answer, "size", left[0] + 1) <= left[0]:
        answer = answer.tolist()
    kind = type(answer)
    if kind not in _BRACKETS:
        return in_short(answer)
    left[0] -= len(answer)
    if left[0] < 0:
        return None
    items = answer.items() if kind is dict else [(one,) for one in answer]
    parts = []
    for item in items:
        texts = [text for text in (_in_words(one, left) for one in item) if text is not None]
        if len(texts) < len(item):
            return None
        parts.append(": ".join(texts))
    if kind in (set, frozenset):
        parts.sort()  # their order means nothing
    return _BRACKETS[kind][0] + ", ".join(parts) + _BRACKETS[kind][1]


def texts_in(answer: Any) -> dict[int, str]:
    """Return the short texts in a list or a table, by the code of each text."""
    texts: dict[int, str] = {}
    values_left = [answer]
    for value in values_left:
        if type(value) is str:
            numbers, without = numbers_in(value)
            texts[code(without if numbers else value)] = str(in_short(value))
        elif type(value) in (list, tuple, dict) and len(values_left) < _MOST_ITEMS:
            values_left += [*(value.values() if type(value) is dict else value)][
                : _MOST_ITEMS - len(values_left)
            ]
    return texts
