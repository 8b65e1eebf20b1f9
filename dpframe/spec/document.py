"""Hold a spec as it was read, find the line of each key, and collect mistakes with their places."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time
from functools import cached_property
from typing import Any, NamedTuple

import tomli
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dpframe.common.text import closest, cut, did_you_mean, escape, listed
from dpframe.errors import SpecError

Path = tuple[str | int, ...]  # keys and list indices from the root of the document

DEEPEST = 32
"""Largest depth of a path, which bounds recursion; no spec needs more."""

_WIDEST = 64  # bits of an integer, as TOML has them
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclasses.dataclass
class Document:
    """The tables of a spec, where they come from, and the mistakes in them.

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
    allow_command: bool = False
    """True if the commands that the spec names may run."""
    mistakes: dict[str, _Noted] = dataclasses.field(default_factory=dict)
    """The mistakes found so far, by the first lines of their messages."""

    @cached_property
    def locator(self) -> Locator:
        """Finds lines in the text."""
        return Locator(self.text)

    @property
    def swept(self) -> list[tuple[str, Path, Any]]:
        """The keys of [sweep], with paths and values; none if it is not a table."""
        sweep = self.data.get("sweep")
        return flatten(sweep, ("sweep",)) if isinstance(sweep, dict) else []

    def origin(self, path: Path) -> str | None:
        """Return the option that set this path, or a table or list that contains it."""
        parts = (path[:length] for length in range(len(path), 0, -1))
        return next((self.origins[part] for part in parts if part in self.origins), None)

    def line(self, path: Path) -> int | None:
        """Return the line of the longest part of a path that the text has, if any."""
        if not self.path:
            return None
        lines = (self.locator.line(path[:length]) for length in range(len(path), 0, -1))
        return next((line for line in lines if line is not None), None)

    @property
    def folder(self) -> pathlib.Path:
        """The folder of the document, to which named files are relative."""
        return pathlib.Path(self.path).absolute().parent if self.path else pathlib.Path()

    def note(self, path: Path, message: str, *hints: Hint, option: str | None = None) -> None:
        """Note a mistake; the same message at the same place counts once.

        Args:
            path: its place; the longest part of the path that the text has gives the line.
            message: what is wrong, without the place.
            hints: further lines, such as `accepts` gives; empty ones are left out.
            option: the command-line option that is wrong; default: what has set the path, if
                any did.
        """
        option = option or self.origin(path)
        line = None if option else self.line(path)
        where = cut(option) if option else place(self.path, line)
        head = escape(": ".join(part for part in (where, dotted(path), message) if part))
        self.mistakes.setdefault(head, _Noted(line, head, hints))

    def raise_noted(self) -> None:
        """Raise SpecError with all noted mistakes, in the order of the file, if there are any."""
        if self.mistakes:
            in_order = sorted(self.mistakes.values(), key=lambda noted: noted.line or 0)
            raise SpecError([self._worded(noted) for noted in in_order[:_SHOWN]], len(in_order))

    def _worded(self, noted: _Noted) -> str:
        lines = [noted.head]
        if noted.line is not None:
            lines.append(quote(noted.line, self.locator.lines[noted.line - 1]))
        for hint in noted.hints:
            worded = hint if isinstance(hint, str) else hint()
            lines += [f"   {escape(line)}" for line in worded.split("\n") if line]
        return "\n".join(lines)


class Locator:
    """Line numbers of key paths in one TOML text, lines ending in a newline alone."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        try:
            self._root = _nodes(tomli.loads(_numbered(text)), tomli.loads(text))
        except (_LostError, tomli.TOMLDecodeError, RecursionError):
            self._root = _Node(1, {})

    def line(self, path: Path) -> int | None:
        """Return the line, counted from 1, where a path first occurs; None if it does not.

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


def flatten(
    table: Mapping[str, Any], path: Path, whole: frozenset[str] = frozenset()
) -> list[tuple[str, Path, Any]]:
    """List (dotted key, path, value), so that quoted and nested keys read the same.

    Tables with one of the keys in `whole` are values.
    """
    flat = []
    for key, value in table.items():
        if isinstance(value, dict) and value and not whole & value.keys():
            inner = flatten(value, (*path, key), whole)
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


class SpecValueError(Exception):
    """A value that a spec cannot contain."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def plain(value: Any, path: Path = ()) -> Any:
    """Return a value as JSON has it: lists for tuples, numbers for NumPy scalars, text for dates.

    Args:
        value: a table, or anything inside one.
        path: its place in the document.

    Raises:
        SpecValueError: it is nested too deeply, an integer is too large, or text is not Unicode.
    """
    if len(path) > DEEPEST:
        raise SpecValueError(path[:1], "is nested too deeply")
    if isinstance(value, dict):
        items = {str(key): inner for key, inner in value.items() if inner is not None}
        return {plain(key, path): plain(inner, (*path, key)) for key, inner in items.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, (*path, at)) for at, inner in enumerate(value)]
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise SpecValueError(path, "contains characters that are not Unicode")
        return value
    if isinstance(value, int):
        if value.bit_length() > _WIDEST:
            raise SpecValueError(path, f"is an integer of more than {_WIDEST} bits")
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist(), path)
    return value.isoformat() if isinstance(value, date | time) else value


Hint = str | Callable[[], str]
"""Further lines of a message; a function makes them only if they are shown."""

_SHOWN = 50  # mistakes that are shown; the others are only counted
_LONGEST_LINE = 100
_LONGEST_VALUE = 60


class _Noted(NamedTuple):
    line: int | None
    head: str
    hints: tuple[Hint, ...]


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
_MOST_WHOLE = 2**53  # larger floats are always whole


class Mistake(NamedTuple):
    """One mistake that pydantic found, relative to what was validated."""

    path: Path
    message: str
    hint: Hint = ""
    unknown: bool = False  # the key is not allowed; leaving it out corrects the table
    missing: str | None = None  # the missing key; `path` is then the place of its table


def findings(error: ValidationError, value: Any, noun: str, owner: str = "") -> list[Mistake]:
    """Describe the mistakes in a value in the terms of a spec, one per place.

    Args:
        error: the error of pydantic.
        value: the validated value.
        noun: the word for a key, "key" or "parameter".
        owner: the owner of the keys, for example " of mechanism 'laplace'".
    """
    mistakes: dict[tuple[Path, str | None], Mistake] = {}
    unknown: dict[Path, list[str]] = {}
    for details in error.errors(include_url=False):
        finding = _finding(details, value, noun, owner)
        known = mistakes.setdefault((finding.path, finding.missing), finding)
        if known.message != finding.message:  # a mistake for each member of a union
            message = f"{known.message}, or {finding.message}"
            mistakes[finding.path, finding.missing] = known._replace(message=message)
        if finding.unknown:
            unknown.setdefault(finding.path[:-1], []).append(str(finding.path[-1]))
    # A missing `epsilon` and an unknown `epsilom` are one mistake.
    return [
        one
        for one in mistakes.values()
        if not (one.missing and closest(unknown.get(one.path, ()), one.missing))
    ]


def _finding(details: ErrorDetails, value: Any, noun: str, owner: str) -> Mistake:
    kind, path = details["type"], _existing(value, details["loc"])
    if kind in _MISSING:
        name = str(details["loc"][-1])
        return Mistake(path, f"{noun} {name!r}{owner} is missing", missing=name)
    if kind in _UNKNOWN:
        return Mistake(path, f"unknown {noun}{owner}", unknown=True)
    got = details["input"]
    if kind in ("literal_error", "enum"):
        choices = re.findall(r"'([^']*)'", details["ctx"]["expected"])
        if choices:
            return Mistake(path, f"{show(got)} is not accepted", accepts(choices, got))
    message = _KINDS_OF_VALUE.get(kind) or details["msg"].removeprefix("Value error, ")
    message = re.sub(r"^Input should", "should", message)
    whole = kind == "int_type" and isinstance(got, float) and got.is_integer()
    hint = f"write {int(got):_}" if whole and abs(got) < _MOST_WHOLE else ""
    return Mistake(path, message if kind in _EMPTY else f"{message}, got {show(got)}", hint)


def _existing(value: Any, location: Sequence[str | int]) -> Path:
    """Return the part of a location that exists; pydantic appends the names of union members."""
    path: list[str | int] = []
    for step in location:
        if not holds(value, (step,)):
            break
        value = value[step]
        path.append(step)
    return tuple(path)
