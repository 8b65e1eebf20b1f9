"""Choose the columns of scores and memberships in a table, and check their values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe.common.text import cut, did_you_mean, listed
from dpframe.common.types import HostArray
from dpframe.errors import DpframeError, ScoresError
from dpframe.scores.tables import BOOLEANS, read_table

# Usual titles, without case, blanks and punctuation.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SCORES = _words(
    "score scores mia miascore miascores attackscore membershipscore memberscore loss losses nll "
    "crossentropy celoss ce xent perplexity ppl confidence conf confidences logit logits prob "
    "probability statistic stat margin likelihoodratio llr lira rmia loglikelihood loglik"
)
LOSSES = _words("loss losses nll crossentropy ce xent perplexity ppl error errors")
"""Titles of scores that are lower for members; titles that end with "loss" are too."""
MEMBERS = _words(
    "member members membership memberships ismember ismembers in isin intrain istrain train "
    "trained training intraining istraining intrainset istrainset intrainingset trainset "
    "trainingset intrainingdata usedintraining usedfortraining seen isseen wasseen included "
    "isincluded insample inside split datasplit traintest trainortest subset partition memberlabel "
    "membershiplabel mem ismem keep inmask inout"
)
OUTSIDERS = _words(
    "nonmember nonmembers isnonmember notmember test intest istest testset testing holdout "
    "isholdout heldout isheldout unseen isunseen out isout outofsample excluded isexcluded "
    "validation val isval"
)
"""Titles of columns that mark what was out."""
CLASSES = _words(
    "label labels target targets y ytrue truelabel truelabels trueclass class classes classlabel "
    "correct iscorrect prediction predictions predicted predictedlabel predictedclass pred preds "
    "ypred predlabel groundtruth gt category"
)
"""Titles of classes, or of answers about them."""
KEYS = _words(
    "id ids idx index indices row rows rowid rownumber number nr no n i key uuid guid name file "
    "filename path date time timestamp hash sample example record user canary epoch step seed run "
    "fold model unnamed0"
)
"""Titles of columns that number or name the rows; titles that end with "id" do too."""

_PAIRS = (
    "in out",
    "member nonmember",
    "member non-member",
    "member non_member",
    "member notmember",
    "members nonmembers",
    "yes no",
    "y n",
    "t f",
    "train test",
    "training testing",
    "train holdout",
    "seen unseen",
)
MEMBERSHIPS = {
    **BOOLEANS,
    **{word: not place for pair in _PAIRS for place, word in enumerate(pair.split())},
}
"""Words for memberships, in lower case."""

FEWEST_ROWS = 10  # rows from which equal or consecutive values are no accident


def plain_title(title: str) -> str:
    """Return a title in lower case, without blanks and punctuation."""
    return re.sub(r"[\W_]+", "", title).casefold()


def is_loss(title: str) -> bool:
    """True if a title says that scores are lower for members."""
    plain = plain_title(title)
    return plain in LOSSES or (plain.endswith("loss") and plain != "privacyloss")


def is_score(title: str) -> bool:
    """True if a title is a usual one of scores."""
    return plain_title(title) in SCORES or is_loss(title)


def _is_key(title: str) -> bool:
    ends = re.search(r"(^|[\W_]|[a-z](?=I))(id|idx|index|uuid)$", title.strip(), re.IGNORECASE)
    return plain_title(title) in KEYS or ends is not None


def _is_other(title: str) -> bool:
    """True if a title says that its column has no scores."""
    return _is_key(title) or plain_title(title) in CLASSES | MEMBERS | OUTSIDERS


class Columns(NamedTuple):
    """The columns in which scores and memberships were found, by title or position."""

    score: str  # empty for arrays and files of one column without a title
    membership: str = ""  # empty if the scores are of one side
    warnings: tuple[str, ...] = ()
    doubt: str = ""  # one of them, if memberships may be something else; then no claim is judged

    def described(self, inside: int, outside: int) -> dict[str, Any] | None:
        """Return their entry in the record, with the numbers of members and others."""
        if not self.membership:
            return None
        return {
            "score": self.score,
            "membership": self.membership,
            "in": inside,
            "out": outside,
        }


NO_COLUMNS = Columns("")
"""Columns of arrays, and of two files."""


class Scores(NamedTuple):
    """The scores of a file."""

    values: HostArray  # as from `as_scores`, shape [n], or [runs, m] of an archive of runs
    members: HostArray | None  # true if the record was in, of the same shape; None of one side
    columns: Columns

    @property
    def is_loss(self) -> bool:
        """True if the title says that scores are lower for members."""
        return is_loss(self.columns.score)


class _Chooser:
    """The columns of one file."""

    def __init__(self, path: Path) -> None:
        self.path, self.table = path, read_table(path)
        self.titles = list(self.table.titles)
        if not self.titles:
            raise ScoresError(f"{path}: contains no scores: it is empty")
        self.warnings: list[str] = []
        self.doubt = ""

    def name(self, place: int) -> str:
        """Return the title of a column, or its position."""
        return self.titles[place] or str(place + 1)

    def refuse(self, option: str, why: str = "") -> ScoresError:
        """Return the error that asks for the name of a column."""
        return ScoresError(
            f"{self.path}: name the column with {option}: {why or _there_are(self.titles)}"
            f"{self.table.hint}"
        )

    def named(self, name: str, option: str) -> int:
        """Return the column with a title, or at a position counted from 1."""
        titles = self.titles
        place = int(name) - 1 if re.fullmatch("[0-9]{1,6}", name) else -1
        matches = [n for n, title in enumerate(titles) if title == name]
        if len(matches) == 1:
            if 0 <= place < len(titles) and place != matches[0]:
                raise ScoresError(
                    f"{self.path}: {option} {name}: is the title of column {matches[0] + 1} and "
                    f"the position of another; rename the columns"
                )
            return matches[0]
        if matches:
            raise ScoresError(f"{self.path}: {option}: {len(matches)} columns are called {name!r}")
        if 0 <= place < len(titles):
            return place
        raise ScoresError(
            f"{self.path}: {option}: there is no column {cut(name)!r}; {_there_are(titles)}"
            f"{did_you_mean([title for title in titles if title], name)}"
        )

    def usual(self, option: str, places: Iterable[int]) -> int | None:
        """Return the only one of the columns with usual titles; None if there is none."""
        usual = list(places)
        if len(usual) > 1:
            raise self.refuse(option, f"{self._list(usual)} are both recognised")
        return usual[0] if usual else None

    def _list(self, places: Iterable[int]) -> str:
        return listed([self.name(n) for n in places])

    def find_members(self, name: str | None) -> int | None:
        """Return the column of memberships that was named, or has a usual title."""
        if name is not None:
            place = self.named(name, "--member")
            if plain_title(self.titles[place]) in CLASSES:
                self._warn_of_class(place)
            return place
        usual = [n for n, title in enumerate(self.titles) if plain_title(title) in MEMBERS]
        return self.usual("--member", usual)

    def _warn_of_class(self, place: int) -> None:
        self.warnings.append(
            f"Column {self.name(place)} is read as membership, but by its name it is a class or "
            "an answer about it. If so, these results say nothing about privacy: name the column "
            "of memberships with --member."
        )

    def _guess(self, place: int) -> None:
        """Take a column for memberships that nobody named; no claim is judged by it."""
        if plain_title(self.titles[place]) in CLASSES:
            self._warn_of_class(place)
        else:
            self.warnings.append(
                f"Column {self.name(place)} is read as membership, because it is the only other "
                "column. If it is something else, these results say nothing about privacy: name "
                "the column of memberships with --member."
            )
        self.doubt = self.warnings[-1]

    def find_score(self, name: str | None, members: int | None) -> int | None:
        """Return the column of scores that was named or can be no other; None for a choice."""
        titles = self.titles
        if name is not None:
            place = self.named(name, "--column")
            if place == members:
                raise ScoresError(f"{self.path}: scores and memberships are two columns")
            if _is_key(titles[place]) or plain_title(titles[place]) in MEMBERS:
                what = "numbers the rows" if _is_key(titles[place]) else "has memberships"
                raise self.refuse(
                    "--column", f"{titles[place]} {what}, judging by its name, and is not a score"
                )
            return place
        others = [n for n in range(len(titles)) if n != members]
        usual = self.usual("--column", (n for n in others if is_score(titles[n])))
        if usual is not None or not any(titles):
            return usual
        candidates = [n for n in others if titles[n] and not _is_other(titles[n])]
        return (
            candidates[0]
            if len(candidates) == 1 and (members is not None or len(titles) == 1)
            else None
        )

    def other_of_two(self, score: int | None) -> tuple[int, int]:
        """Return the columns of scores and memberships if titles say nothing of memberships."""
        titles = self.titles
        if len(titles) != 2:
            if score is None and not any(titles):
                raise self.refuse("--column")
            raise self.refuse("--member", self._classes())
        if score is None:
            others = [n for n, title in enumerate(titles) if _is_other(title)]
            if len(others) == 2:
                raise self.refuse("--column", self._classes())
            score = 1 - others[0] if others else 0
        members = 1 - score
        if _is_key(titles[members]) or is_score(titles[members]):
            raise self.refuse("--member")
        if titles[members]:
            self._guess(members)
        return score, members

    def _classes(self) -> str:
        classes = [n for n, t in enumerate(self.titles) if plain_title(t) in CLASSES]
        note = f"; {self._list(classes)} may be classes or answers" if classes else ""
        return _there_are(self.titles) + note

    def memberships(self, place: int) -> HostArray:
        """Return booleans; raises ScoresError, with the row, for anything else."""
        values = self.table.column(place, MEMBERSHIPS)
        title = self.name(place)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.dtype.kind not in "biuf":
            what = "is missing or neither in nor out"
            known = [str(value).strip().lower() in MEMBERSHIPS for value in values.ravel()]
            row = known.index(False) if False in known else 0
            shown = cut(str(values.ravel()[row]))
            raise ScoresError(
                f"{self.table.where(row)}: a membership {what}: {shown!r}; write 1 for in and 0 "
                f"for out (column {title})"
            )
        if set(np.unique(values)) == {-1, 1}:
            values = values > 0
        if (wrong := np.flatnonzero(~np.isin(values.ravel(), (0, 1)))).size:
            self._refuse_values(place, values.ravel(), int(wrong[0]))
        if plain_title(self.titles[place]) in OUTSIDERS:
            raise ScoresError(
                f"{self.path}: column {title} marks what was out, by its name; write a column "
                "that is 1 for what was in"
            )
        return values.astype(bool)

    def check_sides(self, place: int, inside: HostArray) -> None:
        """Raise ScoresError if all memberships are equal."""
        if inside.all() or not inside.any():
            side = "out" if inside.all() else "in"
            raise ScoresError(
                f"{self.path}: nothing is {side}: every membership is the same (column "
                f"{self.name(place)})"
            )

    def _refuse_values(self, place: int, values: HostArray, row: int) -> None:
        wrong = values[row]
        distinct = np.unique(values)
        more = ""
        if 1 < len(distinct) <= 3:
            more = f", and its values are {listed(f'{value:g}' for value in distinct)}"
        if len(self.titles) == 2 and self.table.titles[place] == "":
            try:
                other = np.unique(self.table.column(1 - place, MEMBERSHIPS))
            except ScoresError:
                other = distinct
            if np.isin(other, (-1, 0, 1)).all():
                more += (
                    f"; column {2 - place} could be it: --column {place + 1} --member {2 - place}"
                )
        what = "missing" if np.isnan(wrong) else f"{wrong:g}"
        raise ScoresError(
            f"{self.table.where(row)}: a membership is {what}; 1 is in, 0 or -1 is out (column "
            f"{self.name(place)}{more}){self.table.hint}"
        )


def _there_are(titles: Sequence[str]) -> str:
    if not any(titles):
        return f"there are {len(titles)}, counted from 1"
    called = listed([title or "(without a title)" for title in titles])
    return f"the only column is {called}" if len(titles) == 1 else f"there are {called}"


def read_scores(path: Path, column: str | None = None, side: bool | None = None) -> Scores:
    """Read scores of one side from a file in a format of `read_table`.

    `column` is the title of the column, or its position from 1; default: the only column, or the
    column with a usual title. A column of memberships must agree with `side`, true for scores with
    the record.
    """
    file = _Chooser(path)
    members = file.find_members(None) if len(file.titles) > 1 else None
    if members is not None:
        inside = file.table.column(members, MEMBERSHIPS)
        word = {True: "in", False: "out"}.get(side) if side is not None else None
        if word is None or not np.isin(inside, (1,) if side else (0, -1)).all():
            raise ScoresError(
                f"{path}: has memberships in column {file.name(members)}; pass this file alone, as "
                "TABLE, or only its rows of this side"
            )
    place = 0 if column is None and len(file.titles) == 1 else file.find_score(column, members)
    if place is None:
        raise file.refuse("--column")
    if len(file.titles) == 1 and column is None and _is_other(file.titles[0]):
        raise file.refuse("--column", f"{file.titles[0]} is not a score, judging by its name")
    values = _scores_of(file, place, named=column is not None)
    name = file.titles[place] or ("" if len(file.titles) == 1 else str(place + 1))
    return Scores(values, None, Columns(name))


def _scores_of(file: _Chooser, place: int, *, named: bool) -> HostArray:
    values = file.table.column(place)
    name = str(file.path) if len(file.titles) == 1 else f"{file.path}: column {file.name(place)}"
    scores = as_scores(values, name)
    if (
        not named
        and len(file.titles) > 1
        and _counts_rows(scores, called=is_score(file.titles[place]))
    ):
        raise file.refuse(
            "--column", f"{file.name(place)} numbers the rows, {scores[0]:g}, {scores[1]:g}, …"
        )
    return scores


def _counts_rows(values: HostArray, *, called: bool) -> bool:
    """True if values number the rows, in order, or in any order if they are not called scores."""
    if values.ndim != 1 or values.dtype == np.bool_ or len(values) < FEWEST_ROWS:
        return False
    if called:
        return float(values[0]).is_integer() and bool((np.diff(values) == 1).all())
    whole = bool((np.isfinite(values) & (np.floor(values) == values)).all())
    return whole and bool((np.diff(np.sort(values)) == 1).all())


def read_members(
    path: Path, column: str | None = None, member: str | None = None, beside: Path | None = None
) -> Scores:
    """Read scores and memberships from a file in a format of `read_table`.

    Columns, or arrays of an .npz file, are found by usual titles; of two columns without such
    titles the first has the scores. `column` and `member` are their titles, or positions from 1. A
    membership is 1, 0 or -1, or a word of `MEMBERSHIPS`. `beside` is another file with a membership
    for each row. Two arrays of an archive may have a row for each model and a column for each
    record.
    """
    file = _Chooser(path)
    plain = {plain_title(title) for title in file.titles}
    if len(plain) == 2 and plain & MEMBERS and plain & OUTSIDERS:
        raise ScoresError(
            f"{path}: {listed(file.titles)} may be scores of two sides; write them into two files, "
            "for --scores1 and --scores0"
        )
    if beside is not None:
        return _beside(file, column, member, _Chooser(beside))
    members = file.find_members(member)
    if members is None and len(file.titles) > 2 and not any(file.titles) and column is None:
        raise file.refuse("--column")
    score = file.find_score(column, members)
    if members is None:
        score, members = file.other_of_two(score)
    if score is None and not any(file.titles) and len(file.titles) == 2:
        score = 1 - members
    if score is None:
        raise file.refuse("--column")
    inside = file.memberships(members)
    values = _of_equal_shape(file, score, inside, named=column is not None)
    if not (column and member) and _is_copy(values, inside):
        raise ScoresError(
            f"{path}: column {file.name(score)} equals the memberships in every row. If it is the "
            "decision of an attack and no copy, name both columns with --column and --member"
        )
    file.check_sides(members, inside)
    columns = Columns(file.name(score), file.name(members), tuple(file.warnings), file.doubt)
    return Scores(values, inside, columns)


def _of_equal_shape(
    file: _Chooser, score: int, inside: HostArray, *, named: bool, of: str = ""
) -> HostArray:
    if inside.ndim == 1:
        values = _scores_of(file, score, named=named)
    else:
        values = as_scores(file.table.column(score), str(file.path), runs=True)
    if values.shape != inside.shape:
        raise ScoresError(f"{file.path}: {_sizes(values, inside)}{of}")
    return values


def _sizes(values: HostArray, inside: HostArray) -> str:
    if values.ndim == inside.ndim == 1:
        return f"{len(values):,} scores and {len(inside):,} memberships"
    return f"scores have shape {values.shape}, memberships {inside.shape}"


def _is_copy(values: HostArray, inside: HostArray) -> bool:
    if values.size < FEWEST_ROWS or values.dtype == np.bool_:
        return values.size >= FEWEST_ROWS and bool((values == inside).all())
    sides = np.unique(values[inside]), np.unique(values[~inside])
    return all(len(side) == 1 and side[0] in (-1, 0, 1) for side in sides) and sides[0] != sides[1]


def _beside(file: _Chooser, column: str | None, member: str | None, other: _Chooser) -> Scores:
    """Take scores from one file, and memberships from another."""
    own = file.find_members(None)
    if own is not None and len(file.titles) > 1:
        raise ScoresError(
            f"{file.path}: already has memberships, in column {file.name(own)}; leave out --members"
        )
    score = 0 if column is None and len(file.titles) == 1 else file.find_score(column, None)
    if score is None:
        raise file.refuse("--column")
    members = other.find_members(member)
    if members is None and len(other.titles) == 1:
        members = 0
        if plain_title(other.titles[0]) in CLASSES:
            other._guess(0)
        elif _is_key(other.titles[0]) or is_score(other.titles[0]):
            raise other.refuse("--member")
    if members is None:
        raise other.refuse("--member")
    inside = other.memberships(members)
    of = f" in {other.path}"
    values = _of_equal_shape(file, score, inside, named=column is not None, of=of)
    other.check_sides(members, inside)
    keys = {plain_title(t): n for n, t in enumerate(other.titles) if _is_key(t)}
    for place, title in enumerate(file.titles):
        if title and plain_title(title) in keys:
            pairs = zip(
                file.table.texts(place), other.table.texts(keys[plain_title(title)]), strict=True
            )
            for row, (one, two) in enumerate(pairs):
                if one != two:
                    raise ScoresError(
                        f"{file.table.where(row)}: {title} is {cut(one)}, and {cut(two)} in this "
                        f"row of {other.path}; sort both files alike"
                    )
    name = file.titles[score] or ("" if len(file.titles) == 1 else str(score + 1))
    membership = f"{other.titles[members] or members + 1} of {other.path}"
    columns = Columns(name or "1", membership, tuple(other.warnings), other.doubt)
    return Scores(values, inside, columns)


def as_scores(values: Any, name: str, *, runs: bool = False) -> HostArray:
    """Check that values are scores.

    Args:
        values: shape [n] or [n, 1], booleans, floats or integers; NaN and infinities are scores.
        name: their name in messages.
        runs: also accept scores of several runs, shape [runs, m].

    Returns:
        Shape [n], or [runs, m]: booleans, float32 or float64. Integers become float64.

    Raises:
        ScoresError: there are none, more than one column, or values that are not numbers.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise ScoresError(f"{name}: is a masked array; pass only the valid scores, compressed()")
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ScoresError(f"{name}: scores are one list of numbers") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 + (runs and array.ndim == 2):
        raise ScoresError(f"{name}: scores must be one column, shape [n]; this has {array.shape}")
    if not array.size:
        raise ScoresError(f"{name}: contains no scores")
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise ScoresError(f"{name}: scores must be booleans or numbers, not {array.dtype}")
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)


def is_path(value: Any) -> bool:
    """True if a value names a file."""
    return isinstance(value, str | os.PathLike)


def read_with_members(
    scores: Any, members: Any, column: str | None, member: str | None, name: str
) -> tuple[str, Scores]:
    """Return scores with memberships, each from an array or a file, and their name in messages.

    `column` and `member` are as for `read_members`; `name` is that of arrays. `members` is None if
    the file of the scores has both.
    """
    if not is_path(scores):
        if members is None:
            raise DpframeError(f"members: give the memberships of the {name}")
        if is_path(members):
            raise DpframeError("members: must be an array, as the scores are")
        return name, Scores(*as_members(scores, members, name), NO_COLUMNS)
    name = os.fspath(scores)
    if members is None or is_path(members):
        beside = None if members is None else Path(members)
        return name, read_members(Path(scores), column, member, beside)
    read = read_scores(Path(scores), column)
    values, inside = as_members(read.values, members, name)
    return name, read._replace(values=values, members=inside)


class CanaryScores(NamedTuple):
    """The canaries of one run, or of several independent runs."""

    scores: HostArray  # larger means more like a member, [m] or [runs, m], float32 or float64
    members: HostArray  # which were in, booleans of the same shape


def as_canaries(scores: Any, members: Any, name: str) -> CanaryScores:
    """Check scores and memberships of the same canaries, shape [m] or [runs, m] each.

    Scores are as for `as_scores`; booleans count as 0 and 1. Memberships are booleans, or numbers
    that are 0 or 1, or -1 and 1. `name` is for messages. Raises ScoresError for anything else.
    """
    values, inside = as_members(scores, members, name)
    if values.dtype == np.bool_:
        values = values.astype(np.float32)
    return CanaryScores(values, inside)


def as_members(scores: Any, members: Any, name: str) -> tuple[HostArray, HostArray]:
    """Check scores and memberships of equal shape, but keep decisions boolean."""
    values = as_scores(scores, f"{name}: scores", runs=True)
    inside = as_scores(members, f"{name}: members", runs=True)
    if inside.dtype != np.bool_ and set(np.unique(inside)) == {-1, 1}:
        inside = inside > 0
    if values.shape != inside.shape:
        raise ScoresError(f"{name}: {_sizes(values, inside)}")
    if not np.isin(inside, (0, 1)).all():
        wrong = inside[~np.isin(inside, (0, 1))][0]
        raise ScoresError(f"{name}: a membership is {wrong:g}; 1 is in, 0 or -1 is out")
    return values, inside.astype(bool)
