"""Numbers in the answer of a query, exactly, as text."""

from __future__ import annotations

import re
from typing import Any

NUMBER = "a number"


def numbers(answer: Any) -> tuple[str, list[str]]:
    """How an answer is made up, and the numbers in it in a fixed order.

    Args:
        answer: a number, or arrays, lists, tuples and dicts of numbers, or a data frame.

    Returns:
        Its form in words, the same for a list and an array of one axis; and its numbers: integers
        in digits, floats as `float.hex` writes them (`nan`, `inf` and `-inf` included), other
        rational numbers as `a/b`.

    Raises:
        TypeError: something in it is no number.
    """
    found: list[str] = []
    return _form(answer, found), found


def told(error: BaseException) -> str:
    """An exception as one of its kind: with the numbers in its message taken out."""
    message = re.sub(r"[-+]?\d[\d.,e+-]*", "#", str(error)).strip().split("\n")[0][:200]
    return type(error).__name__ + (f": {message}" if message else "")


def _form(answer: Any, found: list[str]) -> str:
    if answer is None:
        return "None"
    if isinstance(answer, (bool, int)):
        found.append(str(int(answer)))
        return NUMBER
    if isinstance(answer, float):
        found.append(float(answer).hex())
        return NUMBER
    if isinstance(answer, dict):
        parts = [f"{key}: {_form(answer[key], found)}" for key in sorted(answer, key=str)]
        return "{" + ", ".join(parts) + "}"
    if hasattr(answer, "shape") and hasattr(answer, "tolist"):
        return _array(answer, found)
    if hasattr(answer, "to_numpy"):
        return _array(answer.to_numpy(), found)
    if isinstance(answer, (list, tuple)):
        forms = [_form(part, found) for part in answer]
        if all(form == NUMBER for form in forms):
            return f"shape ({len(forms)},)"
        return "[" + ", ".join(forms) + "]"
    return _rational(answer, found)


def _array(array: Any, found: list[str]) -> str:
    shape = tuple(array.shape)
    if not shape:
        inner = array.tolist()
        # Of a number that Python has no type for NumPy gives the number itself.
        return _rational(inner, found) if hasattr(inner, "shape") else _form(inner, found)
    _flat(array.tolist(), found)
    return f"shape ({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _flat(values: Any, found: list[str]) -> None:
    for value in values:
        if isinstance(value, list):
            _flat(value, found)
        elif _form(value, found) != NUMBER:
            raise TypeError("an array of a query holds numbers")


def _rational(answer: Any, found: list[str]) -> str:
    ratio = getattr(answer, "as_integer_ratio", None)
    if isinstance(answer, (str, bytes, complex)) or ratio is None:
        raise TypeError(f"a query gives numbers, not {type(answer).__name__}")
    try:
        above, below = ratio()
    except (ValueError, OverflowError):  # not finite
        found.append(float(answer).hex())
        return NUMBER
    found.append(f"{int(above)}/{int(below)}")
    return NUMBER
