"""Collects every mistake in a spec and words it with its place and a way out."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.errors import SpecError
from dpframe.printable import printable
from dpframe.spec.document import dotted
from dpframe.suggest import cut, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from dpframe.spec.document import Document
    from dpframe.spec.locate import Path as Place

    Hint = str | Callable[[], str]
    """A further line of a message; one that takes time to word is worded when it is shown."""

SHOWN = 50
"""Mistakes that are worded; of the others only the number is told."""

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
        """Where the document lies: files that it names are relative to it."""
        return Path(self._document.path).parent if self._document.path else Path()

    def add(self, path: Place, message: str, *hints: Hint, option: str | None = None) -> None:
        """Notes a mistake; the same message at the same place counts once.

        Args:
            path: where it stands; the longest part of it that the text has gives the line.
            message: what is wrong, without the place.
            hints: further lines, such as `accepts` gives; empty ones are left out.
            option: the command-line option that is wrong; default: what has set the path, if
                any did.
        """
        option = option or self._document.origin(path)
        line = None if option else self._document.line(path)
        where = cut(option) if option else place(self._document.path, line)
        head = printable(": ".join(part for part in (where, dotted(path), message) if part))
        self._found.setdefault(head, _Problem(line, head, hints))

    def raise_if_any(self) -> None:
        """Raises SpecError with all of them, in the order of the file."""
        if self._found:
            in_order = sorted(self._found.values(), key=lambda problem: problem.line or 0)
            raise SpecError([self._worded(problem) for problem in in_order[:SHOWN]], len(in_order))

    def _worded(self, problem: _Problem) -> str:
        lines = [problem.head]
        if problem.line is not None:
            text = self._document.locator.lines[problem.line - 1]
            lines.append(quote(problem.line, text))
        for hint in problem.hints:
            worded = hint if isinstance(hint, str) else hint()
            lines += [f"   {printable(line)}" for line in worded.split("\n") if line]
        return "\n".join(lines)


def place(path: str, line: int | None) -> str:
    """`file:line`, or as much of it as is known."""
    return f"{path}:{line}" if line is not None else path


def quote(number: int, text: str) -> str:
    """A line of the spec with its number, short and harmless on a terminal."""
    start = text[: _LONGEST_LINE + 1]
    shown = "".join(char if char.isprintable() else " " for char in start)
    return f"{number:>5} | {cut(shown, _LONGEST_LINE).rstrip()}"


def accepts(known: Iterable[str], wrong: object = None) -> Callable[[], str]:
    """The line that says what is allowed and, if something is close, what was probably meant."""
    names = known if isinstance(known, tuple | dict) else tuple(known)
    return functools.partial(_accepts, names, wrong)


def _accepts(names: Collection[str], wrong: object) -> str:
    return f"accepts: {listed(names) or 'nothing'}{did_you_mean(names, wrong)}"


def describe(params: Mapping[str, Any]) -> str:
    """Parameters as a reader would write them."""
    return listed(f"{name} = {show(value)}" for name, value in params.items())


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def show(value: Any) -> str:
    """A value as a spec would write it, or its beginning."""
    if isinstance(value, str):
        value = value[: _LONGEST_VALUE + 1]
    text = ""
    for part in _ENCODER.iterencode(value):
        text += part[: _LONGEST_VALUE + 1]
        if len(text) > _LONGEST_VALUE:
            break
    return cut(text, _LONGEST_VALUE)
