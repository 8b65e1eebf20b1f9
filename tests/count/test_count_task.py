"""A segment of any size is counted with programs that take a fixed number of keys."""

from __future__ import annotations

import pytest
from support.small_audits import counts, document

from dpframe.count import kernel


def test_segments_of_more_chunks_than_a_program_takes_are_counted_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = counts(document())
    monkeypatch.setattr(kernel, "MOST_CHUNKS", 3)
    assert counts(document()) == whole
