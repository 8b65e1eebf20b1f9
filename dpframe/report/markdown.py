"""A calibration as a page of the documents."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from dpframe.report import calibration as prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WIDTH = 110


def calibration_page(found: dict[str, Any], command: str, day: str) -> str:
    """The whole page.

    Args:
        found: what `dpframe.calibrate` returns.
        command: what makes the page again.
        day: on which it was made.
    """
    return "\n".join(_lines(found, command, day)) + "\n"


def _lines(found: dict[str, Any], command: str, day: str) -> Iterator[str]:
    bounds = any(row["certified"] for row in found["rows"])
    yield f"# How often {'bounds exceed' if bounds else 'estimates are above'} the truth"
    yield ""
    yield from _wrapped(
        "What estimators said about mechanisms whose true ε is known, over and over again. This "
        "page is what the command below printed."
    )
    yield ""
    yield "<!-- no-run: takes minutes -->"
    yield "```sh"
    yield command
    yield "```"
    for paragraph in prose.explanation(found):
        yield ""
        yield from _wrapped(paragraph)
    for rows in prose.tables(found["rows"]):
        yield ""
        yield f"## {prose.title(rows[0])}"
        yield ""
        yield from _table(prose.HEADS, map(prose.cells, rows))
    if found["corners"]:
        yield ""
        yield "## At the corner of a curve"
        yield ""
        yield from _wrapped(prose.corner_explanation(found))
        yield ""
        yield from _table(prose.CORNER_HEADS, map(prose.corner_cells, found["corners"]))
    if found["together"]:
        yield ""
        yield "## Audits as a whole"
        yield ""
        yield from _wrapped(prose.whole_explanation())
        yield ""
        yield from _table(prose.WHOLE_HEADS, map(prose.whole_cells, found["together"]))
    yield ""
    yield "## Result"
    yield ""
    yield from _wrapped(prose.conclusion(found))
    if left := list(prose.failures(found)):
        yield ""
        yield from (f"* {line}" for line in left)
    yield ""
    environment = found["environment"]
    versions = ", ".join(f"{name} {environment[name]}" for name in ("dpframe", "jax", "scipy"))
    yield f"Seed {found['seed']}; {versions}; {day}."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield _line(heads)
    yield _line(["---"] * len(heads))
    yield from map(_line, rows)


def _line(texts: Any) -> str:
    return "| " + " | ".join(str(text).replace("|", "\\|") for text in texts) + " |"
