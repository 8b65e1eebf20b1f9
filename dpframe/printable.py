"""Text that does to a terminal nothing but show letters.

Labels, keys, file names and what plugins say may hold anything: escape sequences that move the
cursor, characters that turn the direction of writing, halves of characters that no encoding has.
"""

from __future__ import annotations

import unicodedata


def printable(text: str, keep: str = "") -> str:
    """The same text with every character that is no letter, sign or blank written as its number.

    Args:
        text: from anywhere.
        keep: characters to leave as they are, such as a newline.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep or _is_harmless(c) else _escaped(c) for c in text)


LONGEST = 200
"""Characters of a value in a message."""


def shown(value: object) -> str:
    """What a message calls a value, whatever its `repr` does."""
    try:
        found = printable(repr(value))
    except Exception:
        return f"a {type(value).__name__}"
    return found if len(found) <= LONGEST else f"{found[:LONGEST]}…"


def _is_harmless(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
