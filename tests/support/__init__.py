"""What tests share: plugins, oracles, and runs of their own, each file named for what it holds."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
"""The checkout."""
SPECS = ROOT / "specs"
