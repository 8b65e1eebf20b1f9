"""Chunks and segments: every row once, whatever was done before."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dpframe.draw.streams import CHUNK_ELEMENTS, SEGMENT_ELEMENTS, rows_per_chunk, segments

pytestmark = pytest.mark.usefixtures("usual_chunks")


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((), 65536),
        ((1,), 65536),
        ((2,), 32768),
        ((3,), 16384),
        ((128,), 512),
        ((10, 10), 512),
        ((65536,), 1),
        ((10**6,), 1),
        ((0,), 65536),
    ],
)
def test_rows_come_from_the_shape_alone(shape: tuple[int, ...], rows: int) -> None:
    assert rows_per_chunk(shape) == rows


@given(
    st.integers(1, 10**12),
    st.integers(0, 16).map(lambda power: 1 << power),
    st.integers(1, 10**5),
    st.data(),
)
def test_segments_cover_every_row_once(
    trials: int, rows: int, size: int, data: st.DataObject
) -> None:
    whole = trials // rows
    done = data.draw(st.integers(max(0, whole - 50), whole))
    covered, at = done * rows, done
    for segment in segments(trials, rows, size, done):
        assert segment.first == at
        assert segment.stop > segment.first
        assert (segment.stop - segment.first) * segment.limit < 2**31
        covered += (segment.stop - segment.first) * segment.limit
        at = segment.stop
    assert covered == trials


def test_a_segment_is_bounded_work() -> None:
    longest = max(s.stop - s.first for s in segments(10**9, 65536, 1))
    assert longest * 65536 <= SEGMENT_ELEMENTS
    assert CHUNK_ELEMENTS <= SEGMENT_ELEMENTS
