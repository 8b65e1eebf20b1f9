"""Check a few chunks for mistakes that would invalidate all counts.

Bounds assume independent outputs, each scored alone. If a plugin breaks this assumption, no error
is raised and the counts look normal. So it is tested before counting, on outputs of the audit.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dpframe.common.types import HostArray
from dpframe.draw.streams import can_be_nan
from dpframe.errors import CellError

NAN_FOUND = "sample returned NaN; if that is intended, set may_be_nan = True in the mechanism"
FROZEN = (
    "sample returned the same outputs under different keys: it must draw its randomness from the "
    "key, because a NumPy draw is made only once, when the function is traced"
)
REPEATED = "all outputs of one call are equal but differ between calls: draw n independent ones"
NEIGHBOURS = (
    "score gave outputs different scores when other outputs were next to them: it must score every "
    "row independently, without means, order or comparisons over the first axis"
)
PLACES = (
    "score gave outputs different scores in a different order: it must score every row "
    "independently of its position"
)
SIZES = (
    "score gave outputs different scores in a smaller batch: it must score every row independently "
    "of their number"
)

LEAST_ROWS = 64
"""With fewer rows a fair coin could look like a frozen or a repeated draw."""


ROWS_IN_CROWD = 8
"""Rows that are scored in a crowd of equal rows; a rare row is hardly ever among them."""

SCORE_ROUNDING = 1e-4  # relative difference of two scores that rounding may make
LEAST_SCALE = 0.01  # least scale of rounding, as a share of the largest score; see `_scale`


def check_outputs_vary(chunks: Sequence[HostArray]) -> None:
    """Check a few chunks of one dataset, each drawn under a key of its own.

    Raises CellError if outputs are not independent; accuses a correct mechanism with probability
    below 1e-6.
    """
    first = chunks[0]
    if len(first) < LEAST_ROWS:
        return
    same = all(_equal(chunk, first).all() for chunk in chunks[1:])
    varied = [not _equal(chunk, chunk[:1]).all() for chunk in chunks]
    if varied[0] and same:
        raise CellError(FROZEN)
    if not any(varied) and not same:
        raise CellError(REPEATED)


def check_rows_alone(
    score: Callable[[HostArray], HostArray], chunks: tuple[HostArray, HostArray]
) -> None:
    """Score the rows of two chunks again, beside other rows, in another order and number.

    Beside other rows, no decision may change, and scores may change only by rounding that moves
    hardly any row across a threshold (a loop may run until every row has converged). In another
    order or number, scores may change by rounding, because different code may compute the same sum.
    The chunks, on D and on D′, have the length in which they are counted.

    Raises:
        CellError: a row's score depends on more than the row.
    """
    x, y = chunks
    n = len(x)
    if n < 2:
        return
    rng = np.random.default_rng(n)
    s, t = score(x), score(y)
    scale = _scale(np.concatenate([s, t]))
    half, order = rng.random(n) < 1 / 2, rng.permutation(n)
    mixtures = [(_mixed(half, x, y), _mixed(half, s, t)), (_mixed(half, y, x), _mixed(half, t, s))]
    if any(_changed(score(rows), each, scale, company=True) for rows, each in mixtures):
        raise CellError(NEIGHBOURS)
    if _changed(score(x[order]), s[order], scale, company=False):
        raise CellError(PLACES)
    for rows, expected in mixtures:
        for places, crowd in _crowds(rows, expected, order[:ROWS_IN_CROWD]):
            crowded = np.repeat(crowd, n, axis=0)
            crowded[places] = rows[places]
            scores = score(crowded)
            others = np.delete(scores, places)
            kept = scores[places], expected[places]
            crowd_changed = _changed(others, others[:1], scale, company=False)
            if crowd_changed or _changed(*kept, scale, company=True):
                raise CellError(NEIGHBOURS)
    part = min(LEAST_ROWS, n // 2)
    if _changed(score(x[:part]), s[:part], scale, company=False):
        raise CellError(SIZES)


def one_number(scores: HostArray) -> HostArray:
    """Return one number per row, float64 [n], which changes if any number of the row changes."""
    flat = scores.reshape(len(scores), -1).astype(np.float64)
    weights = np.random.default_rng(flat.shape[1]).uniform(0.5, 1.0, flat.shape[1])
    # A NaN or an infinity among many must not hide the others.
    ends = np.select([np.isnan(flat), flat == np.inf, flat == -np.inf], [1e3, 2e3, -2e3], flat)
    sums: HostArray = ends @ weights
    return sums


def _crowds(
    rows: HostArray, scores: HostArray, few: HostArray
) -> Iterator[tuple[HostArray, HostArray]]:
    """Yield places of rows to keep, and the row, shape [1, *dims], to put at all other places.

    The crowd need not be a possible output: it must not affect a row that is scored alone.
    """
    ends = np.array([scores.argmin(), scores.argmax()])
    for places in (few, ends):
        for end in ends:
            yield places, rows[end, None]
    if can_be_nan(rows.dtype):
        size = np.abs(rows).max(initial=0, where=np.isfinite(rows))
        for far in (3, -3):
            yield few, np.full_like(rows[:1], far * size)


def _mixed(mask: HostArray, a: HostArray, b: HostArray) -> HostArray:
    """Return the rows of `a` where the mask is True, else of `b`."""
    return np.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), a, b)


def _changed(after: HostArray, before: HostArray, scale: float, *, company: bool) -> bool:
    """True if scores changed by more than rounding, or too many decisions changed.

    Beside other rows (`company`), no decision may change, and only a few scores may cross one
    threshold by rounding. Elsewhere a few decisions may: trials that depend on their position alone
    are still independent, and their sum lies closer to its mean than a binomial one
    [Hoeffding1956, theorem 4].
    """
    changed = ~_equal(after, before)
    if before.dtype == np.bool_:
        return bool(changed.sum() > (0 if company else 1 + (len(before) >> 10)))
    if (changed & ~_rounded(after, before, scale)).any():
        return True
    return company and crossing(after[changed], before[changed]) > max(3, len(before) >> 14)


def crossing(after: HostArray, before: HostArray) -> int:
    """Return the largest number of rows that change sides of one threshold."""
    low = np.sort(np.minimum(after, before))
    high = np.sort(np.maximum(after, before))
    # At a threshold just below or at high[j], rows with low < it ≤ high are on both sides.
    inside = np.searchsorted(low, high, "left") - np.searchsorted(high, high, "left")
    return int(inside.max(initial=0))


def _equal(a: HostArray, b: HostArray) -> HostArray:
    """Compare rows; NaN equals NaN."""
    nan = np.not_equal(a, a) & np.not_equal(b, b)  # of any dtype that JAX has
    same: HostArray = np.equal(a, b) | nan
    return same


def _rounded(after: HostArray, before: HostArray, scale: float) -> HostArray:
    """Compare scores up to rounding."""
    a, b = np.asarray(after, np.float64), np.asarray(before, np.float64)
    size = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(invalid="ignore"):
        close: HostArray = np.abs(a - b) <= SCORE_ROUNDING * np.maximum(size, scale)
    return close & np.isfinite(a) & np.isfinite(b)


def _scale(scores: HostArray) -> float:
    """Return the size of scores against which rounding is measured.

    It is the median, but at least a share of the largest score: scores near 0 may be differences of
    larger numbers.
    """
    size = np.abs(np.asarray(scores, np.float64))
    size = size[np.isfinite(size)]
    return float(max(np.median(size), LEAST_SCALE * size.max())) if len(size) else 0.0
