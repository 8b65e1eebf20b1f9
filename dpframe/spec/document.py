"""A spec as it was read, with what is needed to say where something stands."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import date, time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpframe.spec.audit import Source
from dpframe.spec.locate import Locator, Path, holds
from dpframe.suggest import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

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
