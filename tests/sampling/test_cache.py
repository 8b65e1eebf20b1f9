"""Compiled programs are kept where nobody else can write, and run only under their own key."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import pytest

from dpframe.sampling.compile_cache import BoundCache, keep_compiled_programs

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


class Files:
    """The object in which JAX keeps entries."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> bytes | None:
        file = self._path / f"{key}-cache"
        return file.read_bytes() if file.exists() else None

    def put(self, key: str, value: bytes) -> None:
        (self._path / f"{key}-cache").write_bytes(value)


def test_an_entry_copied_over_another_is_none(tmp_path: Path) -> None:
    cache = BoundCache(Files(tmp_path))
    cache.put("a", b"one")
    cache.put("b", b"two")
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (b"one", b"two", None)
    (tmp_path / "b-cache").write_bytes((tmp_path / "a-cache").read_bytes())
    assert cache.get("b") is None
    assert not (tmp_path / "b-cache").exists()
    cache.put("b", b"two")
    assert cache.get("b") == b"two"
    (tmp_path / "a-cache").write_bytes(b"one")  # unbound, or changed
    assert cache.get("a") is None


PROGRAM = """
import jax
from jax._src import monitoring
hits = []
monitoring.register_event_listener(lambda name, **_: hits.append("cache_hits" in name))
from dpframe.sampling.compile_cache import keep_compiled_programs
assert keep_compiled_programs() is not None
assert int(jax.jit(lambda x: 3 * x + 1)(5)) == 16
print(sum(hits))
"""


@pytest.mark.slow
def test_jax_finds_its_programs_again_and_no_others(tmp_path: Path) -> None:
    """In the very cache of this version of JAX."""

    def hits() -> int:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "DPFRAME_CACHE": str(tmp_path / "kept")},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    first = hits()
    again = hits()
    assert again > first
    files = sorted((tmp_path / "kept").glob("*-cache"))
    content = [file.read_bytes() for file in files]
    for file, other in zip(files, [*content[1:], content[0][::-1]], strict=True):
        file.write_bytes(other)
    assert hits() == first
