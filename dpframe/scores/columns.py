"""Which column of a table is meant: by its title, its place, or what is usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.errors import ScoresError
from dpframe.suggest import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dpframe.scores.tables import Table

USUAL = {
    "--column": ("score", "scores"),
    "--member": ("member", "members", "membership", "is_member"),
}
"""Titles that need not be named, in small letters, by what the user calls the choice."""


def chosen(
    table: Table, option: str, wanted: str | None, path: Path, default: int | None = None
) -> int:
    """The place of a column that a user may have named, from 0.

    Args:
        table: the file's content.
        option: what the user calls the choice, a key of `USUAL`.
        wanted: what the user named, if anything: a title, or a place from 1.
        path: of the file.
        default: the place that is taken if no title is usual and there are two columns.

    Raises:
        ScoresError: it cannot be known; says which there are.
    """
    titles = list(table.titles)
    if wanted is not None:
        return _named(titles, wanted, path, option)
    found = [n for n, title in enumerate(titles) if title.strip().lower() in USUAL[option]]
    if len(found) == 1:
        return found[0]
    if len(titles) == 2 and not found and default is not None:
        return default
    raise ScoresError(f"{path}: say which column with {option}: {_there_are(titles)}")


def _named(titles: list[str], wanted: str, path: Path, option: str) -> int:
    if titles.count(wanted) == 1:
        return titles.index(wanted)
    if wanted in titles:
        raise ScoresError(f"{path}: {option}: {titles.count(wanted)} columns are called {wanted!r}")
    if wanted.isdecimal() and 1 <= int(wanted) <= len(titles):
        return int(wanted) - 1
    raise ScoresError(
        f"{path}: {option}: there is no column {wanted!r}; {_there_are(titles)}"
        f"{did_you_mean([title for title in titles if title], wanted)}"
    )


def _there_are(titles: Sequence[str]) -> str:
    if not titles:
        return "there is none"
    if not any(titles):
        return f"there are {len(titles)}, counted from 1"
    return f"there are {listed([title or '(without a title)' for title in titles])}"
