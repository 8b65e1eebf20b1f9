"""The counts of one pass as they come in: in any order, or round by round.

Estimators that bet need rounds: on a round they bet what they know from earlier ones. Rounds end at
fixed numbers of draws, whatever the number of trials; more trials continue with the same rounds,
and only the last round is cut. Rounds within the first chunk are slices of it, all counted in one
call; beyond it, rounds end with chunks.
"""

import bisect
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.types import HostArray, Tree
from dpframe.count.plan import Pass, PassPosition
from dpframe.draw.streams import SEGMENT_ELEMENTS, Segment
from dpframe.errors import WrongResultError
from dpframe.interfaces.plugin_calls import call_plugin, zero_of
from dpframe.interfaces.statistic import Statistic


class PrefixCounts:
    """Counts by dataset: a gapless prefix of whole chunks, segments beyond a gap, and the tail.

    Only the prefix is stored, because counting can continue only after a prefix. The estimate uses
    all counts. The prefix has the counts of the chunks 0 … done[d] − 1, every leaf int64 and zero
    if none.
    """

    def __init__(self, prefix: Tree, done: tuple[int, int], rows: int) -> None:
        self.rows = rows
        self._counted = prefix, done
        self._beyond: tuple[dict[int, tuple[int, Tree]], ...] = ({}, {})
        self._tail: list[tuple[Segment, Tree] | None] = [None, None]
        self._total: tuple[Tree, tuple[int, int]] | None = None

    @property
    def prefix(self) -> Any:
        """Counts of the chunks 0 … done[d] − 1 of each dataset d."""
        return self._counted[0]

    @property
    def done(self) -> tuple[int, int]:
        """Number of whole chunks in the prefix, per dataset."""
        return self._counted[1]

    def add(self, dataset: int, segment: Segment, counts: Tree) -> None:
        """Take in the counts of a segment, once; a segment that was cut to nothing has none."""
        if segment.stop == segment.first or segment.first < self.done[dataset]:
            return
        self._total = None
        if segment.limit < self.rows:
            self._tail[dataset] = (segment, counts)
            return
        waiting = self._beyond[dataset]
        waiting[segment.first] = (segment.stop, counts)
        while self.done[dataset] in waiting:
            stop, counts = waiting.pop(self.done[dataset])
            done = (stop, self.done[1]) if dataset == 0 else (self.done[0], stop)
            # One assignment: a signal may raise anywhere, and the prefix is stored then.
            self._counted = _sum(self.prefix, counts), done

    def total(self) -> tuple[Tree, tuple[int, int]]:
        """Return all counts so far, and their number of trials per dataset.

        A black box that hangs leaves a gap, and draws beyond it count as trials. Every cell of the
        pass needs the sum, so it is kept.
        """
        if self._total is None:
            counts = self.prefix
            for beyond, tail in zip(self._beyond, self._tail, strict=True):
                for _, more in beyond.values():
                    counts = _sum(counts, more)
                if tail is not None:
                    counts = _sum(counts, tail[1])
            self._total = counts, self.trials
        return self._total

    @property
    def trials(self) -> tuple[int, int]:
        """Number of trials that have come in, per dataset."""
        whole = [
            done + sum(stop - first for first, (stop, _) in tuple(beyond.items()))
            for done, beyond in zip(self.done, self._beyond, strict=True)
        ]
        n0, n1 = (
            number * self.rows + (tail[0].limit if tail is not None else 0)
            for number, tail in zip(whole, self._tail, strict=True)
        )
        return n0, n1


def _sum(a: Tree, b: Tree) -> Any:
    return trees.map(np.add, a, b)


@functools.lru_cache(maxsize=64)
def _zero_without_layout(statistic: Statistic, x64: bool) -> Tree:
    return zero_of(statistic, ())


def no_counts(the_pass: Pass, layouts: tuple[Tree, ...]) -> tuple[Any, ...]:
    """Return counts of no draws, per scorer; every leaf [variants, attacks, …]."""

    def zeros(statistic: Any, layout: Tree, attacks: int) -> Any:
        own = trees.map(lambda leaf: leaf[0, 0], layout)
        if isinstance(own, tuple) and not own:  # no pilot has fixed anything, as in most passes
            x64 = "jax" in sys.modules and jax.config.jax_enable_x64  # type: ignore[attr-defined]
            zero = _zero_without_layout(statistic, x64)
        else:
            zero = zero_of(statistic, own)
        shape = (len(the_pass.mechanisms), attacks)
        return trees.map(lambda leaf: np.zeros((*shape, *leaf.shape), np.asarray(leaf).dtype), zero)

    return tuple(
        zeros(scorer.statistic, layout, len(scorer.attacks))
        for scorer, layout in zip(the_pass.scorers, layouts, strict=True)
    )


FIRST_ROUND = 8
"""Draws of the first round, on each dataset. It fixes the events, so nothing is bet on it."""

EARLY_PARTS, LATE_PARTS, LATE_FROM = 16, 5, 20_000
"""A round is 1/EARLY_PARTS of all draws before it, and 1/LATE_PARTS beyond LATE_FROM draws."""

LEAST_ROUND = 4  # draws of a round, at least

SEGMENT_PARTS = 16  # parts of a segment, so that threads share a round


def ends(trials: int, rows: int, *, whole: bool) -> list[int]:
    """Return the draws on each dataset at the end of each round; the last end is `trials`.

    If chunks are too expensive to draw twice, every round ends with a whole one.
    """
    round_ends: list[int] = []
    end = 0
    while end < trials:
        step = (
            max(LEAST_ROUND, end // (EARLY_PARTS if end < LATE_FROM else LATE_PARTS))
            if end
            else FIRST_ROUND
        )
        end += step
        if whole or end > rows:
            end = -(-end // rows) * rows
        round_ends.append(min(end, trials))
    return round_ends


@functools.lru_cache(maxsize=64)
def most_slices(rows: int) -> int:
    """Return the number of rounds that begin in the first chunk, if chunks are cut."""
    return len(ends(rows, rows, whole=False))


class RoundSpan(NamedTuple):
    """A round's place among the draws."""

    start: int
    end: int
    full: bool  # False if the number of trials cuts it short


class Rounds:
    """Counts of rounds as they come in, in any order.

    `zeros` are counts of nothing per scorer, every leaf [variants, attacks, 2, …]. With `whole` all
    rounds end with a chunk of `rows` rows.
    """

    def __init__(
        self, zeros: tuple[Tree, ...], trials: int, rows: int, elements: int, *, whole: bool
    ) -> None:
        self.rows = rows
        stops = ends(trials, rows, whole=whole)
        further = frozenset(
            ends(trials + 2 * max(trials, rows, FIRST_ROUND), rows, whole=whole)[:-1]
        )
        self.parts = [
            RoundSpan(start, end, end in further)
            for start, end in zip([0, *stops[:-1]], stops, strict=True)
        ]
        self.zero = trees.map(lambda leaf: leaf.astype(np.int64), zeros)
        self._step = max(1, SEGMENT_ELEMENTS // SEGMENT_PARTS // (rows * max(1, elements)))
        self._sliced = not whole  # True if the first chunk is cut into slices, a round each
        self._starts = [part.start for part in self.parts]
        self._whole = [part.start // rows for part in self.parts]
        self.variants = trees.leaves(zeros)[0].shape[0]
        self.upto = [0] * self.variants  # number of rounds that each variant has
        self.counts: list[Any] = []
        """Per scorer counts of each round that a variant has, leaves [variants, attacks, 2, …]."""
        self.next = 0  # the round that comes next
        self.active = list(range(self.variants))  # variants that are counted in it
        self._missing: dict[int, int] = {}
        """Chunks of a round that have not come in, on both datasets together."""
        self._sums: dict[int, Any] = {}

    @property
    def trials(self) -> tuple[int, int]:
        """Draws in the ended rounds, per dataset, of the variant that has most."""
        most_rounds = max(self.upto)
        end = self.parts[most_rounds - 1].end if most_rounds else 0
        return end, end

    @property
    def done(self) -> tuple[int, int]:
        """Whole chunks before the round that comes next, per dataset."""
        chunk = self.parts[self.next].start // self.rows if self.next < len(self.parts) else 0
        return chunk, chunk

    def of(self, place: PassPosition, upto: int) -> list[Tree]:
        """Return a cell's counts of each of the first rounds."""
        return [place.own(counts) for counts in self.counts[:upto]]

    def take_stored(self, variant: int, upto: int, by_position: dict[tuple[int, int], Any]) -> None:
        """Take in the stored first rounds of a variant.

        `by_position` has per scorer and attack the counts of each round, every leaf [2, …].
        """
        for number in range(upto):
            self._grow(number)
            for (scorer, attack), rounds in by_position.items():
                _put(self.counts[number][scorer], (variant, attack), rounds[number])
        self.upto[variant] = upto

    def go_on(self, variants: Sequence[int]) -> None:
        """Count next the earliest round that some of these variants lack."""
        lacking = [variant for variant in variants if self.upto[variant] < len(self.parts)]
        self.next = min((self.upto[variant] for variant in lacking), default=len(self.parts))
        before = set(self.active)
        self.active = [variant for variant in lacking if self.upto[variant] == self.next]
        # Keep the slice of the first chunk that begins the next round, if these variants have it.
        begun = {self.next} & self._sums.keys() if before.issuperset(self.active) else set()
        self._missing = {number: self._missing[number] for number in begun}
        self._sums = {number: self._sums[number] for number in begun}

    def step(self) -> int:
        """Return the number of rounds to count before the estimators are asked again.

        All those within the first chunk are counted in one call.
        """
        return max(1, sum(part.end <= self.rows for part in self.parts[self.next :]))

    def units(self, rounds: int | None = None) -> Iterator[tuple[int, Segment]]:
        """Yield (dataset, segment) of the rounds from the next one on, D and D′ in turn.

        Default: all rounds that are left.
        """
        stop = len(self.parts) if rounds is None else min(len(self.parts), self.next + rounds)
        parts, slices = self.parts[self.next : stop], self._slices()
        for dataset in (0, 1) if slices else ():
            yield dataset, Segment(0, 1, slices[-1][1], slices)
        for part in parts:
            for segment in self._segments(part):
                yield 0, segment
                yield 1, segment

    def _slices(self) -> tuple[tuple[int, int], ...]:
        """Return the slices of the first chunk that are needed from the next round on."""
        return tuple(
            (part.start, min(part.end, self.rows))
            for number, part in enumerate(self.parts)
            if number >= self.next and self._in_slices(part) and number not in self._sums
        )

    def _in_slices(self, part: RoundSpan) -> bool:
        return self._sliced and part.start < self.rows

    def _segments(self, part: RoundSpan) -> Iterator[Segment]:
        first, (whole, tail) = part.start // self.rows, divmod(part.end, self.rows)
        if self._in_slices(part):
            first, tail = 1, tail if whole else 0
        for at in range(first, whole, self._step):
            yield Segment(at, min(at + self._step, whole), self.rows)
        if tail:
            yield Segment(whole, whole + 1, tail)

    def add(self, dataset: int, segment: Segment, counts: Any) -> None:
        """Take in the counts of a segment, once; those of variants that are not active are zero."""
        del dataset  # counts have an axis for it
        if segment.stop == segment.first:
            return
        if not segment.slices:
            self._add(self._round_of(segment), counts, segment.stop - segment.first)
        for place, (start, _) in enumerate(segment.slices):
            own = trees.map(lambda leaf, at=place: leaf[at], counts)
            self._add(bisect.bisect_left(self._starts, start), own, 1)

    def _add(self, number: int, counts: Any, chunks: int) -> None:
        if number < self.next:
            return
        part = self.parts[number]
        if number not in self._missing:
            first, last = part.start // self.rows, -(-part.end // self.rows)
            self._missing[number] = 2 * (last - first)
            self._sums[number] = self.zero
        self._sums[number] = _sum(self._sums[number], counts)
        self._missing[number] -= chunks
        while self._missing.get(self.next) == 0:
            self._end_round()

    def _round_of(self, segment: Segment) -> int:
        if segment.limit == self.rows:  # the last round that begins in this chunk contains it
            return bisect.bisect_right(self._whole, segment.first) - 1
        end = segment.first * self.rows + segment.limit
        return bisect.bisect_left(self.parts, end, key=lambda part: part.end)

    def _end_round(self) -> None:
        number = self.next
        counts = self._sums[number]
        self._grow(number)
        for variant in self.active:
            _put(self.counts[number], variant, trees.map(lambda leaf, at=variant: leaf[at], counts))
            self.upto[variant] = number + 1
        self.next += 1  # last: a signal may raise anywhere, and repeating this is harmless
        del self._missing[number], self._sums[number]

    def _grow(self, number: int) -> None:
        if number == len(self.counts):
            self.counts.append(trees.map(np.copy, self.zero))


def _put(tree: Any, place: Any, new: Any) -> None:
    for leaf, value in zip(trees.leaves(tree), trees.leaves(new), strict=True):
        leaf[place] = value


# Check all counts that arrive from a thread, another machine, or a file.
#
# Counts are integers, never negative, in the shape of empty counts. Most statistics can also tell
# how many scores they counted, which is known: every row of a chunk is counted once.


LARGEST_COUNT = 1 << 62  # no count is larger, so totals fit in 64 bits


def checked_counts(
    statistic: Statistic, counts: Any, zero: Tree, trials: Any, lead: int = 0
) -> Tree:
    """Return counts as int64 if they can be the counts of this number of scores.

    Args:
        statistic: gives the number of scores in its counts, if it can.
        counts: anything, such as the reply of a worker.
        zero: counts of nothing; every leaf [*lead, 2, …].
        trials: scores on each dataset, shape [2], or any that broadcasts to [*lead, 2].
        lead: number of axes before that of the dataset.

    Raises:
        WrongResultError: they cannot be.
    """
    try:
        leaves = trees.parts_at_leaves(zero, counts)
    except Exception:  # whatever something unknown raises
        raise WrongResultError("counts of another structure") from None
    return counts_of_leaves(statistic, leaves, zero, trials, lead)


def counts_of_leaves(
    statistic: Statistic, leaves: Any, zero: Tree, trials: Any, lead: int = 0
) -> Tree:
    """Return counts from a list of their leaves, which are nested lists in a file.

    Arguments and errors are those of `checked_counts`.
    """
    zeros, structure = trees.flatten(zero)
    if not isinstance(leaves, list | tuple) or len(leaves) != len(zeros):
        raise WrongResultError("counts of another structure")
    arrays = [integers(leaf, np.shape(own)) for leaf, own in zip(leaves, zeros, strict=True)]
    counts = trees.unflatten(structure, arrays)
    sums = call_plugin("counted", statistic.counted, counts)
    wanted = np.asarray(trials, np.int64)
    # Any statistic counts less than 2³¹ in one call, and a call has at least one score.
    largest = (
        wanted
        if sums is not None
        else np.where(wanted < LARGEST_COUNT >> 31, wanted << 31, LARGEST_COUNT)
    )
    for leaf in arrays:
        limits = np.broadcast_to(largest, leaf.shape[: lead + 1])
        if np.any(leaf > limits.reshape(limits.shape + (1,) * (leaf.ndim - lead - 1))):
            raise WrongResultError("more counts than there are scores")
    if sums is not None and call_plugin("counted", lambda: np.any(sums != wanted)):
        raise WrongResultError("counts that do not add up to the number of scores")
    return counts


def integers(counts: Any, shape: tuple[int, ...] | None = None) -> HostArray:
    """Return an array of counts, or a nested list of them, as int64; raise WrongResultError."""
    try:
        array = np.asarray(counts)
    except Exception:  # not even rectangular, or something unknown
        raise WrongResultError("something that is not an array") from None
    if array.dtype.kind not in "iu":
        raise WrongResultError(f"{array.dtype} in place of counts")
    if shape not in (None, array.shape):
        raise WrongResultError(f"counts of shape {array.shape} in place of {shape}")
    if array.size and (array.min() < 0 or array.max() > LARGEST_COUNT):
        raise WrongResultError("counts that are negative or impossibly large")
    return array.astype(np.int64)
