"""Canaries from files: what is read, and what is refused with a clear reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpframe.errors import ScoresError
from dpframe.scores.columns import as_canaries, read_members

if TYPE_CHECKING:
    from pathlib import Path

SCORES, MEMBERS = np.array([0.5, -1.0, np.nan]), np.array([True, False, True])


def test_every_format(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", scores=SCORES, members=MEMBERS, more=[1])
    np.save(tmp_path / "a.npy", np.stack([SCORES, MEMBERS], axis=1))
    (tmp_path / "a.csv").write_text("score,member\n0.5,1\n-1,false\nnan,True\n\n")
    (tmp_path / "b.csv").write_text('0.5,1\n"-1",0\nnan,1\n')
    for name in ("a.npz", "a.npy", "a.csv", "b.csv"):
        found = read_members(tmp_path / name)
        assert np.array_equal(found.values, SCORES, equal_nan=True)
        assert found.members.tolist() == MEMBERS.tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "1,1\n2,maybe\n", "a.csv:2: 'maybe' is neither in nor out; write 1 or 0"),
        ("a.npz", "no", "not an .npz file"),
    ],
)
def test_what_is_no_canary(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ScoresError, match=message):
        read_members(tmp_path / name)


def test_what_is_not_there_or_not_whole(tmp_path: Path) -> None:
    with pytest.raises(ScoresError, match="no such file"):
        read_members(tmp_path / "gone.npz")
    np.savez(tmp_path / "a.npz", scores=SCORES)
    with pytest.raises(
        ScoresError, match="name the column with --member: the only column is scores"
    ):
        read_members(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.zeros((3, 3)))
    with pytest.raises(ScoresError, match="name the column with --column: there are 3, counted"):
        read_members(tmp_path / "a.npy")
    objects: Any = np.array([{}], object)
    np.savez(tmp_path / "b.npz", scores=objects, members=objects)
    with pytest.raises(ScoresError, match=r"not an \.npz file of plain arrays"):
        read_members(tmp_path / "b.npz")


def test_lengths_and_kinds() -> None:
    with pytest.raises(ScoresError, match="3 scores and 2 memberships"):
        as_canaries(SCORES, MEMBERS[:2], "canaries")
    assert as_canaries(MEMBERS, [1, 0, 1], "canaries").scores.tolist() == [1.0, 0.0, 1.0]


TABLE = "id;p in;Score;note\nr1;1;0.5;a b\nr2;0;-1;\nr3;1;nan;x\n"


@pytest.mark.parametrize(
    ("column", "member"), [(None, "p in"), ("Score", "p in"), ("3", "2"), ("Score", "2")]
)
def test_columns_of_a_larger_table(tmp_path: Path, column: str | None, member: str) -> None:
    for separator in ";,\t":
        (tmp_path / "t.csv").write_text(TABLE.replace(";", separator))
        scores, members, _ = read_members(tmp_path / "t.csv", column, member)
        assert np.array_equal(scores, SCORES, equal_nan=True)
        assert members.tolist() == MEMBERS.tolist()


@pytest.mark.parametrize(
    ("content", "column", "member", "message"),
    [
        (TABLE, None, None, "name the column with --member: there are id, p in, Score, note"),
        (TABLE, "scor", "p in", "--column: there is no column 'scor'; .* did you mean 'Score'"),
        (TABLE, "5", "p in", "there is no column '5'"),
        (TABLE, "Score", "3", "scores and memberships are two columns"),
        ("a,a\n1,1\n", "a", "2", "--column: 2 columns are called 'a'"),
    ],
)
def test_columns_that_are_not_there(
    tmp_path: Path, content: str, column: str | None, member: str | None, message: str
) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ScoresError, match=message):
        read_members(tmp_path / "t.csv", column, member)


def test_arrays_with_one_column_and_with_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", score=SCORES[:, None], is_member=MEMBERS)
    named = np.zeros(3, [("score", "f8"), ("other", "f8"), ("member", "?")])
    named["score"], named["member"] = SCORES, MEMBERS
    np.save(tmp_path / "a.npy", named)
    for name in ("a.npz", "a.npy"):
        scores, members, _ = read_members(tmp_path / name)
        assert np.array_equal(scores, SCORES, equal_nan=True)
        assert members.tolist() == MEMBERS.tolist()


def test_decisions_stay_decisions(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("score,member\ntrue,1\nFalse,0\n")
    scores, members, _ = read_members(tmp_path / "t.csv")
    assert scores.dtype == np.bool_
    assert as_canaries(scores, members, "t").scores.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "id,label,mia_score,is_member\n0,7,0.5,in\n1,3,-1,OUT\n2,0,nan,in\n"),
        ("t.csv", "Label,Loss\n1,0.5\n-1,-1\n1,nan\n"),
        ("t.csv", "other,score\nmember,0.5\nnon-member,-1\nmember,nan\n"),
        ("t.csv", "0.5,train\n-1,test\nnan,train\n"),
        ("t.jsonl", '{"score": 0.5, "membership": true, "more": null}\n\n'
         '{"membership": 0, "score": -1, "more": [1]}\n'
         '{"score": NaN, "membership": "yes", "more": "x"}\n'),
        ("t.jsonl", '{"a": "0.5", "b": 1}\n{"a": -1, "b": -1}\n{"a": "nan", "b": 1}'),
    ],
)  # fmt: skip
def test_names_and_words_in_common_use(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_members(tmp_path / name)
    assert np.array_equal(found.values, SCORES, equal_nan=True)
    assert found.members is not None
    assert found.members.tolist() == MEMBERS.tolist()
    assert found.is_loss is ("Loss" in text)


def test_memberships_in_words_of_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", loss=SCORES, label=np.array(["in", "out", "in"]))
    found = read_members(tmp_path / "w.npz")
    assert (found.members.tolist(), found.is_loss) == (MEMBERS.tolist(), True)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.jsonl", '{"score": 1}\n[1]\n', "t.jsonl:2: not an object, such as"),
        ("t.jsonl", '{"score": 1, "member": 1}\n{"score": 1}\n', "t.jsonl:2: other keys than"),
        ("t.jsonl", '{"score": [1], "member": 1}', "is not a number"),
        ("t.jsonl", "\n" + "[" * 100_000, "t.jsonl:2: not JSON"),
    ],
)
def test_what_is_ambiguous_or_no_number(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ScoresError, match=message):
        read_members(tmp_path / name)
