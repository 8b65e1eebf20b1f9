"""Processes that tests start: all with one environment, and none outlives its test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DPFRAME = ("-m", "dpframe")

HANGS = 300.0
"""Seconds after which a process that should have ended is taken to hang."""


def environment(**changed: str) -> dict[str, str]:
    """That of the tests, compile cache included, with 80 columns and `support` to import.

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


def children(process: subprocess.Popen[str]) -> list[int]:
    """The numbers of its child processes."""
    threads = list(Path(f"/proc/{process.pid}/task").glob("*/children"))
    if not threads:
        pytest.skip("this system does not list child processes")
    return [int(child) for listed in threads for child in listed.read_text().split()]


def ignores_interrupts(process: int) -> bool:
    """Whether it ignores Ctrl-C, as a worker does from when it has started."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    (mask,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)
