"""The installed plugins as plain values, for `dpframe plugins --json`."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from dpframe.errors import PluginError
from dpframe.plugin import parameters

if TYPE_CHECKING:
    from dpframe.registry import Entry, Registry


def named(registry: Registry, name: str) -> tuple[Entry, ...]:
    """Every plugin called `name` or `distribution/name`.

    Raises:
        PluginError: there is none; says which name is close.
    """
    if found := registry.named(name):
        return found
    raise PluginError(registry.unknown("plugin", name))


def catalog(registry: Registry, name: str | None = None) -> dict[str, Any]:
    """All plugins, or those called `name`, and what could not be loaded."""
    entries = registry.entries if name is None else named(registry, name)
    return {
        "plugins": [_described(entry) for entry in entries],
        "broken": [dataclasses.asdict(broken) for broken in registry.broken],
    }


def _described(entry: Entry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "distribution": entry.distribution,
        "version": entry.version,
        "api": entry.cls.api,
        "description": inspect.getdoc(entry.cls) or "",
        "parameters": [dataclasses.asdict(row) for row in parameters(entry.cls)],
    }
