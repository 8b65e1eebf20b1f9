"""Trial calls: one call of a user's code, with a description of its answer in plain values.

Plain Python from 3.8 on, without dpframe and without NumPy, so that it runs beside any library.
"""

from __future__ import annotations

import itertools
import math
import os
import traceback
from typing import Any, Callable

LONGEST = 100
"""Characters of an answer in a message, at most."""

MOST_KEYS = 4
"""Unknown keys of an answer in a message, at most."""

MOST_OTHER = 64
"""Unknown keys of an answer that get features of their own, at most."""

MISSING = ("None", "nan", "<NA>", "NaT")
"""Missing values as texts."""

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def trial(call: Callable[[], Any], read: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Call once.

    Returns:
        `raised` with the exception and its line, and `classes`, the names of its classes; or
        `sample`, the answer as a short text, with what `read` returns.
    """
    try:
        answer = call()
        if hasattr(answer, "__next__"):  # a generator, which can be read once
            answer = list(answer)
    except Exception as error:
        return {"raised": told(error), "classes": [one.__name__ for one in type(error).__mro__]}
    try:
        found = read(answer)
    except Exception as error:
        found = {"unreadable": f"{type(error).__name__}: {error}"}
    return {"sample": shown(answer), **found}


def read_by(query: Any, keys: list[list[Any]], queries: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a function that describes an answer to a query; `queries` is the module."""

    def read(answer: Any) -> dict[str, Any]:
        found = queries.read_answer(answer, query, keys)
        cells = [cell for cells in found.values.values() for cell in cells]
        numbers = [queries.number(cell) for cell in cells]
        odd = [c for c, x in zip(cells, numbers) if math.isnan(x) and str(c) not in MISSING]
        if not query.values:  # only keys
            numbers = [float(found.rows)]
        unknown = [key for key in found.unknown if key]
        return {
            "is none": answer is None,
            "values": [x for x in numbers if not math.isnan(x)],
            "unreadable": shown(odd[0]) if odd else None,
            "known": len(found.values),
            "other keys": [list(map(_plain, key)) for key in unknown[:MOST_OTHER]],
            "unknown": [", ".join(map(repr, key)) for key in itertools.islice(unknown, MOST_KEYS)],
        }

    return read


def _plain(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, (str, int, float, bool)) else str(cell)


def shown(value: Any) -> str:
    """Return a value as a short text on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def told(error: BaseException) -> str:
    """Describe an exception by its class, its message and the line of user code that led to it."""
    try:
        message = " ".join(str(error).split())[: 2 * LONGEST]
    except Exception:
        message = ""
    steps = [step for step in traceback.extract_tb(error.__traceback__) if not _is_ours(step)]
    first = steps[:1]
    own = [step for step in steps if first and step.filename == first[0].filename]
    place = f" at {os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__}{': ' + message if message else ''}{place}"


def _is_ours(step: traceback.FrameSummary) -> bool:
    return os.path.abspath(step.filename).startswith(_HERE + os.sep)
