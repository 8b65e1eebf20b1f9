"""Collect every mistake in a spec and describe it with its place and a remedy."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dpframe.common.text import closest, cut, did_you_mean, escape, listed
from dpframe.errors import SpecError
from dpframe.spec.document import Document, dotted, holds
from dpframe.spec.document import Path as Place

Hint = str | Callable[[], str]
"""Further lines of a message; a function makes them only if they are shown."""

_SHOWN = 50  # mistakes that are shown; the others are only counted
_LONGEST_LINE = 100
_LONGEST_VALUE = 60


class _Problem(NamedTuple):
    line: int | None
    head: str
    hints: tuple[Hint, ...]


class Problems:
    """The mistakes found so far in one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: dict[str, _Problem] = {}  # by the first line of the message

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def folder(self) -> Path:
        """The folder of the document, which named files are relative to."""
        return Path(self._document.path).parent if self._document.path else Path()

    def add(self, path: Place, message: str, *hints: Hint, option: str | None = None) -> None:
        """Add a mistake; the same message at the same place counts once.

        Args:
            path: its place; the longest part of the path that the text has gives the line.
            message: what is wrong, without the place.
            hints: further lines, such as `accepts` gives; empty ones are left out.
            option: the command-line option that is wrong; default: what has set the path, if
                any did.
        """
        option = option or self._document.origin(path)
        line = None if option else self._document.line(path)
        where = cut(option) if option else place(self._document.path, line)
        head = escape(": ".join(part for part in (where, dotted(path), message) if part))
        self._found.setdefault(head, _Problem(line, head, hints))

    def raise_if_any(self) -> None:
        """Raise SpecError with all of them, in the order of the file."""
        if self._found:
            in_order = sorted(self._found.values(), key=lambda problem: problem.line or 0)
            raise SpecError([self._worded(problem) for problem in in_order[:_SHOWN]], len(in_order))

    def _worded(self, problem: _Problem) -> str:
        lines = [problem.head]
        if problem.line is not None:
            lines.append(quote(problem.line, self._document.locator.lines[problem.line - 1]))
        for hint in problem.hints:
            worded = hint if isinstance(hint, str) else hint()
            lines += [f"   {escape(line)}" for line in worded.split("\n") if line]
        return "\n".join(lines)


def place(path: str, line: int | None) -> str:
    """Return `file:line`, or as much of it as is known."""
    return f"{path}:{line}" if line is not None else path


def quote(number: int, text: str) -> str:
    """Return a line of the spec with its number, cut and without control characters."""
    start = text[: _LONGEST_LINE + 1]
    shown = "".join(char if char.isprintable() else " " for char in start)
    return f"{number:>5} | {cut(shown, _LONGEST_LINE).rstrip()}"


def accepts(known: Iterable[str], wrong: object = None) -> Callable[[], str]:
    """Return a function that lists the allowed names and suggests a similar one."""
    names = known if isinstance(known, tuple | dict) else tuple(known)
    return lambda: f"accepts: {listed(names) or 'nothing'}{did_you_mean(names, wrong)}"


def describe(params: Mapping[str, Any]) -> str:
    """Return parameters as text, `name = value`."""
    return listed(f"{name} = {show(value)}" for name, value in params.items())


def show(value: Any) -> str:
    """Return a value as a spec would have it, cut if it is long."""
    if isinstance(value, str):
        value = value[: _LONGEST_VALUE + 1]
    text = ""
    for part in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        text += part[: _LONGEST_VALUE + 1]
        if len(text) > _LONGEST_VALUE:
            break
    return cut(text, _LONGEST_VALUE)


_MISSING = {"missing", "missing_argument", "missing_keyword_only_argument"}
_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}
_EMPTY = {"string_too_short", "too_short"}
_KINDS_OF_VALUE = {
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "float_type": "should be a number",
    "int_type": "should be an integer",
    "string_type": "should be a string",
    "bool_type": "should be true or false",
    "finite_number": "should be finite",
    "string_pattern_mismatch": "should be letters, digits, blanks and the characters . + - _",
    "string_too_short": "should not be empty",
    "too_short": "should not be empty",
}
_MOST_WHOLE = 2**53  # larger floats are always whole, whatever was meant


class Finding(NamedTuple):
    """One mistake that pydantic found, relative to what was validated."""

    path: Place
    message: str
    hint: Hint = ""
    unknown: bool = False  # the key is not allowed; leaving it out corrects the table
    missing: str | None = None  # the missing key; `path` is then the place of its table


def findings(error: ValidationError, value: Any, noun: str, owner: str = "") -> list[Finding]:
    """Describe the mistakes in a value in the terms of a spec, one per place.

    Args:
        error: the error of pydantic.
        value: the validated value.
        noun: the word for a key, "key" or "parameter".
        owner: the owner of the keys, for example " of mechanism 'laplace'".
    """
    found: dict[tuple[Place, str | None], Finding] = {}
    unknown: dict[Place, list[str]] = {}
    for details in error.errors(include_url=False):
        finding = _finding(details, value, noun, owner)
        known = found.setdefault((finding.path, finding.missing), finding)
        if known.message != finding.message:  # the members of a union, each with its complaint
            message = f"{known.message}, or {finding.message}"
            found[finding.path, finding.missing] = known._replace(message=message)
        if finding.unknown:
            unknown.setdefault(finding.path[:-1], []).append(str(finding.path[-1]))
    # A missing `epsilon` and an unknown `epsilom` are one mistake.
    return [
        one
        for one in found.values()
        if not (one.missing and closest(unknown.get(one.path, ()), one.missing))
    ]


def _finding(details: ErrorDetails, value: Any, noun: str, owner: str) -> Finding:
    kind, path = details["type"], _existing(value, details["loc"])
    if kind in _MISSING:
        name = str(details["loc"][-1])
        return Finding(path, f"{noun} {name!r}{owner} is missing", missing=name)
    if kind in _UNKNOWN:
        return Finding(path, f"unknown {noun}{owner}", unknown=True)
    got = details["input"]
    if kind in ("literal_error", "enum"):
        choices = re.findall(r"'([^']*)'", details["ctx"]["expected"])
        if choices:
            return Finding(path, f"{show(got)} is not accepted", accepts(choices, got))
    message = _KINDS_OF_VALUE.get(kind) or details["msg"].removeprefix("Value error, ")
    message = re.sub(r"^Input should", "should", message)
    whole = kind == "int_type" and isinstance(got, float) and got.is_integer()
    hint = f"write {int(got):_}" if whole and abs(got) < _MOST_WHOLE else ""
    return Finding(path, message if kind in _EMPTY else f"{message}, got {show(got)}", hint)


def _existing(value: Any, location: Sequence[str | int]) -> Place:
    """Return the part of a location that the value has; pydantic adds names of union members."""
    path: list[str | int] = []
    for step in location:
        if not holds(value, (step,)):
            break
        value = value[step]
        path.append(step)
    return tuple(path)
