"""Compiled programs are kept where nobody else can write, and never one that counts another way."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from dpframe.builtin import fixed_attacks as fixed
from dpframe.builtin.fixed_attacks import MajorityVote
from dpframe.draw import compile_cache, programs, threefry
from dpframe.draw.compile_cache import CompiledProgram, keep_compiled_programs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is asked for, with JAX's settings kept out of it."""
    update, before = jax.config.update, jax.config.values["jax_compilation_cache_dir"]
    update("jax_compilation_cache_dir", None)  # an earlier test may have set it
    monkeypatch.setenv("DPFRAME_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(jax.config, "update", lambda name, value: None)
    yield tmp_path / "kept"
    update("jax_compilation_cache_dir", before)


def test_the_directory_is_for_its_owner_alone(wanted: Path) -> None:
    assert keep_compiled_programs() == wanted
    assert stat.S_IMODE(wanted.stat().st_mode) == 0o700


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without owners")
def test_a_directory_that_others_can_write_to_or_own_is_refused(
    wanted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    wanted.mkdir()
    for mode in (0o777, 0o770, 0o702):
        wanted.chmod(mode)
        assert keep_compiled_programs(said.append) is None
    assert said == [f"{wanted}: others can write to it; compiled programs are not cached"] * 3
    wanted.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:  # it would print pages of text
        patch.setattr(jax, "__version_info__", (0, 10, 1))
        assert keep_compiled_programs(said.append) is None
    assert keep_compiled_programs(said.append) == wanted
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert keep_compiled_programs(said.append) is None
    assert "another user" in said[-1]


# Programs are found by their traces.


OUTPUTS = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]], np.float32)
VOTES = [True, False, True]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory in which programs are kept, while JAX's cache is off."""
    monkeypatch.setattr(compile_cache, "_kept_in", [tmp_path])
    with jaxs_own(None):
        yield tmp_path


@contextlib.contextmanager
def jaxs_own(directory: Path | None) -> Iterator[None]:
    """JAX's own cache in another directory."""
    update, before = jax.config.update, jax.config.values["jax_compilation_cache_dir"]
    update("jax_compilation_cache_dir", directory and str(directory))
    reset_cache()
    yield
    update("jax_compilation_cache_dir", before)
    reset_cache()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows whenever a program is written."""
    made: list[int] = []
    write = compile_cache.write_whole

    def counted(file: Path, content: bytes) -> None:
        made.append(1)
        write(file, content)

    monkeypatch.setattr(compile_cache, "write_whole", counted)
    return made


def call(function: Callable[..., Any], *args: Any, **static: Any) -> Any:
    """Call a program as a new process would, as far as programs in memory go."""
    jax.clear_caches()
    return np.asarray(CompiledProgram(function, tuple(static))(*args, **static)).tolist()


def score() -> Any:
    function: Any = programs.score_given
    return call(function.__wrapped__, MajorityVote(), (), OUTPUTS)


def test_a_program_is_compiled_once(kept: Path, compilations: list[int]) -> None:
    assert [score() for _ in range(3)] == [VOTES] * 3
    assert len(compilations) == len(list(kept.iterdir())) == 1


def test_replaced_code_has_a_key_of_its_own(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert score() == VOTES
    with monkeypatch.context() as patch:
        patch.setattr(fixed, "_row_sums", lambda mask: 3 - mask.sum(axis=1))
        assert score() == [False, True, False]
    with monkeypatch.context() as patch:
        patch.setattr(MajorityVote, "score", lambda self, state, outputs: outputs[:, 0] > 2)
        assert score() == [False] * 3
    assert score() == VOTES
    assert len(list(kept.iterdir())) == 3


def _adding(values: Any) -> Callable[..., Any]:
    inner = jax.jit(lambda x: x + jnp.asarray(values)[1])
    return lambda x: jax.lax.fori_loop(0, 1, lambda _, carry: inner(carry), x)


DIFFERENT: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...], float]]] = {
    "constants inside a loop": [
        (_adding(np.arange(5000.0) * scale), (np.float32(0),), scale) for scale in (1, 2)
    ],
    "numbers": [(lambda x, k=k: x * k, (np.float32(1),), k) for k in (2.0, 3.0)],
    "the order of operands": [
        (lambda x, y: x - y, (np.float32(3), np.float32(1)), 2),
        (lambda x, y: y - x, (np.float32(3), np.float32(1)), -2),
    ],
    "operations": [
        (jnp.floor, (np.float32(1.5),), 1),
        (jnp.ceil, (np.float32(1.5),), 2),
    ],
    "parameters of operations": [
        (lambda x, to=to: x.astype(to).astype(np.float32), (np.float32(300),), expected)
        for to, expected in ((np.uint8, 255), (np.int16, 300))
    ],
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_programs_that_differ_have_different_keys(what: str, kept: Path) -> None:
    for _ in range(2):
        for function, args, expected in DIFFERENT[what]:
            assert call(function, *args) == expected
    assert len(list(kept.iterdir())) == 2


def test_the_key_covers_generator_settings_and_precision(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(words: Any) -> Any:
        return jax.random.uniform(threefry.key_of(words, threefry.THREEFRY), (2,))

    words = np.arange(2, dtype=np.uint32)
    single = call(draw, words)
    with jax.enable_x64(True):
        assert call(draw, words) != single
    compile_cache._surroundings.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache, "_GENERATOR", ["another"])
        call(draw, words)
    compile_cache._surroundings.cache_clear()
    with jax.threefry_partitionable(False):
        call(draw, words)
    assert call(draw, words) == single
    assert len(list(kept.iterdir())) in (3, 4)


def test_code_that_a_trace_does_not_contain_is_left_to_jax(kept: Path) -> None:
    for number in (1, 2):

        def ask(x: Any, number: int = number) -> Any:
            return jax.pure_callback(lambda value: value + np.float32(number), x, x)

        assert call(ask, np.float32(0)) == number
    assert not list(kept.iterdir())


@pytest.mark.parametrize(
    "operation", [jnp.linalg.cholesky, jnp.linalg.qr, jnp.linalg.eigh, jnp.linalg.inv]
)
def test_linear_algebra_is_left_to_jax(operation: Any, kept: Path) -> None:
    """JAX loads its code when it lowers it, so a kept program would end the process."""
    call(lambda x: jnp.sum(jnp.asarray(operation(x)[0])), np.eye(2, dtype=np.float32))
    assert not list(kept.iterdir())


@pytest.mark.parametrize("kind", ["cut", "changed", "nonsense"])
def test_a_damaged_file_is_written_again(kind: str, kept: Path, compilations: list[int]) -> None:
    score()
    (file,) = kept.iterdir()
    content = file.read_bytes()
    changed = content[:-1] + bytes([content[-1] ^ 1])
    file.write_bytes({"cut": content[:-9], "changed": changed}.get(kind, b"nonsense"))
    assert [score() for _ in range(2)] == [VOTES] * 2
    assert len(compilations) == 2


def test_what_jax_had_in_its_own_cache_is_not_written(kept: Path, tmp_path: Path) -> None:
    """A program that JAX loaded lacks its functions if it is written again."""
    with jaxs_own(tmp_path / "jax"):
        assert score() == VOTES
        (file,) = kept.glob("*-program")
        file.unlink()
        assert [score() for _ in range(2)] == [VOTES] * 2
        assert not list(kept.glob("*-program"))


def test_several_devices_are_left_to_jax(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "devices", lambda *_: [1, 2])
    assert score() == VOTES
    assert not list(kept.iterdir())
