"""Plugins, oracles and runs that tests share, each file named for its content."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
"""The checkout."""
SPECS = ROOT / "specs"
