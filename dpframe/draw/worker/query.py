"""Ask a black box for its release without noise, and send its numbers exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from .frames import Frame

NUMBER = "a number"


class Refused(Exception):  # noqa: N818  # a message to the run
    """A property or an answer of a black box that cannot be used."""


class Queried(NamedTuple):
    """The answer of a query on one dataset."""

    raised: str | None  # the exception in words, without numbers; None if there was none
    form: str  # the structure of the answer, in words
    numbers: tuple[int | float | Fraction, ...]  # exact; NaN and infinities may be among them
    sensitivity: float | None = None  # as stated by a module in another interpreter


def ask(query: Callable[[], Any], sensitivity: Callable[[], Any] | None = None) -> Frame:
    """Call a query, which returns the release without noise, and a stated sensitivity.

    Returns:
        A message, which `parse_reply` reads.

    Raises:
        Refused: the query did not return numbers.
    """
    header: dict[str, Any] = {"reply": "queried", "raised": None, "form": ""}
    try:
        answer = query()
    except (Exception, SystemExit) as error:
        return Frame({**header, "raised": describe_error(error)})
    try:
        if sensitivity is not None:
            stated = numbers(sensitivity())[1]
            header["sensitivity"] = stated[0] if len(stated) == 1 else math.nan
        header["form"], header["numbers"] = numbers(answer)
    except TypeError as error:
        raise Refused(str(error)) from None
    return Frame(header)


def parse_reply(frame: Frame) -> Queried:
    """Read the message of `ask`; raise Refused if its answer is not made of numbers."""
    header = frame.header
    stated = header.get("sensitivity")
    try:
        values = tuple(map(_number, header.get("numbers", ())))
        sensitivity = None if stated is None else float(_number(stated))
    except (TypeError, ValueError, ArithmeticError):
        raise Refused(
            "a query must return numbers, but its answer contains something else"
        ) from None
    return Queried(header["raised"], header["form"], values, sensitivity)


def numbers(answer: Any) -> tuple[str, list[Any]]:
    """Return the structure of an answer, and the numbers in it in a fixed order.

    Args:
        answer: a number, or arrays, lists, tuples and dicts of numbers, or a data frame.

    Returns:
        Its form in words, the same for a list and an array of one axis; and its numbers: integers,
        floats (NaN and infinities included), and other rational numbers as pairs.

    Raises:
        TypeError: something in it is not a number.
    """
    values: list[Any] = []
    return _form(answer, values), values


def describe_error(error: BaseException) -> str:
    """Describe an exception by its type and its message without numbers."""
    message = re.sub(r"[-+]?\d[\d.,e+-]*", "#", str(error)).strip().split("\n")[0][:200]
    return type(error).__name__ + (f": {message}" if message else "")


def _number(value: Any) -> int | float | Fraction:
    if isinstance(value, (int, float)):
        return value
    return Fraction(*value)


def _form(answer: Any, values_read: list[Any]) -> str:
    if answer is None:
        return "None"
    if isinstance(answer, (bool, int)):
        values_read.append(int(answer))
        return NUMBER
    if isinstance(answer, float):
        values_read.append(float(answer))
        return NUMBER
    if isinstance(answer, dict):
        parts = [f"{key}: {_form(answer[key], values_read)}" for key in sorted(answer, key=str)]
        return "{" + ", ".join(parts) + "}"
    if hasattr(answer, "to_numpy") and not hasattr(answer, "tolist"):  # a data frame
        answer = answer.to_numpy()
    if hasattr(answer, "shape") and hasattr(answer, "tolist"):
        shape, values = tuple(map(int, answer.shape)), answer.tolist()
        if shape:
            _flat(values, values_read)
            return f"shape {shape}"
        # NumPy's `tolist` returns the scalar itself if Python has no type for it.
        return (
            _rational(values, values_read)
            if hasattr(values, "shape")
            else _form(values, values_read)
        )
    if isinstance(answer, (list, tuple)):
        forms = [_form(part, values_read) for part in answer]
        if all(form == NUMBER for form in forms):
            return f"shape ({len(forms)},)"
        return "[" + ", ".join(forms) + "]"
    return _rational(answer, values_read)


def _flat(values: Any, values_read: list[Any]) -> None:
    for value in values:
        if isinstance(value, list):
            _flat(value, values_read)
        elif _form(value, values_read) != NUMBER:
            raise TypeError("an array that a query returns must contain numbers")


def _rational(answer: Any, values_read: list[Any]) -> str:
    ratio = getattr(answer, "as_integer_ratio", None)
    if isinstance(answer, (str, bytes, complex)) or ratio is None:
        raise TypeError(f"a query must return numbers, not {type(answer).__name__}")
    try:
        above, below = ratio()
    except (ValueError, OverflowError):  # not finite
        values_read.append(float(answer))
        return NUMBER
    values_read.append((int(above), int(below)))
    return NUMBER
