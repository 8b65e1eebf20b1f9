"""Outputs as columns of numbers, and as words of 32 bits."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import Array, Floats, HostArray, Ints, Target

FEWEST = 10  # approximate count beyond the outermost cuts; fewer do not determine a ratio


def cuts(sorted_numbers: Floats, count: int) -> Floats:
    """Choose at most `count` distinct numbers at which to cut; all if they are few.

    Otherwise the cuts are quantiles at levels evenly spaced on the logit scale: close together in
    both tails, because rare outputs are the most informative.

    Args:
        sorted_numbers: ascending, without NaN, at least one.
        count: of cuts.
    """
    distinct, size = np.unique(sorted_numbers), len(sorted_numbers)
    if len(distinct) <= count:
        return distinct
    furthest = max(np.log(size / FEWEST), 1.0)
    levels = 1 / (1 + np.exp(-np.linspace(-furthest, furthest, count)))
    return np.unique(sorted_numbers[np.minimum((levels * size).astype(np.int64), size - 1)])


def tallied(sides: Sequence[HostArray]) -> tuple[HostArray, Ints]:
    """Return the distinct values of D and D′, ascending, and their counts, shape [2, k]."""
    seen, place = np.unique(np.concatenate(sides), return_inverse=True)
    parts = np.split(place, [len(sides[0])])
    return seen, np.stack([np.bincount(part, minlength=len(seen)) for part in parts])


def frequent(counts: Ints, most: int, least: int) -> tuple[Ints, Ints]:
    """Choose the most frequent values that occur at least `least` times in both samples together.

    Args:
        counts: of each value, shape [2, k].
        most: values, at most.
        least: occurrences.

    Returns:
        Their places, ascending, and the counts of each, with those of all others last.
    """
    total = counts.sum(axis=0)
    often = np.argsort(-total, kind="stable")[:most]
    kept = np.sort(often[total[often] >= least])
    rest = counts.sum(axis=1) - counts[:, kept].sum(axis=1)
    return kept, np.column_stack([counts[:, kept], rest])


def not_one_number(target: Target) -> str | None:
    """Return why outputs are not single numbers; None if they are."""
    if math.prod(target.dims) == 1:
        return None
    return f"takes single numbers, but outputs have shape {target.dims}"


# Functions of outputs take NumPy arrays and, traced, those of JAX.


def numbers(outputs: Array) -> Array:
    """Return outputs of one coordinate as floats, shape [n]."""
    return floats(outputs.reshape(len(outputs)))


def host_numbers(outputs: HostArray) -> Floats:
    """Return outputs of one coordinate as floats, shape [n]; on the host."""
    return np.asarray(outputs, np.float64).reshape(len(outputs))


def vectors(outputs: Array) -> Array:
    """Return outputs as float vectors, shape [n, coordinates]."""
    return floats(outputs.reshape(len(outputs), -1))


def floats(outputs: Array) -> Array:
    """Convert outputs of other types to floats."""
    return outputs if is_floating(outputs.dtype) else outputs.astype(float)


def is_floating(dtype: Any) -> bool:
    """True if values of a dtype are real floats, bfloat16 included."""
    return str(np.dtype(dtype).name).startswith(("float", "bfloat"))


SEEDS = (0x9E3779B9, 0x85EBCA6B)  # of the two digests of a row


def words(outputs: Any) -> Any:
    """Return the bits of outputs, shape [n, words], uint32; all NaN are equal, and −0 equals 0."""
    xp, rows = outputs.__array_namespace__(), outputs.reshape(len(outputs), -1)
    if is_floating(rows.dtype):
        rows = _at_least_single(rows)
        rows = xp.where(xp.isnan(rows), rows.dtype.type(np.nan), xp.where(rows == 0, 0, rows))
    elif rows.dtype.itemsize < 4:
        rows = rows.astype(np.int32)
    return bits_of(rows, np.uint32).reshape(len(rows), -1)


def _at_least_single(rows: Any) -> Any:
    return rows.astype(np.float32) if rows.dtype.itemsize < 4 else rows


def bits_of(rows: Any, word: Any) -> Any:
    """Return the bits of an array as words."""
    if isinstance(rows, np.ndarray):
        return np.ascontiguousarray(rows).view(word)
    from jax.lax import bitcast_convert_type

    return bitcast_convert_type(rows, word)


def digests(rows: Any) -> tuple[Any, Any]:
    """Return two digests of every row of shape [n, words], uint32 each; equal rows have equal ones.

    Different rows share both digests with a probability of about 2⁻⁶⁴; such rows get the same
    score.
    """
    places = np.arange(1, rows.shape[1] + 1, dtype=np.uint32)
    sums = [
        _mixed(rows ^ _mixed(places * np.uint32(seed))).sum(axis=1, dtype=np.uint32)
        for seed in SEEDS
    ]
    return _mixed(sums[0]), _mixed(sums[1])


def _mixed(word: Any) -> Any:
    """Mix the bits of each word; the map is a bijection."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        word = (word ^ (word >> np.uint32(shift))) * np.uint32(factor)
    return word ^ (word >> np.uint32(16))


FLAGS = 8  # special values of a column, at most

# Fills empty places of special values; an output with this value is not flagged.
NO_VALUE = 3.1e38
MANY_COLUMNS = 64  # with more columns, each has only two special values and no ramps
RAREST = 4000  # a special value has at least this inverse share, and occurs a few times
FURTHEST = 8.0  # spreads from the centre at which numbers are clipped
LARGEST = 1e30  # larger numbers and infinities are clipped to this, except by flags
LOOKED_AT = 2**13  # outputs per dataset from which features are chosen


class Columns(NamedTuple):
    """The features of each of c columns; features in empty places are always 0."""

    special: Any  # [c, flags]: frequent values; `NO_VALUE` in empty places
    centre: Any  # [c]
    spread: Any  # [c]
    start: Any  # [c, ramps]: where a ramp begins to rise from 0 to 1
    slope: Any  # [c, ramps]: 1/length of a ramp; 0 where there is none


def rows(outputs: Any, bits: bool) -> Any:
    """Return outputs as float rows, shape [n, c]."""
    flat = outputs.reshape(len(outputs), -1)
    if not is_floating(flat.dtype):
        return flat.astype(float)
    if bits or isinstance(flat, np.ndarray):
        flat = _at_least_single(flat)
    if not bits:
        return flat
    word = np.uint64 if flat.dtype == np.float64 else np.uint32
    return _with_bits(flat, bits_of(flat, word))


def _with_bits(numbers: Any, words: Any) -> Any:
    """Append signs, exponents, trailing zeros, and the exponent of the lowest bit as columns."""
    xp = numbers.__array_namespace__()
    digits, width = (23, 8) if words.dtype.itemsize == 4 else (52, 11)
    of = words.dtype.type
    one = of(1)
    exponent = (words >> of(digits)) & of((1 << width) - 1)
    mantissa = (words & of((1 << digits) - 1)) | of(1 << digits)
    zeros = xp.bitwise_count((mantissa & (~mantissa + one)) - one)
    parts = [words >> of(digits + width), exponent, zeros, exponent + zeros.astype(words.dtype)]
    return xp.concatenate([numbers, *(part.astype(numbers.dtype) for part in parts)], axis=1)


def nothing(count: int, like: Columns | None = None) -> Columns:
    """Return columns whose only feature is NaN, with the flags and ramps of `like` if given."""
    if like is None:
        flags = 2 if count > MANY_COLUMNS else FLAGS
        ramps = 0 if count > MANY_COLUMNS else min(max(64 // max(count, 1), 6), 32)
    else:
        flags, ramps = like.special.shape[1], like.start.shape[1]
    special, none = np.full((count, flags), NO_VALUE), np.zeros((count, ramps))
    return Columns(special, np.zeros(count), np.ones(count), none, none.copy())


def looked_at(
    train: tuple[HostArray, HostArray], rows: int = LOOKED_AT, like: Columns | None = None
) -> Columns:
    """Choose features from `rows` rows of outputs on D and on D′, each of shape [n, c].

    With `like`, each column has as many flags and ramps as the columns of `like`.
    """
    seen = [part[:rows].astype(np.float64) for part in train]
    columns = nothing(seen[0].shape[1], like)
    for at in range(len(columns.centre)):
        _look(Columns(*(part[at : at + 1] for part in columns)), *(part[:, at] for part in seen))
    return columns


def _look(column: Columns, d0: Floats, d1: Floats) -> None:
    """Fill in one column."""
    both = np.concatenate([d0, d1])
    numbers = np.sort(both[~np.isnan(both)])
    least = max(FLAGS, len(both) / RAREST)
    values, counts = np.unique(numbers, return_counts=True)
    common = np.argsort(-counts, kind="stable")[: column.special.shape[1]]
    special = values[common[counts[common] >= least]]
    column.special[0, : len(special)] = special
    finite = numbers[np.isfinite(numbers)]
    plain = finite[~np.isin(finite, special)]
    if len(plain) < least:
        plain = finite
    if not len(plain):
        return
    low, column.centre[0], high = np.quantile(plain, [0.16, 0.5, 0.84])
    spread = (high - low) / 2 or float(plain.std())
    column.spread[0] = spread if 1 / LARGEST < spread < LARGEST else 1.0
    if len(values) > len(special) and (ramps := column.start.shape[1]):
        # At the medians of D and D′ the ratio of two-sided noise has its kinks.
        halves = [np.median(x[np.isfinite(x)]) for x in (d0, d1) if np.isfinite(x).any()]
        knots = np.unique([*cuts(plain, ramps + 1 - len(halves)), *halves])
        knots = np.unique(np.clip(knots, -LARGEST, LARGEST))
        lengths = np.diff(knots)
        column.start[0, : len(lengths)] = knots[:-1]
        column.slope[0, : len(lengths)] = np.minimum(1 / lengths, LARGEST)


def see(columns: Columns, numbers: Any) -> Any:
    """Return the features of rows of shape [n, c], [n, features]: flags, values, ramps."""
    xp = numbers.__array_namespace__()
    kept = Columns(*(part.astype(numbers.dtype) for part in columns))
    missing = xp.isnan(numbers)
    plain = xp.where(missing, kept.centre, xp.clip(numbers, -LARGEST, LARGEST))
    flags = xp.concatenate(
        [numbers[:, :, None] == kept.special, missing[:, :, None]], axis=2, dtype=numbers.dtype
    )
    value = xp.clip((plain - kept.centre) / kept.spread, -FURTHEST, FURTHEST)
    with np.errstate(over="ignore"):  # an overflow lies beyond the end of its ramp
        ramps = xp.clip((plain[:, :, None] - kept.start) * kept.slope, 0, 1)
    # NaN has a flag of its own and lies on no ramp.
    parts = (flags, value, xp.where(missing[:, :, None], 0, ramps))
    return xp.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


class Weights(NamedTuple):
    """The weight of each feature."""

    flags: Any  # [c, flags + 1]
    value: Any  # [c]
    ramps: Any  # [c, ramps]


def weights(columns: Columns, flat: Floats) -> Weights:
    """Split weights in the order of features."""
    c, flags = columns.special.shape
    first, second, third = np.split(flat, [c * (flags + 1), c * (flags + 2)])
    return Weights(first.reshape(c, flags + 1), second, third.reshape(columns.start.shape))


def add_up(columns: Columns, weights: Weights, numbers: Array) -> tuple[Array, Array]:
    """Return the score of each column and its value, shapes [c, n].

    Rows lie along the last axis and features are visited one by one, so one pass over the outputs
    is enough, without a matrix of features. The value of NaN is beyond all others.
    """
    kept = Columns(*(part.astype(numbers.dtype) for part in columns))
    of = Weights(*(part.astype(numbers.dtype) for part in weights))
    x, xp = numbers.T, numbers.__array_namespace__()
    missing = xp.isnan(x)
    plain = xp.where(missing, kept.centre[:, None], xp.clip(x, -LARGEST, LARGEST))
    value = (plain - kept.centre[:, None]) / kept.spread[:, None]
    value = xp.clip(value, -FURTHEST, FURTHEST)

    def ramps() -> Any:
        total = xp.zeros_like(x)
        for at in range(kept.start.shape[1]):
            up = (plain - kept.start[:, at, None]) * kept.slope[:, at, None]
            total += of.ramps[:, at, None] * xp.clip(up, 0, 1)
        return total

    def flags() -> Any:
        total = xp.zeros_like(x)
        for at in range(kept.special.shape[1]):
            total += xp.where(x == kept.special[:, at, None], of.flags[:, at, None], 0)
        return total

    def none() -> Any:
        return xp.zeros_like(x)

    added = of.value[:, None] * value
    added += choose(xp.any(of.ramps != 0), ramps, none)
    added += choose(xp.any(of.flags != 0), flags, none)
    return (
        xp.where(missing, of.flags[:, -1, None], added),
        xp.where(missing, -1.25 * FURTHEST, value),
    )


def choose(condition: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """Call one of two functions; a traced condition decides in the compiled program."""
    if isinstance(condition, np.ndarray | np.generic):
        return one() if condition else other()
    from jax.lax import cond

    return cond(condition, one, other)


def place_in(ascending: Any, values: Any, side: Any = "left") -> Any:
    """Return the place at which each value would be inserted into ascending numbers."""
    if isinstance(values, np.ndarray):
        return np.searchsorted(ascending, values, side=side)
    xp: Any = values.__array_namespace__()
    return xp.searchsorted(ascending, values, side=side, method="scan_unrolled")
