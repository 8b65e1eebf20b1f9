"""Random number generators by name."""

from __future__ import annotations


def resolve(name: str) -> str:
    """The generator's name as JAX knows it."""
    return "threefry2x32" if name == "default" else name
