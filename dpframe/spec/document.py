"""A spec as it was read, and the line of each key."""

from __future__ import annotations

import bisect
import dataclasses
import json
import re
from datetime import date, time
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli

from dpframe.common.text import cut
from dpframe.spec.audit import Source

if TYPE_CHECKING:
    from collections.abc import Mapping


# Finds the line of a key, whatever TOML syntax wrote it.
#
# tomli reads TOML and forgets where it stood. So a second pass over the text, which is known to
# be
# TOML, notes where every key and every element of a list begins. It must find exactly what tomli
# found, in the same order; if not, no line is named at all, which is better than a wrong one.


Path = tuple[str | int, ...]
"""Keys and list indices from the root of the document."""


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
        self._root = _read(text) or _NOTHING

    def line(self, path: Path) -> int | None:
        """The line, counted from 1, where a path begins to exist; None if it never does.

        An element of a list that spans several lines is found on its own line.
        """
        node: _Node | int = self._root
        for step in path:
            if isinstance(node, int) or not holds(node.inside, (step,)):
                return None
            node = node.inside[step]
        return node if isinstance(node, int) else node.line


class _Node(NamedTuple):
    """A table or a list; any other value is only the number of its line."""

    line: int
    inside: Any
    """A dict or a list of nodes and line numbers."""


_NOTHING = _Node(1, {})


def _read(text: str) -> _Node | None:
    """The nodes of a whole text; None if they are not what tomli finds."""
    try:
        root = _Reader(text).document()
        return root if _agree(root, tomli.loads(text)) else None
    except (_LostError, RecursionError):
        return None


def _agree(node: _Node | int, value: Any) -> bool:
    """Whether a node has the keys of a value, in its order, and so on inside of it."""
    if not isinstance(value, dict | list):
        return isinstance(node, int)
    if isinstance(node, int) or type(node.inside) is not type(value):
        return False
    if isinstance(value, dict):
        return list(node.inside) == list(value) and all(
            _agree(node.inside[key], value[key]) for key in value
        )
    return len(node.inside) == len(value) and all(map(_agree, node.inside, value))


_BLANK = re.compile(r"[ \t]*+")
_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*)*+")
_KEY = re.compile(r"""[A-Za-z0-9_-]++|"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+'""")
# Up to two quotes may stand before the three that end a string.
_STRING = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"""(?:"{0,2})'
    r"|'''(?:[^']++|'(?!''))*+'''(?:'{0,2})"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)
_OTHER = re.compile(r"[^,\]}#\n]+")
"""A number, a date or a boolean."""


class _LostError(Exception):
    """The text is not what it was expected to be."""


class _Reader:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def document(self) -> _Node:
        """The nodes of the whole text."""
        root = table = _Node(1, {})
        self._skip(_GAP)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header(root)
            else:
                self._entry(table)
            self._skip(_GAP)
        return root

    def _header(self, root: _Node) -> _Node:
        """Reads [key] or [[key]]; gives the table that it opens."""
        line = self._line()
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        *outer, last = self._keys()
        self._expect("]" * brackets)
        table = _down(root, outer, line)
        if brackets == 1:
            return _down(table, [last], line)
        tables = table.inside.setdefault(last, _Node(line, []))
        if isinstance(tables, int) or not isinstance(tables.inside, list):
            raise _LostError
        tables.inside.append(_Node(line, {}))
        new: _Node = tables.inside[-1]
        return new

    def _entry(self, table: _Node) -> None:
        """Reads key = value."""
        line = self._line()
        *outer, last = self._keys()
        self._expect("=")
        self._skip(_BLANK)
        table = _down(table, outer, line)
        table.inside[last] = self._value(line)

    def _value(self, line: int) -> _Node | int:
        """Reads a value; `line` is where what has it begins."""
        if self._text.startswith("[", self._at):
            return self._list(line)
        if self._text.startswith("{", self._at):
            return self._table(line)
        quoted = self._text.startswith(('"', "'"), self._at)
        self._take(_STRING if quoted else _OTHER)
        return line

    def _list(self, line: int) -> _Node:
        node = _Node(line, [])
        self._at += 1
        while not self._next_is("]"):
            node.inside.append(self._value(self._line()))
            if not self._next_is(","):
                self._expect("]")
                break
        return node

    def _table(self, line: int) -> _Node:
        node = _Node(line, {})
        self._at += 1
        while not self._next_is("}"):
            self._entry(node)
            if not self._next_is(","):
                self._expect("}")
                break
        return node

    def _keys(self) -> list[str]:
        """Reads a key with its dots."""
        keys = []
        while True:
            self._skip(_BLANK)
            keys.append(_unquoted(self._take(_KEY)))
            self._skip(_BLANK)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _line(self) -> int:
        return bisect.bisect_left(self._ends, self._at) + 1

    def _skip(self, what: re.Pattern[str]) -> None:
        match = what.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _take(self, what: re.Pattern[str]) -> str:
        match = what.match(self._text, self._at)
        if match is None:
            raise _LostError
        self._at = match.end()
        return match.group()

    def _expect(self, what: str) -> None:
        if not self._text.startswith(what, self._at):
            raise _LostError
        self._at += len(what)

    def _next_is(self, what: str) -> bool:
        """Goes past blanks, lines and comments, and past `what` if it comes then."""
        self._skip(_GAP)
        found = self._text.startswith(what, self._at)
        self._at += len(what) if found else 0
        return found


def _down(node: _Node, keys: list[str], line: int) -> _Node:
    """The table under some keys, made where it is not there yet; of a list the last one."""
    for key in keys:
        child = node.inside.setdefault(key, _Node(line, {}))
        if not isinstance(child, int) and isinstance(child.inside, list) and child.inside:
            child = child.inside[-1]
        if isinstance(child, int) or not isinstance(child.inside, dict):
            raise _LostError
        node = child
    return node


def _unquoted(key: str) -> str:
    if key[0] not in "\"'":
        return key
    # Whatever escapes there are, tomli knows them.
    return key[1:-1] if "\\" not in key else next(iter(tomli.loads(f"{key} = 0")))


# A spec as it was read, with what is needed to say where something stands.


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclasses.dataclass
class Document:
    """The tables of a spec and where they come from.

    `data` and `origins` change while overrides are applied, and not afterwards.
    """

    path: str
    """As the user wrote it; empty for a document that was never a file."""
    text: str
    sha256: str
    data: dict[str, Any]
    origins: dict[Path, str] = dataclasses.field(default_factory=dict)
    """What an override has set, and the command-line option that did."""
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Keys such as "pair.dim" that an override gave one value for the whole audit."""
    narrowed: set[str] = dataclasses.field(default_factory=set)
    """Keys whose values an override chose; rules about other values are then idle, not wrong."""

    @cached_property
    def locator(self) -> Locator:
        """Finds lines in the text."""
        return Locator(self.text)

    def origin(self, path: Path) -> str | None:
        """The option that set this path, or something that contains it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return None

    def line(self, path: Path) -> int | None:
        """The line of the longest part of a path that the text has; None if it has nothing."""
        if not self.path:
            return None
        for length in range(len(path), 0, -1):
            if (line := self.locator.line(path[:length])) is not None:
                return line
        return None

    def has(self, path: Path) -> bool:
        """Whether the document, overrides included, has something at the path."""
        return holds(self.data, path)

    def source(self, overrides: tuple[str, ...]) -> Source:
        """What the record keeps of it."""
        return Source(self.path, self.sha256, self.text, overrides)


def flatten(table: Mapping[str, Any], path: Path) -> list[tuple[str, Path, Any]]:
    """Lists (dotted key, path, value), so that quoted and nested keys read the same."""
    flat = []
    for key, value in table.items():
        if isinstance(value, dict) and value:
            inner = flatten(value, (*path, key))
            flat += [(f"{key}.{rest}", place, leaf) for rest, place, leaf in inner]
        else:
            flat.append((key, (*path, key), value))
    return flat


def dotted(path: Path) -> str:
    """A path as one reads it: `mechanism[1].params.epsilon`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = cut(step)
            key = key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
            text += f".{key}" if text else key
    return text


DEEPEST = 32
"""Steps of a path; nothing in a spec needs more, and what reads it must not run out of stack."""

WIDEST = 64
"""Bits of an integer, as TOML has them."""


class UnfitError(Exception):
    """A value that no spec can have."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def plain(value: Any, path: Path = ()) -> Any:
    """Values as JSON has them: lists for tuples, numbers for NumPy scalars, text for dates.

    Args:
        value: a table, or anything inside of one.
        path: where it stands.

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
            raise UnfitError(path, "holds characters that are not Unicode")
        return value
    if isinstance(value, int):
        if value.bit_length() > WIDEST:
            raise UnfitError(path, f"is an integer of more than {WIDEST} bits")
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist(), path)
    return value.isoformat() if isinstance(value, date | time) else value
