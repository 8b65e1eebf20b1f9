"""Scores with memberships, from one file: of records, or of the canaries of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.errors import ScoresError
from dpframe.scores.columns import chosen
from dpframe.scores.files import as_scores
from dpframe.scores.tables import read_table

if TYPE_CHECKING:
    from pathlib import Path

    from dpframe.types import HostArray


class Canaries(NamedTuple):
    """The canaries of one run."""

    scores: HostArray
    """Larger means more like a member, shape [m], float32 or float64."""
    members: HostArray
    """Which were in, shape [m], booleans."""


def as_canaries(scores: Any, members: Any, name: str) -> Canaries:
    """Checks that values are scores and memberships of the same canaries.

    Args:
        scores: shape [m], as `as_scores` takes them; booleans count as 0 and 1.
        members: shape [m], booleans, or numbers that are 0 or 1.
        name: what messages call them.

    Raises:
        ScoresError: they are not.
    """
    values, inside = as_members(scores, members, name)
    if values.dtype == np.bool_:
        values = values.astype(np.float32)
    return Canaries(values, inside)


def as_members(scores: Any, members: Any, name: str) -> tuple[HostArray, HostArray]:
    """The same, with booleans left as they are: decisions.

    Returns:
        Scores and memberships, shape [m] each.
    """
    values = as_scores(scores, f"{name}: scores")
    inside = as_scores(members, f"{name}: members")
    if len(values) != len(inside):
        raise ScoresError(f"{name}: {len(values):,} scores and {len(inside):,} memberships")
    if not np.isin(inside, (0, 1)).all():
        wrong = inside[~np.isin(inside, (0, 1))][0]
        raise ScoresError(f"{name}: a membership is {wrong:g}; 1 is in and 0 is out")
    return values, inside.astype(bool)


def read_canaries(path: Path, column: str | None = None, member: str | None = None) -> Canaries:
    """Reads canaries from a file; arguments and exceptions are those of `read_members`."""
    return as_canaries(*_both(path, column, member), str(path))


def read_members(
    path: Path, column: str | None = None, member: str | None = None
) -> tuple[HostArray, HostArray]:
    """Reads scores and memberships from a .csv, .parquet, .npz or .npy file.

    Columns, or arrays of an .npz file, are found by the titles that are usual; of two columns
    without such titles the first is the score. A membership is 1 or 0, in a .csv file also true or
    false.

    Args:
        path: the file; its ending says what it is.
        column: title of the scores, or their place from 1.
        member: the same of the memberships.

    Returns:
        Scores and memberships, shape [m] each.

    Raises:
        ScoresError: the file is not there, cannot be read, or holds something else.
    """
    return as_members(*_both(path, column, member), str(path))


def _both(path: Path, column: str | None, member: str | None) -> tuple[HostArray, HostArray]:
    table = read_table(path)
    places = [
        chosen(table, option, wanted, path, default)
        for default, (option, wanted) in enumerate((("--column", column), ("--member", member)))
    ]
    if places[0] == places[1]:
        raise ScoresError(f"{path}: scores and memberships are two columns")
    return table.column(places[0]), table.column(places[1])
