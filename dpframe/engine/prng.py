"""Random number generators by name."""

from __future__ import annotations

from typing import Any

from dpframe.engine import threefry

DEFAULT = threefry.NAME

IMPLEMENTATIONS: dict[str, Any] = {threefry.NAME: threefry.IMPL, "threefry2x32": "threefry2x32"}
"""What JAX takes for each name that a spec may give; "threefry2x32" is JAX's own."""


def resolve(name: str) -> str:
    """The generator's proper name, for the record."""
    return DEFAULT if name == "default" else name
