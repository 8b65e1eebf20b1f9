"""Counts as they come in: the order changes nothing, a gap is never counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.small_audits import interrupted_at

from dpframe.count.rounds import PrefixCounts
from dpframe.draw.streams import Segment, segments

ROWS = 8
laws = settings(derandomize=True, deadline=None, max_examples=40)


def of_rows(dataset: int, first: int, stop: int) -> Any:
    """Counts of rows first … stop − 1: sums that tell which rows, and how often."""
    rows = np.arange(first, stop, dtype=np.int64) + 1
    counts = np.zeros((1, 1, 2, 3), np.int64)
    counts[0, 0, dataset] = [len(rows), rows.sum(), (rows * rows).sum()]
    return (counts,)


def of(dataset: int, segment: Segment) -> Any:
    whole = (segment.stop - segment.first - 1) * ROWS
    return of_rows(dataset, segment.first * ROWS, segment.first * ROWS + whole + segment.limit)


def zero() -> Any:
    return (np.zeros((1, 1, 2, 3), np.int64),)


def total_of(trials: tuple[int, int]) -> Any:
    return of_rows(0, 0, trials[0])[0] + of_rows(1, 0, trials[1])[0]


@st.composite
def arrivals(draw: Any) -> tuple[int, tuple[int, int], list[tuple[int, Segment]]]:
    """Trials, what is stored already, and all that is missing, in some order."""
    trials = draw(st.integers(1, 12 * ROWS))
    done = tuple(draw(st.integers(0, trials // ROWS)) for _ in range(2))
    missing = []
    for dataset in (0, 1):
        cut = draw(st.integers(1, 4))
        whole, tail = divmod(trials, ROWS)
        firsts = range(done[dataset], whole, cut)
        missing += [(dataset, Segment(f, min(f + cut, whole), ROWS)) for f in firsts]
        missing += [(dataset, Segment(whole, whole + 1, tail))] if tail else []
    return trials, done, draw(st.permutations(missing))


def stored(done: tuple[int, int]) -> PrefixCounts:
    return PrefixCounts((total_of((done[0] * ROWS, done[1] * ROWS)),), done, ROWS)


@laws
@given(arrivals())
def test_any_order_after_any_prefix_gives_the_whole(case: Any) -> None:
    trials, done, order = case
    tally = stored(done)
    for dataset, segment in order:
        tally.add(dataset, segment, of(dataset, segment))
    counts, got = tally.total()
    assert got == (trials, trials)
    assert (counts[0] == total_of((trials, trials))).all()
    assert tally.done == (trials // ROWS,) * 2


@laws
@given(arrivals(), st.data())
def test_what_is_there_is_always_a_prefix(case: Any, data: Any) -> None:
    """Whatever is missing, totals hold what came, and the prefix exactly the rows it says.

    Where the rest goes on from the prefix, nothing is lost and nothing comes twice.
    """
    trials, done, order = case
    arrived = data.draw(st.integers(0, len(order)))
    tally = stored(done)
    for dataset, segment in order[:arrived]:
        tally.add(dataset, segment, of(dataset, segment))
    counts, got = tally.total()
    came = [(d, s) for d, s in order[:arrived]]
    expected = total_of((done[0] * ROWS, done[1] * ROWS)) + sum(of(d, s)[0] for d, s in came)
    assert (counts[0] == expected).all()
    prefix = (tally.done[0] * ROWS, tally.done[1] * ROWS)
    assert (tally.prefix[0] == total_of(prefix)).all()
    for dataset in (0, 1):
        whole = {s.first for d, s in order[:arrived] if d == dataset and s.limit == ROWS}
        assert tally.done[dataset] not in whole
        more = sum((s.stop - s.first) * s.limit for d, s in came if d == dataset)
        assert got[dataset] == done[dataset] * ROWS + more

    rest = PrefixCounts(tally.prefix, tally.done, ROWS)
    for dataset in (0, 1):
        for segment in segments(trials, ROWS, 1, tally.done[dataset]):
            rest.add(dataset, segment, of(dataset, segment))
    counts, got = rest.total()
    assert got == (trials, trials)
    assert (counts[0] == total_of(got)).all()


@laws
@given(arrivals())
def test_a_segment_that_comes_twice_counts_once(case: Any) -> None:
    trials, done, order = case
    tally = stored(done)
    for dataset, segment in [*order, *order]:
        tally.add(dataset, segment, of(dataset, segment))
    assert (tally.total()[0][0] == total_of((trials, trials))).all()


def test_what_comes_after_a_gap_counts_but_is_not_stored() -> None:
    """A box may hang at one chunk, and others go on."""
    tally = PrefixCounts(zero(), (0, 0), ROWS)
    tally.add(0, Segment(3, 4, 5), of(0, Segment(3, 4, 5)))
    tally.add(0, Segment(2, 3, ROWS), of(0, Segment(2, 3, ROWS)))
    assert tally.total()[1] == (ROWS + 5, 0)
    assert tally.done == (0, 0)
    assert not tally.prefix[0].any()
    tally.add(0, Segment(0, 0, ROWS), of(0, Segment(0, 0, ROWS)))
    assert tally.total()[1] == (ROWS + 5, 0)
    tally.add(0, Segment(0, 2, ROWS), of(0, Segment(0, 2, ROWS)))
    counts, got = tally.total()
    assert got == (3 * ROWS + 5, 0)
    assert tally.done == (3, 0)
    assert (counts[0] == total_of(got)).all()
    assert tally.done == (3, 0)


def test_a_signal_in_the_middle_counts_nothing_twice() -> None:
    """Ctrl-C and SIGTERM raise between any two lines, and the prefix is stored then."""
    for moment in range(1, 1000):
        tally = PrefixCounts(zero(), (0, 0), ROWS)
        tally.add(0, Segment(1, 3, ROWS), of(0, Segment(1, 3, ROWS)))
        first = Segment(0, 1, ROWS)

        def add(tally: PrefixCounts = tally, first: Segment = first) -> None:
            tally.add(0, first, of(0, first))

        cut = interrupted_at(PrefixCounts.add, moment, add)
        prefix = (tally.done[0] * ROWS, tally.done[1] * ROWS)
        assert (tally.prefix[0] == total_of(prefix)).all(), moment
        if not cut:
            break
    else:
        pytest.fail("never came to the end")
    assert moment > 5
    assert tally.done == (3, 0)
