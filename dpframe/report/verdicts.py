"""Verdicts in words and signs: the same in every report."""

from __future__ import annotations

SYMBOL: dict[str | None, str] = {
    "violated": "✗",
    "consistent": "○",
    "inconclusive": "?",
    "failed": "!",
    None: "~",
}
WORDS: dict[str | None, str] = {
    "violated": "violated",
    "consistent": "no violation found",
    "inconclusive": "inconclusive",
    "failed": "failed",
    None: "no verdict",
}
"""What a verdict is called. Nothing here says "private": no audit can show that."""

UNEXPECTED = "▶"
