"""Exact bytes of values, the 64-bit codes made of them, and kinds and values in words."""

from __future__ import annotations

import os
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
        digest = blake2b(content, digest_size=32).digest()
        return b"#" + pack("<Q", len(content)) + digest
    return sized_prefix(len(content)) + bytes(content)


def of_int(value: int) -> bytes:
    """Encode an integer of any size."""
    return sized(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def number_of(x: Any) -> float:
    """Return the finite float nearest to a number of any size; NaN and infinities stay."""
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -sys.float_info.max


# Kinds of answers in words.

RAISES = "raises "  # the kind of every exception begins with it, and no other kind does
UNREADABLE = ", unreadable"  # ends the kind of every answer whose type alone is known
_MOST_TEXT = 240  # characters of a kind
PLACES = 16  # a kind names the places of NaN and infinities among at most this many numbers
_INF = float("inf")


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


def code_of_slip(kind: int) -> int:
    """Return the code of what `slip_of` says of an exception, given the code of its kind."""
    return code(b"slip" + pack("<Q", kind))


def name_of(kind: Any) -> str:
    """Return the name of a class without its module, which differs between interpreters."""
    if kind is dict or kind is list or kind is tuple:
        return str(kind.__name__)
    return str(getattr(kind, "__qualname__", kind.__name__)).rsplit("<locals>.", 1)[-1]


def short(kind: str) -> str:
    """Shorten a long kind; a digest of the whole keeps kinds different."""
    if len(kind) <= _MOST_TEXT:
        return kind
    return f"{kind[:_MOST_TEXT]}… ({code(kind) >> 32:08x})"


def flags(numbers: list[float]) -> str:
    """Describe which numbers are NaN or infinite."""
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


def plain(numbers: list[float]) -> list[float]:
    """Replace every NaN of the answer by `NAN`."""
    return [x if x == x or x is ABSENT_NUMBER else NAN for x in numbers]


def listed(kinds: list[str]) -> str:
    """Name the kinds of the items of a sequence."""
    if not kinds:
        return ""
    if len(set(kinds)) == 1:
        return " " + kinds[0]
    return " (" + ", ".join(kinds) + ")"


# Numbers that are written in texts, such as messages, reports and JSON.

_MOST_READ = 1 << 12  # characters of a text in which numbers are looked for
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
    """Return the numbers written in a text, and the text without them.

    A text of zeros and ones is a list of bits.
    """
    begin = text[:_MOST_READ]
    if len(begin) > 1 and not begin.strip("01"):
        return [float(bit) for bit in begin], f"{len(text)} bits"
    found = [_float_of(number) for number in _NUMBER.findall(begin)]
    return found, _NUMBER.sub("#", text) if found else text


_PACKAGE = os.path.abspath(__file__)
for _ in ("answer_encoding", "program", "workers", "dpframe"):
    _PACKAGE = os.path.dirname(_PACKAGE)
_AUTHORS = os.path.join(_PACKAGE, "builtin") + os.sep
_MOST_STEPS = 6  # of a traceback
_MOST_SAID = 300  # characters of a message


def encode_raised(
    error: BaseException, *, messages: bool = False
) -> tuple[str, bytes, list[float]]:
    """Encode an exception that a mechanism raised, like `encode`.

    The kind is its class and the line that raised it. A message may contain the data, so it counts
    only if `messages` is True: then its text without numbers is part of the kind, and its numbers
    are those of the answer. Addresses of objects are always left out.
    """
    name, place = name_of(type(error)), place_of(error)
    kind = RAISES + name + (" at " + place if place else "")
    parts = b"!" + sized(name.encode())
    if not messages:
        return short(kind), parts + sized(bytes_of(place)), []
    text = _ADDRESS.sub("0x", _message(error))
    found = [_float_of(number) for number in _NUMBER.findall(text[:_MOST_READ])]
    words = _SEVERAL.sub("#", _NUMBER.sub("#", " ".join(text.split())))
    kind += ": " + words if words else ""
    parts += sized(bytes_of(text)) + (sized(bytes_of(place)) if place else b"")
    return short(kind), parts, found[:MOST_NUMBERS]


def encode_unreadable(answer: Any) -> tuple[str, bytes, list[float]]:
    """Encode an answer by its type alone, like `encode`."""
    name = name_of(type(answer))[:_MOST_TEXT]
    return name + UNREADABLE, b"?" + sized(bytes_of(name)), []


def place_of(error: BaseException) -> str:
    """Return file and line that raised an exception, like `sums.py:14`; "" if it is arbitrary.

    Recursion errors and timeouts may be raised at any line.
    """
    steps = [] if isinstance(error, RecursionError) else _steps(error)
    return "" if not steps or _is_ours(steps[-1][0]) else "{}:{}".format(*_named(*steps[-1]))


MISSPELT = "misspelt"  # a name, a module or a line that does not exist, in the user's own code
MISSPELT_ELSEWHERE = "misspelt elsewhere"  # the same, in an installed package
OWN = "own"  # an exception that mistakes raise, in the user's own code
_MISTAKES = (TypeError, AttributeError, IndexError, KeyError, UnboundLocalError)
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = ("site-packages", "dist-packages")


def slip_of(error: BaseException) -> str:
    """Return the kind of mistake in the function that calls a mechanism; "" if it is none."""
    missing = isinstance(error, (ImportError, SyntaxError))
    missing = missing or (isinstance(error, NameError) and not isinstance(error, UnboundLocalError))
    if isinstance(error, AttributeError):
        missing = isinstance(getattr(error, "obj", None), type(os))
    steps = _steps(error)
    while missing and steps and steps[-1][0].f_code.co_name == "__getattr__":
        steps.pop()  # of a module that lacks the name
    while isinstance(error, LookupError) and steps and _is_table(steps[-1][0]):
        steps.pop()  # the user's own key or index, as in a dict or a list
    file = _file_of(steps[-1][0]) if steps else ""
    library = file.startswith((_LIBRARY, "<frozen")) or any(one in file for one in _INSTALLED)
    if missing:
        return MISSPELT_ELSEWHERE if library else MISSPELT
    unpacked = isinstance(error, ValueError) and "values to unpack" in _message(error)
    return OWN if (unpacked or isinstance(error, _MISTAKES)) and not library else ""


def _is_table(frame: Any) -> bool:
    """True if the code of a frame is that of a library of tables or arrays."""
    return any(f"{os.sep}{name}{os.sep}" in _file_of(frame) for name in ("pandas", "polars"))


def traced(error: BaseException) -> str:
    """Describe an exception by its class, its message and the last steps that led to it."""
    said = " ".join(_message(error).split())[:_MOST_SAID]
    told = name_of(type(error)) + (": " + said if said else "")
    steps = [
        "{}:{} in {}".format(*_named(frame, line), frame.f_code.co_name)
        for frame, line in _steps(error)
        if not _is_ours(frame)
    ]
    return told + (f" ({' → '.join(steps[-_MOST_STEPS:])})" if steps else "")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a message that cannot be made
        return ""


def _steps(error: BaseException) -> list[tuple[Any, int]]:
    """Return frame and line of each step of a traceback, the innermost last."""
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _file_of(frame: Any) -> str:
    """Return the path of a frame's code; of code that was sent, that of its module."""
    file = str(frame.f_code.co_filename)
    return str(frame.f_globals.get("__file__") or file) if file == _SENT else file


_SENT = "<dynamic-code>"  # the name that cloudpickle gives to the file of functions that it sends


def _is_ours(frame: Any) -> bool:
    file = _file_of(frame)
    return file.startswith(_PACKAGE + os.sep) and not file.startswith(_AUTHORS)


def _named(frame: Any, line: int) -> tuple[str, int]:
    """Return a file's path within its package, and the line."""
    file = _file_of(frame)
    if file.startswith("<"):  # made by code, perhaps with a counter or an address in its name
        return re.sub(r"(0x[0-9a-f]+|\d+)", "#", file), line
    parts = file.replace("\\", "/").split("/")
    depth = str(frame.f_globals.get("__name__", "")).count(".") + 1
    depth += parts[-1] == "__init__.py"
    return "/".join(parts[-depth:]), line


# Short answers, and texts in answers, in words.

LONGEST = 120  # characters of an answer in words
_MOST_ITEMS = 32  # values in an answer that is described, those of its lists and tables included


def in_short(answer: Any) -> str | None:
    """Describe a value of Python's simple types; None for any other."""
    if type(answer) in (float, int, bool, str, bytes, type(None)):
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
    kind = type(answer)
    if kind.__module__ == "numpy" and hasattr(answer, "tolist"):
        if getattr(answer, "size", _MOST_ITEMS + 1) > left[0]:
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
    """Return the short texts in a list or a table, by the code of each text."""
    found: dict[int, str] = {}
    rest, seen = [answer], 0
    while rest and seen < _MOST_ITEMS:
        value = rest.pop(0)
        seen += 1
        if type(value) is str:
            numbers, plain = numbers_in(value)
            found[code(plain if numbers else value)] = str(in_short(value))
        elif type(value) in (list, tuple):
            rest.extend(value[:_MOST_ITEMS])
        elif type(value) is dict and len(value) <= _MOST_ITEMS:
            rest.extend(value.values())
    return found
