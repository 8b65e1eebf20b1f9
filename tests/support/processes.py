"""Processes that tests start: all with one environment, and none outlives its test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dpframe.common.machine import running
from support import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DPFRAME = ("-m", "dpframe")

HANGS = 300.0
"""Seconds after which a process that should have ended is taken to hang."""


def environment(**changed: str) -> dict[str, str]:
    """The environment of the tests, compile cache included, with 80 columns and `support` to
    import.

    Args:
        changed: other variables; PYTHONPATH comes before what is there.
    """
    path = [changed.pop("PYTHONPATH", ""), str(TESTS), os.environ.get("PYTHONPATH", "")]
    settled = {"COLUMNS": "80", "PYTHONPATH": os.pathsep.join(filter(None, path))}
    return {**os.environ, **settled, **changed}


@contextlib.contextmanager
def started(
    *words: object, cwd: Path | None = None, **changed: str
) -> Iterator[subprocess.Popen[str]]:
    """Python at work in a session of its own, which ends with the block, whoever is still in it.

    Args:
        words: what comes after the interpreter.
        cwd: its directory, made if need be.
        changed: variables of its environment.
    """
    if cwd is not None:
        cwd.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**changed),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started_audit(
    directory: Path, spec: str, *options: object, how: tuple[str, ...] = DPFRAME, **changed: str
) -> Iterator[subprocess.Popen[str]]:
    """`dpframe run` at work.

    Args:
        directory: where the spec is written to, as spec.toml.
        spec: its text.
        options: of the command.
        how: what comes after the interpreter, before the command.
        changed: variables of its environment.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spec.toml").write_text(spec, encoding="utf-8")
    words = ("run", "spec.toml", "--quiet", *options)
    with started(*how, *words, cwd=directory, **changed) as process:
        yield process


def run(
    *words: object, cwd: Path | None = None, **changed: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python to its end; arguments are those of `started`."""
    with started(*words, cwd=cwd, **changed) as process:
        out, err = process.communicate(timeout=HANGS)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def until(process: subprocess.Popen[str], ready: Callable[[], object]) -> None:
    """Waits until something is so; fails if the process ends before."""
    for _ in range(round(HANGS / 0.02)):
        if ready():
            return
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"it ended too early: {process.communicate()}")
    pytest.fail("it did not get so far")


def has_ended(process: int) -> bool:
    """True if a process that was killed is gone; it takes the system a moment."""
    for _ in range(round(HANGS / 0.02)):
        if not running(process):
            return True
        threading.Event().wait(0.02)
    return False


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes that it started through multiprocessing, itself or by a child."""
    return [child for child in _descendants(process.pid) if _names_multiprocessing(child)]


def are_ready(workers: list[int], number: int = 1) -> bool:
    """True if there are so many, and all ignore Ctrl-C, as they do from their start."""
    return len(workers) >= number and all(map(_ignores_interrupts, workers))


def _descendants(parent: int) -> Iterator[int]:
    threads = list(Path(f"/proc/{parent}/task").glob("*/children"))
    if not threads and not Path("/proc/self/task").exists():
        pytest.skip("this system does not list child processes")
    for listed in threads:
        for child in _read(listed).split():
            yield int(child)
            yield from _descendants(int(child))


def _names_multiprocessing(process: int) -> bool:
    return b"multiprocessing" in _read(Path(f"/proc/{process}/cmdline"))


def _ignores_interrupts(process: int) -> bool:
    for line in _read(Path(f"/proc/{process}/status")).splitlines():
        if line.startswith(b"SigIgn:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1)
    return False


def _read(path: Path) -> bytes:
    """Return the content of a file of /proc; nothing if its process has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
