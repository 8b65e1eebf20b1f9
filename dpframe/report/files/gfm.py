"""Text as GitHub-flavoured Markdown: whatever a label holds, it is shown and does nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpframe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST = 300
"""Characters of a label or a reason; the record has the rest."""

_MARKS = re.compile(r"([\\`*_\[\]|~$])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_NOTHING = "<!-- -->"
"""Between a sign and a name, so that nobody is notified and nothing is linked."""


def plain(text: object, most: int = LONGEST) -> str:
    """Text from anywhere, for the middle of a line."""
    shown = printable(" ".join(str(text).split()))
    if len(shown) > most:
        shown = f"{shown[:most]}…"
    shown = _MARKS.sub(r"\\\1", "".join(_ENTITIES.get(char, char) for char in shown))
    # Mentions, references to issues, and addresses, which GitHub finds after everything else.
    shown = re.sub(r"([@#])(?=\w)", rf"\1{_NOTHING}", shown)
    return re.sub(r"(?i)(:(?=//)|\bwww(?=\.))", rf"\1{_NOTHING}", shown)


def code(text: str, most: int) -> str:
    """Text as a block that nothing in it can end."""
    shown = printable(text.replace("\r\n", "\n"), "\n\t")
    if len(shown) > most:
        shown = f"{shown[:most]}\n…"
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}toml\n{shown}\n{fence}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def folded(summary: str, body: str) -> str:
    """A part that is shown when it is asked for."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"
