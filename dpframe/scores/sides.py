"""Read the two sides of scores made elsewhere, find what makes them doubtful, and draw the ROC."""

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from dpframe.common.types import HostArray, Ints
from dpframe.errors import DpframeError, ScoresError
from dpframe.scores.columns import (
    NO_COLUMNS,
    Columns,
    as_scores,
    is_path,
    is_score,
    plain_title,
    read_scores,
    read_with_members,
)

FEWEST_REPEATS = 20  # different scores, of which each occurs several times
REPEATED = 0.9  # share of different scores that occur equally often, if rows are repeated
FEWEST_VALUES = 10  # different scores; lists of fewer may be equal by accident

SET_ASIDE = 0.05  # share of the scores that only the test of their direction sees
MOST_SET_ASIDE = 1_000  # of each side
FEWEST_KEPT = 20  # first scores of each side, which are never set aside
FALSE_REVERSAL = 1e-3  # probability that scores in the right direction are taken for reversed


class SeveralRunsError(ScoresError):
    """There is a row of scores for each model, which only `score_one_run` takes."""


class Side(NamedTuple):
    """One side's scores and their source."""

    name: str
    values: HostArray
    is_loss: bool = False
    column: str = ""

    def described(self) -> dict[str, Any]:
        """Return their entries in the record."""
        values = self.values
        lacking = 0 if values.dtype == np.bool_ else int(np.count_nonzero(np.isnan(values)))
        entries = {"name": self.name, "scores": len(values), "nan": lacking}
        entries["type"] = str(values.dtype)
        return {**entries, "column": self.column} if self.column else entries


def read_sides(
    scores_in: Any, scores_out: Any, column: str | None, member: str | None, members: Any
) -> tuple[Side, Side, Columns]:
    """Return the scores on D′ and on D, and the columns that held them; arguments as of `score`.

    Raises ScoresError if they cannot be read, and DpframeError if they cannot be two sides.
    """
    inside, outside, columns = _read(scores_in, scores_out, column, member, members)
    _check_different(inside, outside)
    return inside, outside, columns


def _read(
    scores_in: Any, scores_out: Any, column: str | None, member: str | None, members: Any
) -> tuple[Side, Side, Columns]:
    """Return the scores on D′ and on D, and the columns that held them."""
    if scores_out is not None:
        if member is not None or members is not None:
            raise DpframeError("member: two files need no memberships")
        if is_path(scores_in) and is_path(scores_out) and _same_file(scores_in, scores_out):
            raise DpframeError(f"{scores_in}: is given for both sides; the same scores twice test "
                               "nothing")  # fmt: skip
        inside = _read_side(scores_in, "scores in", column, side=True)
        outside = _read_side(scores_out, "scores out", column, side=False)
        return inside, outside, NO_COLUMNS
    if not is_path(scores_in) and members is None:
        raise DpframeError(
            "scores_out: must be missing if one file contains all scores with memberships"
        )
    name, read = read_with_members(scores_in, members, column, member, "scores")
    values, is_member = read.values, read.members
    assert is_member is not None
    if is_member.all() or not is_member.any():
        raise ScoresError(f"{name}: nothing is {'out' if is_member.all() else 'in'}")
    if values.ndim == 2:
        raise SeveralRunsError(
            f"{name}: scores have shape {values.shape}, a row for each model. Scores of one model "
            "depend on each other: use score_one_run"
        )
    inside = Side(f"{name}, in", values[is_member], read.is_loss)
    return inside, Side(f"{name}, out", values[~is_member], read.is_loss), read.columns


def _read_side(scores: Any, name: str, column: str | None, *, side: bool) -> Side:
    if is_path(scores):
        read = read_scores(Path(scores), column, side)
        title = read.columns.score
        return Side(os.fspath(scores), read.values, read.is_loss, title)
    return Side(name, as_scores(scores, name))


def _same_file(one: Any, two: Any) -> bool:
    try:
        return Path(one).samefile(two)
    except OSError:  # reported when it is read
        return False


def _check_different(inside: Side, outside: Side) -> None:
    """Raise DpframeError if the sides are of different kinds, or the same list."""
    if (inside.values.dtype == np.bool_) != (outside.values.dtype == np.bool_):
        raise DpframeError(
            f"{inside.name} and {outside.name}: decisions on one side and scores on the other"
        )
    one, two = inside.values, outside.values
    for side, other in ((inside, two), (outside, one)):
        values = np.unique(side.values)
        numbers = side.values.dtype != np.bool_ and np.isin(values, (0, 1)).all()
        if numbers and len(values) == 2 and one.shape == two.shape and len(np.unique(other)) > 2:
            raise DpframeError(
                f"{side.name} holds only 0 and 1: if these are memberships, pass them as members "
                "(--members FILE); if they are decisions, pass booleans on both sides"
            )
    titles = {title for title in (inside.column, outside.column) if is_score(title)}
    if len(titles) == 2 and (
        inside.is_loss != outside.is_loss or len(set(map(plain_title, titles))) == 2
    ):
        raise DpframeError(
            f"{inside.name} has scores in column {inside.column}, and {outside.name} in column "
            f"{outside.column}: name one column of both with --column"
        )
    equal = one.shape == two.shape and np.array_equal(one, two, equal_nan=one.dtype != np.bool_)
    if equal and len(np.unique(one)) >= FEWEST_VALUES:
        raise DpframeError(
            f"{inside.name} and {outside.name} are equal in every row. The same scores twice "
            "test nothing: pass scores with the record and scores without it"
        )


# Doubts: NaN, repeated rows, and the direction of the scores.


def nan_warnings(outside: HostArray, inside: HostArray) -> list[str]:
    """Return a warning if some scores are NaN, because these may be missing."""
    out, within = (
        0 if values.dtype == np.bool_ else int(np.count_nonzero(np.isnan(values)))
        for values in (outside, inside)
    )
    if not out + within:
        return []
    return [
        f"{out + within:,} scores are NaN ({within:,} in, {out:,} out). NaN counts as a value of "
        "its own, below every number. If these scores are missing, remove their rows on both sides."
    ]


def repeat_warnings(*sides: HostArray) -> list[str]:
    """Return a warning if each score occurs several times, because rows may be repeated."""
    for values in sides:
        if values.dtype == np.bool_:
            continue
        _, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        if len(counts) < FEWEST_REPEATS:
            continue
        usual = int(np.bincount(counts).argmax())
        share = float(np.mean(counts == usual))
        # No rounded numbers: these occur in different numbers, or often.
        many = len(counts) >= 5 * FEWEST_REPEATS and counts.mean() <= 4 and counts.min() >= 2
        if many or (usual >= 2 and share >= REPEATED):
            which = "Each" if counts.min() >= 2 else f"{100 * share:.0f} %"
            times = f"{counts.min():,} times or more" if counts.min() >= 2 else f"{usual:,} times"
            return [
                f"{which} of {len(counts):,} different scores occurs {times}: "
                "are rows repeated? Bounds assume independent scores, so they are too large then. "
                "Remove repeated rows."
            ]
    return []


def without_nan(scores: tuple[HostArray, ...], rng: np.random.Generator) -> tuple[HostArray, ...]:
    """Replace NaN by scores drawn from all others, which do not show the side."""
    known = np.concatenate([values[~np.isnan(values)] for values in scores])
    filled = [values.copy() for values in scores]
    for values in filled:
        lacking = np.isnan(values)
        values[lacking] = rng.choice(known, int(lacking.sum())) if known.size else 0.0
    return tuple(filled)


def oriented(values: HostArray, *, lower: bool | None) -> HostArray:
    """Negate scores if lower scores indicate the record."""
    if not lower:
        return values
    return ~values if values.dtype == np.bool_ else -values


def set_aside(count: int, rng: np.random.Generator) -> HostArray:
    """Choose scores that no bound uses; return booleans of shape [count].

    The choice among earlier scores does not depend on the count: bets on a growing file must not
    change.
    """
    chosen = rng.random(count) < SET_ASIDE
    chosen[:FEWEST_KEPT] = False
    return chosen & (np.cumsum(chosen) <= MOST_SET_ASIDE)


def reversed_p_value(outside: HostArray, inside: HostArray) -> float | None:
    """Test the hypothesis that scores with the record are stochastically no lower than without.

    This is the Mann-Whitney test with ties, in its normal approximation [Mann1947].

    Args:
        outside: scores on D, shape [n].
        inside: scores on D′, shape [m].

    Returns:
        The p-value; None if a side is empty or all scores are equal.
    """
    n, m = len(outside), len(inside)
    values = np.concatenate([_ordered(outside), _ordered(inside)])
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    if not n * m or len(times) == 1:
        return None
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    below = float(ranks[n:].sum()) - m * (m + 1) / 2
    ties = float((times**3 - times).sum()) / ((n + m) * (n + m - 1))
    deviation = math.sqrt(n * m / 12 * (n + m + 1 - ties))
    return float(ndtr((below - n * m / 2 + 0.5) / deviation))


class ScoreDirection(NamedTuple):
    """The direction of the scores according to the caller and the title of the column."""

    lower_is_member: bool | None
    is_loss: bool

    @property
    def lower(self) -> bool | None:
        """True if lower scores indicate the record; None if this is not known."""
        return True if self.lower_is_member is None and self.is_loss else self.lower_is_member

    def set_aside(self, count: int, rng: np.random.Generator) -> HostArray:
        """Choose the scores that test the direction; return booleans of shape [count].

        They are also set aside if the caller says that lower scores indicate the record. The caller
        may know this from an earlier test of these scores, and a bound on scores that chose the
        direction would not be valid.
        """
        if self.lower_is_member is False or (self.is_loss and self.lower):
            return np.zeros(count, bool)
        return set_aside(count, rng)

    def direction(self, outside: HostArray, inside: HostArray) -> dict[str, Any]:
        """Return the direction, and the result of its test on the scores set aside."""
        p_value = reversed_p_value(outside, inside) if self.lower is None else None
        by = "title" if self.lower_is_member is None and self.is_loss else "option"
        return {
            "lower_is_member": self.lower,
            "stated_by": "default" if self.lower is None else by,
            "called_loss": self.is_loss,
            "set_aside": [len(outside), len(inside)],
            "p_value": p_value,
            "level": FALSE_REVERSAL,
            "reversed": None if p_value is None else p_value <= FALSE_REVERSAL,
            "drawn_reversed": False,
        }


MOST_THRESHOLDS = 200  # thresholds of each kind and side, if there are many scores


def roc(outside: HostArray, inside: HostArray) -> list[list[float]]:
    """Return the points (FPR, TPR) of thresholds on the scores.

    If there are many scores, only some ranks of both sides are thresholds, spaced evenly and
    logarithmically from both ends, so that rare errors are resolved. NaN is below every number.

    Args:
        outside: scores on D, shape [n].
        inside: scores on D′, shape [m].

    Returns:
        Frequencies, which are not bounds: shape [k][2], rising from (0, 0) to (1, 1); empty if a
        side is empty.
    """
    if not (len(outside) and len(inside)):
        return []
    sides = [np.sort(_ordered(values)) for values in (outside, inside)]
    places = np.unique(np.concatenate([values[_ranks(len(values))] for values in sides]))
    fpr, tpr = ((len(v) - np.searchsorted(v, places)) / len(v) for v in sides)
    points = np.unique(np.stack([fpr, tpr], axis=1), axis=0).tolist()
    return [[0.0, 0.0], *points]


def _ordered(values: HostArray) -> HostArray:
    if values.dtype.kind != "f":
        return values.astype(np.float32)
    return np.where(np.isnan(values), -np.inf, values)


def _ranks(count: int) -> Ints:
    """Return the ranks of the thresholds among `count` sorted scores."""
    if count <= 3 * MOST_THRESHOLDS:
        return np.arange(count)
    near = np.unique(np.geomspace(1, count, MOST_THRESHOLDS).astype(np.int64))
    even = np.linspace(0, count - 1, MOST_THRESHOLDS).astype(np.int64)
    return np.unique(np.concatenate([near - 1, even, count - near]))
