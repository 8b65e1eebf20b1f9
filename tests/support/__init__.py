"""What tests share: plugins, oracles, and runs of their own, each file named for what it holds."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""
