"""The key of a program changes with all that the program would change with, or there is none."""

from __future__ import annotations

import ast
import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pytest

import dpframe
from dpframe import Attack
from dpframe.builtin.attacks import fixed as majority_vote
from dpframe.builtin.attacks.fixed import MajorityVote
from dpframe.builtin.mechanisms import laplace as _laplace
from dpframe.builtin.mechanisms.laplace import DPText, Laplace
from dpframe.engine import programs
from dpframe.report import words
from dpframe.sampling import address, program_keys, threefry
from dpframe.sampling.compile_cache import settings_in_words
from dpframe.sampling.program_keys import UnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """These tests may run as soon as the files are there."""
    monkeypatch.setattr(program_keys, "settled", lambda: True)
    yield
    forget()


def forget() -> None:
    """Forget the digests that are found once in a process."""
    for once in (program_keys._digest, program_keys.files, program_keys.surroundings):
        once.cache_clear()


def made(
    mechanism: Any = None, shape: tuple[int, ...] = (3,), dtype: str = "float32", rows: Any = 64
) -> str:
    """The key of a program that draws."""
    program_keys.forget()
    mechanism = mechanism or Laplace(epsilon=1.0, sensitivity=1.0)
    leaves = jax.tree.map(lambda value: np.asarray(value, dtype), mechanism)
    origin = programs.Origin(np.zeros(2, np.uint32), np.zeros(shape, dtype), np.int32(0))
    static = {"rows": rows, "prng": address.THREEFRY}
    function = programs.draw_chunk.__wrapped__  # type: ignore[attr-defined]
    return program_keys.program_key(function, settings_in_words(), (leaves, origin), static)


def scoring(attack: Any) -> str:
    """The key of a program that scores."""
    program_keys.forget()
    function = programs.score_given.__wrapped__  # type: ignore[attr-defined]
    return program_keys.program_key(
        function, settings_in_words(), (attack, (), np.zeros((4, 2), np.float32)), {}
    )


def test_values_of_floats_and_arrays_are_no_part_of_it() -> None:
    assert made(Laplace(epsilon=1.0, sensitivity=1.0)) == made(
        Laplace(epsilon=2.0, sensitivity=1.0)
    )


def test_it_is_the_same_in_every_process() -> None:
    program = (
        "from tests.sampling import test_program_keys as t; t.program_keys.settled = lambda: True; "
    )
    found = subprocess.run(
        [sys.executable, "-c", f"{program}print(t.made(), t.scoring(t.MajorityVote()))"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [made(), scoring(MajorityVote())]


def test_how_the_device_was_chosen_does_not_change_it() -> None:
    """It is the same device; other tests of this process choose it."""
    before = made()
    chosen = jax.config.values["jax_platforms"]
    jax.config.update("jax_platforms", "" if chosen else jax.default_backend())
    try:
        assert made() == before
    finally:
        jax.config.update("jax_platforms", chosen)


def test_what_it_is_called_with_changes_it() -> None:
    kept, zero = (DPText(epsilon=1.0, sensitivity=1.0, nan=nan) for nan in ("keep", "zero"))
    keys = [
        made(),
        made(Laplace(epsilon=1.0)),  # the sensitivity is no leaf
        made(kept),
        made(zero),
        made(shape=(4,)),
        made(dtype="float64"),
        made(rows=65),
        made(rows=np.int64(64)),
        made(rows=np.int64(65)),
        scoring(MajorityVote()),
    ]
    assert len(set(keys)) == len(keys)


PATCHES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a method": lambda patch: patch.setattr(Laplace, "sample", lambda self, key, data, n: data),
    "a helper": lambda patch: patch.setattr(_laplace, "from_uniform", lambda *_: 0.0),
    "a constant": lambda patch: patch.setattr(threefry, "_LOOP_OF_THEIR_OWN", range(3)),
    "an array": lambda patch: patch.setattr(address, "_PARITY", np.uint32(1)),
    "a default": lambda patch: patch.setattr(address.blocks, "__defaults__", (20,)),
    "a setting": lambda patch: patch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true"),
    "a version": lambda patch: patch.setattr(jax, "__version__", "0.0.1"),
    "a processor": lambda patch: patch.setattr(program_keys, "_processor", lambda: ["another"]),
}


@pytest.mark.parametrize("what", PATCHES)
def test_what_stands_in_place_of_something_changes_it(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = made()
    program_keys.surroundings.cache_clear()
    PATCHES[what](monkeypatch)
    try:
        after = made()
    except UnknownError:
        return  # code of this file is neither dpframe's nor a known library's
    assert after != before


def test_settings_of_jax_and_of_a_thread_change_it() -> None:
    before = made()
    with jax.enable_x64(True):
        assert made() != before
    with jax.default_matmul_precision("float32"):
        assert made() != before
    assert made() == before


def test_a_helper_of_an_attack_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = scoring(MajorityVote())
    monkeypatch.setattr(majority_vote, "_row_sums", majority_vote.lax.cumsum)
    assert scoring(MajorityVote()) != before


def test_a_file_of_dpframe_changes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made()
    shutil.copytree(program_keys.PACKAGE / "stats", tmp_path / "stats")
    monkeypatch.setattr(program_keys, "PACKAGE", tmp_path)
    digests = set()
    for change in (lambda: None, lambda: _append(tmp_path / "stats" / "__init__.py")):
        change()
        forget()
        digests.add(program_keys.code_of_package())
    assert len(digests) == 2
    monkeypatch.undo()
    monkeypatch.setattr(program_keys, "settled", lambda: True)
    forget()
    assert made() == before


def _append(file: Path) -> None:
    file.write_text(file.read_text() + "\n")


def test_a_file_that_no_program_reaches_does_not_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for name in ("report/a.py", "cli/b.py", "pytest.py", "stats/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
        monkeypatch.setattr(program_keys, "PACKAGE", tmp_path)
        forget()
        digests.add(program_keys.code_of_package())
    assert len(digests) == 2


def imports_of(file: Path) -> Iterator[str]:
    """Modules of dpframe that a file imports when it runs, and what it takes out of packages."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in node.body
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in for_types:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and id(node) not in for_types and not node.level:
            for alias in node.names:
                named = node.module in ("dpframe", "dpframe.plugins")
                public = named and (dpframe._HOME | dpframe.plugins._HOME).get(alias.name)
                yield public or f"{node.module}.{alias.name}"


def test_no_file_in_the_keys_imports_one_that_is_not() -> None:
    covered = list(map(Path, program_keys.files()))
    assert len(covered) > 100
    for file in covered:
        for module in imports_of(file):
            top, *below = module.split(".")
            assert top != "dpframe" or not below or below[0] not in program_keys.OUTSIDE, file


def test_a_program_that_reaches_other_files_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def imports() -> Any:
        from dpframe.commands import audit

        return audit

    def calls() -> Any:
        return majority_vote.lax

    for function in (imports, calls):
        function.__module__ = Laplace.__module__
    program_keys.reached(calls)
    with pytest.raises(UnknownError, match=r"code of dpframe\.commands"):
        program_keys.reached(imports)
    monkeypatch.setattr(majority_vote, "lax", words)
    with pytest.raises(UnknownError, match=r"code of dpframe\.report"):
        program_keys.reached(calls)


def test_files_that_may_have_changed_since_they_were_imported_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    (tmp_path / "new.py").write_text("")
    monkeypatch.setattr(program_keys, "PACKAGE", tmp_path)
    forget()
    assert not program_keys.settled()
    with pytest.raises(UnknownError):
        program_keys.code_of_package()
    monkeypatch.setattr(program_keys, "BEGAN", program_keys.BEGAN + 10**6)
    assert program_keys.settled()


HELPER = 0.5


def above(outputs: Any) -> Any:
    """A helper of a third party's attack."""
    return outputs[:, 0] > HELPER


class Own(Attack, name="own-attack"):
    """An attack of a third party."""

    gives = "decision"

    def score(self, state: Any, outputs: Any) -> Any:
        return above(outputs)


class Pretends(Attack, name="pretends"):
    """An attack that calls itself dpframe's."""

    __module__ = "dpframe.builtin.attacks.fixed"
    gives = "decision"

    def score(self, state: Any, outputs: Any) -> Any:
        return above(outputs)


@dataclasses.dataclass(frozen=True)
class Fields:
    """A value of no known type."""


@pytest.mark.parametrize("attack", [Own(), Pretends(), Fields(), above])
def test_what_is_not_dpframes_own_has_none(attack: Any) -> None:
    with pytest.raises(UnknownError):
        scoring(attack)
