"""Finds the line of a key, whatever TOML syntax wrote it.

tomli gives no positions, but it can say whether the first n lines are TOML on their own, and
whether a key path exists in them. Lines only ever add to a TOML document, so among the prefixes
that parse, "the path exists" is false up to some line and true from there on.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import tomli

Path = tuple[str | int, ...]
"""Keys and list indices from the root of the document."""

# What may be missing at the end of a line in the middle of a value.
_ENDINGS = ("", *(a + b for a, b in product("]}", ("", "]", "}"))), '"""', "'''")


def holds(data: Any, path: Path) -> bool:
    """Whether a parsed document has something at the path."""
    for step in path:
        if isinstance(step, int):
            if not (isinstance(data, list) and 0 <= step < len(data)):
                return False
        elif not (isinstance(data, dict) and step in data):
            return False
        data = data[step]
    return True


class Locator:
    """Line numbers of key paths in one TOML text.

    Args:
        text: valid TOML, lines ending in a newline without carriage return.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._parsed: dict[int, dict[str, Any] | None] = {0: {}}

    def line(self, path: Path) -> int | None:
        """The line, counted from 1, where a path begins to exist; None if it never does.

        An element of a list that spans several lines is found on its own line.
        """
        last = self._first_whole_prefix(path)
        if last is None:
            return None
        before = last - 1
        while self._parse(before) is None:
            before -= 1
        # Lines before + 1 to last are one statement.
        for number in range(before + 1, last):
            if any(holds(_loads(self._prefix(number) + end), path) for end in _ENDINGS):
                return number
        return last

    def _first_whole_prefix(self, path: Path) -> int | None:
        found = len(self.lines)
        if not holds(self._parse(found), path):
            return None
        low, high = 0, found  # prefixes of these lengths are yet to be judged, high excluded
        while low < high:
            middle = (low + high) // 2
            whole = middle
            # Cut inside a multi-line value, a prefix says nothing: go on to where it ends.
            while whole < found and self._parse(whole) is None:
                whole += 1
            if holds(self._parse(whole), path):
                found, high = whole, middle
            else:
                low = whole + 1
        return found

    def _prefix(self, number: int) -> str:
        return "\n".join(self.lines[:number]) + "\n"

    def _parse(self, number: int) -> dict[str, Any] | None:
        if number not in self._parsed:
            self._parsed[number] = _loads(self._prefix(number))
        return self._parsed[number]


def _loads(text: str) -> dict[str, Any] | None:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError:
        return None
