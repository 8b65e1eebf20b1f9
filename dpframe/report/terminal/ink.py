"""Text that any terminal can show: colours for both backgrounds, ASCII where it must be."""

from __future__ import annotations

import dataclasses

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report.verdicts import SYMBOL, UNEXPECTED, WORDS

__all__ = [
    "ASCII",
    "GAP",
    "RULED",
    "RULED_ASCII",
    "STYLE",
    "SYMBOL",
    "UNEXPECTED",
    "WORDS",
    "Ink",
    "padded",
]

ASCII = {
    "✗": "x",
    "○": "o",
    "▶": ">",
    "≥": ">=",
    "⌀": "mean",
    "≤": "<=",
    "±": "+-",
    "ε": "eps",
    "δ": "delta",
    "α": "alpha",
    "∞": "inf",
    "×": "x",
    "·": "-",
    "–": "-",
    "…": "...",
    "′": "'",
    "━": "=",
    "●": "*",
    "┃": "|",
    "→": ">",
    "↓": "v",
    "░": ".",
    "▒": ":",
    "▓": "+",
    "█": "#",
}
"""What replaces the report's own symbols where the encoding cannot show them."""

# The names of the 16 colours are tuned by the user's theme for its background. What was not refuted
# is a blue grey in the middle of the scale: green or near it would be read as "fine", and themes
# make their blue unreadable on black.
STYLE: dict[str | None, str] = {
    "violated": "bold red",
    "consistent": "color(67)",
    "inconclusive": "magenta",
    "failed": "bold magenta",
    None: "",
}
_PLAIN = Console(color_system=None)
"""Folding takes a console, of which it reads nothing but how wide a tab is."""
GAP = 3
"""Blanks between columns and between phrases of a line."""

_RULE = "    \n    \n ── \n    \n    \n    \n    \n    \n"
RULED = Box(_RULE)
RULED_ASCII = Box(_RULE.replace("─", "-"), ascii=True)
"""A line under the header and nothing else."""


@dataclasses.dataclass(frozen=True)
class Ink:
    """Makes text for one console. Labels of users go through it too, so none is read as markup."""

    encoding: str
    ascii_only: bool
    seen: set[str] = dataclasses.field(default_factory=set, compare=False)
    """All texts made so far, before anything was replaced: legends explain what is in them."""

    @classmethod
    def of(cls, console: Console) -> Ink:
        """What this console can show."""
        return cls(console.encoding, console.options.ascii_only)

    def plain(self, text: str) -> str:
        """The same text in the characters that the console has."""
        self.seen.add(text)
        printable = "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
        if self.ascii_only:
            printable = "".join(ASCII.get(c, c) for c in printable)
        try:
            return printable.encode(self.encoding, "replace").decode(self.encoding, "replace")
        except LookupError:  # a codec that Python does not know
            return printable.encode("ascii", "replace").decode("ascii")

    def text(self, text: str, style: str = "", *, keep: bool = False) -> Text:
        """Text in a style.

        Args:
            text: shown literally.
            style: a rich style.
            keep: never break or cut this text.
        """
        return Text(
            self.plain(text),
            style=style,
            no_wrap=keep or None,
            overflow="ignore" if keep else "fold",
        )

    def folded(self, text: str, style: str, width: int) -> list[Text]:
        """Text in as many lines as it takes; nothing of it is lost at any width."""
        return self.wrapped(self.text(text.replace("\n", " "), style), width)

    def wrapped(self, text: Text, width: int) -> list[Text]:
        """The same of a text that has styles already."""
        lines = text.wrap(_PLAIN, max(width, 2), overflow="fold")
        for line in lines:
            line.rstrip()
        return list(lines)

    def joined(self, parts: list[Text], width: int) -> Text:
        """Puts phrases on a line, and those that do not fit on the next, indented."""
        text, used = Text(), 0
        for part in parts:
            if used and used + GAP + part.cell_len > width:
                text.append("\n" + " " * GAP)
                used = GAP
            elif used:
                text.append(" " * GAP)
                used += GAP
            text.append_text(part)
            used += part.cell_len
        return text

    def table(self, gap: int = GAP) -> Table:
        """An empty table in the style of the report, with this many blanks between columns."""
        box = RULED_ASCII if self.ascii_only else RULED
        # The frame itself takes one blank between columns.
        return Table(box=box, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Text with blanks behind it, or before it, up to a width in columns of the terminal."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks
