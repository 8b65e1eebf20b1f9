"""Hold a spec as it was read, and find the line of each key."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import date, time
from functools import cached_property
from typing import Any, NamedTuple

import tomli

from dpframe.common.text import cut

Path = tuple[str | int, ...]  # keys and list indices from the root of the document

DEEPEST = 32
"""Largest depth of a path, which bounds recursion; no spec needs more."""

_WIDEST = 64  # bits of an integer, as TOML has them
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclasses.dataclass
class Document:
    """The tables of a spec and where they come from.

    `data` and `origins` change while overrides are applied, and not afterwards.
    """

    path: str  # as the user wrote it; empty for a document that was never a file
    text: str
    sha256: str
    data: dict[str, Any]
    origins: dict[Path, str] = dataclasses.field(default_factory=dict)
    """Paths that an override has set, and its command-line option."""
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Keys such as "pair.dim" that an override gave one value for the whole audit."""
    narrowed: set[str] = dataclasses.field(default_factory=set)
    """Keys whose values an override chose; rules about other values may then match no cell."""

    @cached_property
    def locator(self) -> Locator:
        """Finds lines in the text."""
        return Locator(self.text)

    @property
    def swept(self) -> list[tuple[str, Path, Any]]:
        """The keys of [sweep], with paths and values; none if it is no table."""
        sweep = self.data.get("sweep")
        return flatten(sweep, ("sweep",)) if isinstance(sweep, dict) else []

    def origin(self, path: Path) -> str | None:
        """Return the option that set this path, or something that contains it."""
        parts = (path[:length] for length in range(len(path), 0, -1))
        return next((self.origins[part] for part in parts if part in self.origins), None)

    def line(self, path: Path) -> int | None:
        """Return the line of the longest part of a path that the text has, if any."""
        if not self.path:
            return None
        lines = (self.locator.line(path[:length]) for length in range(len(path), 0, -1))
        return next((line for line in lines if line is not None), None)


class Locator:
    """Line numbers of key paths in one TOML text, lines ending in a newline alone."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        try:
            self._root = _nodes(tomli.loads(_numbered(text)), tomli.loads(text))
        except (_LostError, tomli.TOMLDecodeError, RecursionError):
            self._root = _Node(1, {})

    def line(self, path: Path) -> int | None:
        """Return the line, counted from 1, where a path begins to exist; None if it never does.

        An element of a list that spans several lines is found on its own line.
        """
        node = self._root
        for step in path:
            if not holds(node.inside, (step,)):
                return None
            node = node.inside[step]
        return node.line


class _Node(NamedTuple):
    line: int
    inside: Any  # a dict or a list of nodes; None for any other value


class _LostError(Exception):
    """The numbered copy has other keys or elements than the text."""


_OWN_LINE = "line of this table"
# Up to two quotes may stand before the three that end a string. No quantifier is possessive: those
# of groups match wrongly in Python 3.11.0 to 3.11.4 (CPython issues 100061, 106052).
_TOKEN = re.compile(
    r"#[^\n]*|[\n\[\]{},=]"
    r'|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""(?:"{0,2})'
    r"|'''[^']*(?:'(?!'')[^']*)*'''(?:'{0,2})"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\n]*'"
    r"|[^\s\[\]{},=#\"'][^\n\[\]{},=#\"']*",
    re.DOTALL,
)


def _numbered(text: str) -> str:
    """Replace all values by line numbers; lists and tables get an entry with their own line."""
    parts: list[str] = []
    opened: list[tuple[str, int]] = []  # brackets of values, with their lines
    line, value, header = 1, False, False  # value: one comes next, not a key
    for token in _TOKEN.findall(f"{text}\n"):
        new = token
        if token == "\n":
            new = f'\n"{_OWN_LINE}" = {line}\n' if header else "" if opened else "\n"
            header = False
        elif token[0] == "#":
            new = ""
        elif token == "=":
            value = True
        elif token == ",":
            value = opened[-1][0] == "["
        elif token in "[{" and value:
            opened.append((token, line))
            value = token == "["
            new = f"[{line}," if value else token
        elif token in "]}" and opened:
            begun = opened.pop()[1]
            value = False
            if token == "}":
                new = f'{"" if parts[-1] in "{," else ","}"{_OWN_LINE}" = {begun}}}'
        elif token == "]":
            header = True
        elif value:
            new, value = str(line), False
        line += token.count("\n")
        if new:
            parts.append(new)
    return "".join(parts)


def _nodes(lines: Any, value: Any) -> _Node:
    """Join a value with the lines of the numbered copy; its line is the least of its parts."""
    if isinstance(value, dict) and isinstance(lines, dict):
        own = [lines.pop(_OWN_LINE)] if _OWN_LINE in lines else []
        if list(lines) != list(value):
            raise _LostError
        inside: Any = {key: _nodes(lines[key], value[key]) for key in value}
        return _Node(min([*own, *(node.line for node in inside.values())], default=1), inside)
    if isinstance(value, list) and isinstance(lines, list):
        own = lines[: len(lines) - len(value)]  # none for an array of tables
        inside = list(map(_nodes, lines[len(own) :], value))
        if len(own) > 1 or len(inside) < len(value):
            raise _LostError
        return _Node(min([*own, *(node.line for node in inside)]), inside)
    if not isinstance(lines, int) or isinstance(value, dict | list):
        raise _LostError
    return _Node(lines, None)


def holds(data: Any, path: Path) -> bool:
    """True if a parsed document has something at the path."""
    for step in path:
        if isinstance(step, int):
            if not (isinstance(data, list) and 0 <= step < len(data)):
                return False
        elif not (isinstance(data, dict) and step in data):
            return False
        data = data[step]
    return True


def flatten(table: Mapping[str, Any], path: Path) -> list[tuple[str, Path, Any]]:
    """List (dotted key, path, value), so that quoted and nested keys read the same."""
    flat = []
    for key, value in table.items():
        if isinstance(value, dict) and value:
            inner = flatten(value, (*path, key))
            flat += [(f"{key}.{rest}", place, leaf) for rest, place, leaf in inner]
        else:
            flat.append((key, (*path, key), value))
    return flat


def dotted(path: Path) -> str:
    """Return a path as text, such as `mechanism[1].params.epsilon`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = cut(step)
            key = key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
            text += f".{key}" if text else key
    return text


class UnfitError(Exception):
    """A value that no spec can have."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def plain(value: Any, path: Path = ()) -> Any:
    """Return a value as JSON has it: lists for tuples, numbers for NumPy scalars, text for dates.

    Args:
        value: a table, or anything inside of one.
        path: its place in the document.

    Raises:
        UnfitError: it is nested too deeply, an integer is too large, or text is not Unicode.
    """
    if len(path) > DEEPEST:
        raise UnfitError(path[:1], "is nested too deeply")
    if isinstance(value, dict):
        items = {str(key): inner for key, inner in value.items() if inner is not None}
        return {plain(key, path): plain(inner, (*path, key)) for key, inner in items.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, (*path, at)) for at, inner in enumerate(value)]
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise UnfitError(path, "contains characters that are not Unicode")
        return value
    if isinstance(value, int):
        if value.bit_length() > _WIDEST:
            raise UnfitError(path, f"is an integer of more than {_WIDEST} bits")
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist(), path)
    return value.isoformat() if isinstance(value, date | time) else value
