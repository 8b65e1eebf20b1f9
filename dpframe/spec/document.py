"""A spec as it was read, with what is needed to say where something stands."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import re
from datetime import date, time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpframe.spec.audit import Source
from dpframe.spec.locate import Locator, Path, holds

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


def from_mapping(data: Mapping[str, Any]) -> Document:
    """A document from Python values, as a notebook has them; its text is their JSON form."""
    tables = plain(copy.deepcopy(dict(data)))
    text = json.dumps(tables, indent=2, ensure_ascii=False, default=str)
    return Document("", text, hashlib.sha256(text.encode()).hexdigest(), tables)


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
            key = step if _BARE_KEY.fullmatch(step) else json.dumps(step, ensure_ascii=False)
            text += f".{key}" if text else key
    return text


def plain(value: Any) -> Any:
    """Values as JSON has them: lists for tuples, numbers for NumPy scalars, text for dates."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value.isoformat() if isinstance(value, date | time) else value
