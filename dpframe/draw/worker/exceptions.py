"""Exceptions as answers: their class, the line that raised them, and mistakes that they show."""

from __future__ import annotations

import os
import re
from traceback import walk_tb
from typing import Any

from .codes import MOST_NUMBERS, RAISES, bytes_of, name_of, numbers_in, short, sized

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_AUTHORS = os.path.join(_PACKAGE, "builtin") + os.sep
_MOST_STEPS = 6  # of a traceback
_MOST_MESSAGE = 300  # characters
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
_SEVERAL = re.compile(r"#(?:[\s,;]+#)+")
_SENT = "<dynamic-code>"  # the name that cloudpickle gives to the file of functions that it sends


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
    numbers, _ = numbers_in(text, bits=False)
    words = _SEVERAL.sub("#", numbers_in(" ".join(text.split()), bits=False)[1])
    kind += ": " + words if words else ""
    parts += sized(bytes_of(text)) + (sized(bytes_of(place)) if place else b"")
    return short(kind), parts, numbers[:MOST_NUMBERS]


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
_TABLES = (f"{os.sep}pandas{os.sep}", f"{os.sep}polars{os.sep}")


def slip_of(error: BaseException) -> str:
    """Return the kind of mistake in the function that calls a mechanism; "" if it is none."""
    missing = isinstance(error, (ImportError, SyntaxError))
    missing = missing or (isinstance(error, NameError) and not isinstance(error, UnboundLocalError))
    if isinstance(error, AttributeError):
        missing = isinstance(getattr(error, "obj", None), type(os))
    steps = _steps(error)
    while missing and steps and steps[-1][0].f_code.co_name == "__getattr__":
        steps.pop()  # of a module that lacks the name
    files = [_file_of(frame) for frame, _ in steps]
    while isinstance(error, LookupError) and files and any(one in files[-1] for one in _TABLES):
        files.pop()  # the user's own key or index, as in a dict or a list
    file = files[-1] if files else ""
    library = file.startswith((_LIBRARY, "<frozen")) or any(one in file for one in _INSTALLED)
    if missing:
        return MISSPELT_ELSEWHERE if library else MISSPELT
    unpacked = isinstance(error, ValueError) and "values to unpack" in _message(error)
    return OWN if (unpacked or isinstance(error, _MISTAKES)) and not library else ""


def traced(error: BaseException) -> str:
    """Describe an exception by its class, its message and the last steps that led to it."""
    message = " ".join(_message(error).split())[:_MOST_MESSAGE]
    steps = [
        "{}:{} in {}".format(*_named(frame, line), frame.f_code.co_name)
        for frame, line in _steps(error)
        if not _is_ours(frame)
    ]
    trace = f" ({' → '.join(steps[-_MOST_STEPS:])})" if steps else ""
    return name_of(type(error)) + (": " + message if message else "") + trace


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a message that cannot be made
        return ""


def _steps(error: BaseException) -> list[tuple[Any, int]]:
    """Return frame and line of each step of a traceback, the innermost last."""
    return list(walk_tb(error.__traceback__))


def _file_of(frame: Any) -> str:
    """Return the path of a frame's code; of code that was sent, that of its module."""
    file = str(frame.f_code.co_filename)
    return str(frame.f_globals.get("__file__") or file) if file == _SENT else file


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
