"""Collects every mistake in a spec and words it with its place and a way out."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from dpframe.errors import SpecError
from dpframe.spec.document import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.spec.document import Document
    from dpframe.spec.locate import Path

_LONGEST_LINE = 100
_LONGEST_VALUE = 60


class Problems:
    """The mistakes found so far in one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: dict[str, tuple[int, str]] = {}  # first line of a message: (line, message)

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, path: Path, message: str, *hints: str, option: str | None = None) -> None:
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
        where = (option or place(self._document.path, line), dotted(path), message)
        head = ": ".join(part for part in where if part)
        quoted = [] if line is None else [quote(line, self._document.locator.lines[line - 1])]
        body = [f"   {hint}" for hint in hints if hint]
        self._found.setdefault(head, (line or 0, "\n".join([head, *quoted, *body])))

    def raise_if_any(self) -> None:
        """Raises SpecError with all of them, in the order of the file."""
        if self._found:
            in_order = sorted(self._found.values(), key=lambda found: found[0])
            raise SpecError([text for _, text in in_order])


def place(path: str, line: int | None) -> str:
    """`file:line`, or as much of it as is known."""
    return f"{path}:{line}" if line is not None else path


def quote(number: int, text: str) -> str:
    """A line of the spec with its number, short and harmless on a terminal."""
    shown = "".join(char if char.isprintable() else " " for char in text).rstrip()
    if len(shown) > _LONGEST_LINE:
        shown = shown[: _LONGEST_LINE - 1] + "…"
    return f"{number:>5} | {shown}"


def accepts(known: Iterable[str], wrong: object = None) -> str:
    """The line that says what is allowed and, if something is close, what was probably meant."""
    names = list(known)
    if not names:
        return "accepts: nothing"
    return f"accepts: {', '.join(names)}{did_you_mean(names, wrong)}"


def did_you_mean(known: Iterable[str], wrong: object) -> str:
    """`; did you mean 'x'?`, or nothing."""
    if not isinstance(wrong, str):
        return ""
    by_lower_case = {name.lower(): name for name in known}
    by_last_part = {name.rpartition(".")[2]: full for name, full in by_lower_case.items()}
    forms = by_last_part | by_lower_case  # `dim` may be meant for `pair.dim`
    close = difflib.get_close_matches(wrong.lower(), forms, n=1)
    return f"; did you mean {forms[close[0]]!r}?" if close else ""


def show(value: Any) -> str:
    """A value as a spec would write it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
