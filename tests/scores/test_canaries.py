"""Canaries from files: what is read, and what is refused with a clear reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpframe.errors import ScoresError
from dpframe.scores.canaries import as_canaries, read_canaries

if TYPE_CHECKING:
    from pathlib import Path

SCORES, MEMBERS = np.array([0.5, -1.0, np.nan]), np.array([True, False, True])


def test_every_format(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", scores=SCORES, members=MEMBERS, more=[1])
    np.save(tmp_path / "a.npy", np.stack([SCORES, MEMBERS], axis=1))
    (tmp_path / "a.csv").write_text("score,member\n0.5,1\n-1,false\nnan,True\n\n")
    (tmp_path / "b.csv").write_text('0.5,1\n"-1",0\nnan,1\n')
    for name in ("a.npz", "a.npy", "a.csv", "b.csv"):
        found = read_canaries(tmp_path / name)
        assert np.array_equal(found.scores, SCORES, equal_nan=True)
        assert found.members.tolist() == MEMBERS.tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "1,1", "reads canaries from .npz, .npy, .csv, .parquet files"),
        ("a.csv", "1,1\n2\n", "a.csv:2: a score and a membership; this has 1"),
        ("a.csv", "1,1\n2,yes\n", "a.csv:2: 'yes' is not a number"),
        ("a.csv", "1,1\n2,0.5\n", "a membership is 0.5; 1 is in and 0 is out"),
        ("a.csv", "1,nan\n", "a membership is nan"),
        ("a.csv", "score,member\n", "holds no scores"),
        ("a.npz", "no", "not an .npz file"),
        ("a.npy", "no", "not an .npy file"),
    ],
)
def test_what_is_no_canary(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ScoresError, match=message):
        read_canaries(tmp_path / name)


def test_what_is_not_there_or_not_whole(tmp_path: Path) -> None:
    with pytest.raises(ScoresError, match="no such file"):
        read_canaries(tmp_path / "gone.npz")
    np.savez(tmp_path / "a.npz", scores=SCORES)
    with pytest.raises(ScoresError, match="holds scores; the arrays scores and members"):
        read_canaries(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.zeros((3, 3)))
    with pytest.raises(ScoresError, match=r"two columns, shape \[m, 2\]; this has \(3, 3\)"):
        read_canaries(tmp_path / "a.npy")
    objects: Any = np.array([{}], object)
    np.savez(tmp_path / "b.npz", scores=objects, members=objects)
    with pytest.raises(ScoresError, match=r"not an \.npz file of plain arrays"):
        read_canaries(tmp_path / "b.npz")


def test_lengths_and_kinds() -> None:
    with pytest.raises(ScoresError, match="3 scores and 2 memberships"):
        as_canaries(SCORES, MEMBERS[:2], "canaries")
    assert as_canaries(MEMBERS, [1, 0, 1], "canaries").scores.tolist() == [1.0, 0.0, 1.0]
