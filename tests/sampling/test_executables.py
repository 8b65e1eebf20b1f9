"""Programs are found without being traced, and never one that would count something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pytest
from support.tiers import mostly_slow

from dpframe.builtin.attacks import fixed as majority_vote
from dpframe.builtin.attacks.fixed import MajorityVote
from dpframe.engine import programs
from dpframe.sampling import compile_cache as executables, program_keys as ingredients
from dpframe.sampling.compile_cache import CompiledProgram, keep_executables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OUTPUTS = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]], np.float32)
VOTES = [True, False, True]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory in which programs are kept; they may be so as soon as the files are there."""
    monkeypatch.setattr(ingredients, "settled", lambda: True)
    before = executables.directory()
    keep_executables(tmp_path)
    yield tmp_path
    keep_executables(before)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows whenever something is traced and lowered."""
    found: list[int] = []
    make = CompiledProgram._lowered

    def counted(self: Any, *args: Any) -> Any:
        found.append(1)
        return make(self, *args)

    monkeypatch.setattr(CompiledProgram, "_lowered", counted)
    return found


def score(attack: Any = None, outputs: Any = OUTPUTS) -> list[bool]:
    """Scores in what is a new process, as far as programs in memory go."""
    jax.clear_caches()
    ingredients.forget()
    function = programs.score_given.__wrapped__  # type: ignore[attr-defined]
    return np.asarray(CompiledProgram(function, ())(attack or MajorityVote(), (), outputs)).tolist()


@pytest.mark.slow
def test_a_program_is_lowered_once(kept: Path, lowered: list[int]) -> None:
    assert [score() for _ in range(3)] == [VOTES] * 3
    assert len(lowered) == len(list(kept.iterdir())) == 1


def test_what_stands_in_place_of_a_helper_is_used(
    kept: Path, lowered: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert score() == VOTES
    with monkeypatch.context() as patch:
        patch.setattr(majority_vote, "_row_sums", lambda mask: 3 - mask.sum(axis=1))
        assert score() == [False, True, False]
    with monkeypatch.context() as patch:
        patch.setattr(MajorityVote, "score", lambda self, state, outputs: outputs[:, 0] > 2)
        assert score() == [False] * 3
    assert score() == VOTES
    assert len(lowered) == 1  # programs that are not known well enough go to JAX as before


@pytest.mark.parametrize(
    "kind", mostly_slow(["cut", "changed", "another's", "nonsense"], ("cut", "changed"))
)
def test_a_file_that_is_not_what_was_written_is_not_run(
    kind: str, kept: Path, lowered: list[int]
) -> None:
    score(outputs=OUTPUTS[:2])
    (other,) = kept.iterdir()
    score()
    (file,) = set(kept.iterdir()) - {other}
    content = file.read_bytes()
    changed = content[:-1] + bytes([content[-1] ^ 1])
    new = {"cut": content[:-9], "changed": changed, "another's": other.read_bytes()}
    file.write_bytes(new.get(kind, b"nonsense"))
    assert score() == VOTES
    assert len(lowered) == 3
    assert file.read_bytes()[:9] != b"nonsense"
    assert score() == VOTES
    assert len(lowered) == 3


def test_nothing_is_kept_of_files_that_changed_meanwhile(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingredients.code_of_package()  # the key is made before they change
    monkeypatch.setattr(ingredients, "settled", lambda: False)
    assert score() == VOTES
    assert not list(kept.iterdir())


def test_what_was_replaced_after_the_look_is_not_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score(outputs=OUTPUTS[:2])  # its source is known now
    with monkeypatch.context() as patch:
        patch.setattr(majority_vote, "_row_sums", lambda mask: mask[:, 0].astype(int))
        patch.setattr(ingredients, "forget", lambda: None)
        score()
    assert len(list(kept.iterdir())) == 1
    assert score() == VOTES


def test_what_jax_had_in_its_own_cache_is_kept_whole(kept: Path, lowered: list[int]) -> None:
    """A loaded program lacks its functions when it is written out again."""
    keep_executables(None)
    assert score() == VOTES  # JAX's cache has it now
    keep_executables(kept)
    assert [score() for _ in range(2)] == [VOTES] * 2
    assert len(lowered) == 1


def test_several_devices_are_left_to_jax(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "devices", lambda *_: [1, 2])
    assert score() == VOTES
    assert not list(kept.iterdir())


def test_a_shape_is_traced_once(kept: Path) -> None:
    traced: list[int] = []

    def find() -> tuple[int, ...]:
        traced.append(1)
        return (3,)

    def shape(rows: int = 3, function: Any = programs.count_outputs) -> tuple[int, ...]:
        ingredients.forget()
        return executables.remembered(function, (OUTPUTS,), {"rows": rows}, find)

    assert [shape(), shape(), shape()] == [(3,)] * 3
    assert len(traced) == 1
    shape(rows=4)
    assert len(traced) == 2
    (file, *_) = kept.iterdir()
    file.write_bytes(b"")
    shape(rows=3)
    shape(rows=4)
    assert len(traced) == 3
    shape(function=find)  # not dpframe's own
    shape(function=find)
    assert len(traced) == 5
