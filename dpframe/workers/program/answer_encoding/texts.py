"""Numbers that are written in texts, such as messages, reports and JSON."""

from __future__ import annotations

import re

MOST_READ = 1 << 12
"""Characters of a text in which numbers are looked for."""

ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")

NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:0x[0-9a-fA-F]+|(?:\d[\d_]*(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|nan\b|inf\b)(?!\w)",
)

SEVERAL = re.compile(r"#(?:[\s,;]+#)+")


def float_of(number: str) -> float:
    """The number that a text is."""
    try:
        return float(number.replace(",", ""))
    except ValueError:  # hexadecimal
        return float(int(number.lstrip("+-"), 16) % (1 << 53))


def numbers_in(text: str) -> tuple[list[float], str]:
    """Numbers that are written in a text, as in a report or in JSON, and the text without them.

    A text of zeros and ones is a list of bits.
    """
    begin = text[:MOST_READ]
    if len(begin) > 1 and not begin.strip("01"):
        return [float(bit) for bit in begin], f"{len(text)} bits"
    found = [float_of(number) for number in NUMBER.findall(begin)]
    return found, NUMBER.sub("#", text) if found else text
