"""Reading pages: their text, sections, tables, and the numbers that they show."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent


@functools.cache
def page(name: str) -> str:
    """The text of a file, by its path from the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name: str) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page(name), flags=re.DOTALL | re.MULTILINE)


def section(name: str, *path: str) -> str:
    """Return the text under a heading, under another one, up to the next of its level or above."""
    text = page(name)
    for heading in path:
        level = len(heading) - len(heading.lstrip("#"))
        pattern = rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)"
        match = re.search(pattern, text, flags=re.DOTALL | re.MULTILINE)
        assert match, f"{name} has no heading {heading!r}"
        text = match[1]
    return text


def rows(text: str) -> list[list[str]]:
    """The rows of all tables in a text, without their headers."""
    tables = re.findall(r"^\|.*?(?=^[^|]|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        for table in tables
        for line in table.strip().split("\n")[2:]
    ]


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)


# --------------------------------------------------------------------------------------------------
# Numbers


NUMBER = r"∞|−?\d+(?:\.\d+)?(?:e[-−]?\d+)?"

SLACK = 0.02
"""Tolerance in the last digit: another processor may round a logarithm, and so a count,
differently."""


class Down(NamedTuple):
    """A lower bound: what is shown must not be above it."""

    value: float


class Up(NamedTuple):
    """An upper bound: what is shown must not be below it."""

    value: float


Exact = float | Down | Up


def shows(text: str, exact: Exact) -> bool:
    """True if a shown number is this one, to the digits that are shown."""
    value = exact.value if isinstance(exact, Down | Up) else float(exact)
    if text == "∞" or math.isinf(value):
        return text == "∞" and value == math.inf
    shown = float(text.replace("−", "-"))
    digits = re.fullmatch(r"−?\d+(?:\.(\d+))?(?:e([-−]?\d+))?", text)
    assert digits
    unit = 10.0 ** (int((digits[2] or "0").replace("−", "-")) - len(digits[1] or ""))
    off = (shown - value) / unit
    if len(digits[1] or "") > 10:  # as Python prints it, rounding of the last digits included
        return math.isclose(shown, value, rel_tol=1e-9)
    if isinstance(exact, Down):
        return -1 - SLACK < off <= SLACK
    if isinstance(exact, Up):
        return -SLACK <= off < 1 + SLACK
    return abs(off) <= 0.5 + SLACK


def agree(text: str, *exact: Exact) -> list[str]:
    """List the wrong numbers of a text; their order is that of the exact ones."""
    shown = re.findall(NUMBER, text)
    if len(shown) != len(exact):
        return [f"{text!r} shows {len(shown)} numbers, not {len(exact)}"]
    return [
        f"{text!r} shows {one}, and it is {wanted}"
        for one, wanted in zip(shown, exact, strict=True)
        if not shows(one, wanted)
    ]


def row_agrees(name: str, heading: str, label: str, *cells: Exact | tuple[Exact, ...]) -> list[str]:
    """Compares the row of a table, by its first cell, with what its other cells should show."""
    (found,) = [row[1:] for row in rows(section(name, heading)) if row[0] == label] or [[]]
    if len(found) != len(cells):
        return [f"{name}, {heading}: {label!r} has {len(found)} cells, not {len(cells)}"]
    wrong = []
    for text, exact in zip(found, cells, strict=True):
        wanted = exact if type(exact) is tuple else (exact,)
        wrong += agree(text, *wanted)
    return [f"{name}, {heading}, {label}: {what}" for what in wrong]


def text_agrees(name: str, pattern: str, *exact: Exact) -> list[str]:
    """Compares a sentence, in which each # stands for a number, with the numbers."""
    text = " ".join(re.sub(r"^#(?!#) ?", "", page(name), flags=re.MULTILINE).split())
    literal = re.escape(" ".join(pattern.split())).replace(r"\#", f"({NUMBER})")
    found = list(re.finditer(literal.replace(r"\ ", " "), text))
    if len(found) != 1:
        return [f"{name}: {pattern!r} occurs {len(found)} times"]
    shown = found[0].groups()
    if len(shown) != len(exact):
        return [f"{name}: {pattern!r} shows {len(shown)} numbers, not {len(exact)}"]
    return [
        f"{name}: {found[0][0]!r} shows {one}, and it is {wanted}"
        for one, wanted in zip(shown, exact, strict=True)
        if not shows(one, wanted)
    ]
