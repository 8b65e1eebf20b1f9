"""What the [run] table of a record's spec says of how draws are made."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import tomli

if TYPE_CHECKING:
    from dpframe.record.model import Record

KEYS = ("precision", "prng", "chunk")
"""What may decide whether a finding comes again: the others say when a run ends."""


def drawn_with(record: Record) -> dict[str, Any]:
    """The part of [run] that others need to make such draws, without what is left to its default.

    Args:
        record: of a run; its spec is TOML, or JSON where it was no file.
    """
    found: dict[str, Any] = {}
    for read in (tomli.loads, json.loads):
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            found = dict(read(record.spec.text).get("run", {}))
            break
    for override in record.spec.overrides:
        key, _, value = override.partition("=")
        if key.startswith("run."):
            found[key.removeprefix("run.")] = _read(value)
    return {key: found[key] for key in KEYS if key in found}


def _read(value: str) -> Any:
    """A value of --set: TOML, else text."""
    try:
        return tomli.loads(f"value = {value}")["value"]
    except ValueError:
        return value
