"""Real runs, stopped in every way at random moments, end as an uninterrupted one does."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CACHE = Path(tempfile.gettempdir()) / f"dpframe-tests-{os.getuid()}"

HOST_SPEC = """
schema = 1
[audit]
name = "host"
trials = 1_000_000_000
[pair]
use = "zeros-ones"
[[mechanism]]
use = "laplace-numpy"
params.epsilon = 1.0
[[attack]]
use = "majority-vote"
[[estimator]]
use = "precision"
"""

SPEC = """
schema = 1
[audit]
name = "killed"
trials = 20_000_003
[pair]
use = "zeros-ones"
[[mechanism]]
use = "laplace"
[[mechanism]]
use = "random-output"
[[mechanism]]
use = "dptext"
[[attack]]
use = "majority-vote"
[[estimator]]
use = "precision"
[sweep]
"mechanism.epsilon" = [0.5, 1.0]
"pair.dim" = [2, 8]
"""

OFTEN = """
import sys
from dpframe.engine import checkpoint, chunks
checkpoint.INTERVAL = 0.0  # writes all the time, so that many kills meet one
chunks.SEGMENT_ELEMENTS = 1 << 23
sys.argv[0] = "dpframe"
from dpframe.cli import main
main()
"""

PLAIN, WRITING = ["-m", "dpframe"], ["-c", OFTEN]
STOPPED = {signal.SIGKILL: {-9}, signal.SIGINT: {130, -2}, signal.SIGTERM: {143, -15}}
"""Python itself ends with the negative ones while it is still starting."""


@contextlib.contextmanager
def started(directory: Path, how: list[str], spec: str = SPEC) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, *how, "run", "spec.toml", "--out", "out", "--quiet", "--json"]
    directory.mkdir(exist_ok=True)
    (directory / "spec.toml").write_text(spec)
    with subprocess.Popen(
        command,
        cwd=directory,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "DPFRAME_CACHE": str(CACHE)},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(directory: Path) -> dict[str, Any]:
    """Runs to the end; the record without what differs from run to run."""
    with started(directory, PLAIN) as process:
        out, err = process.communicate()
    assert process.returncode in (0, 1), err
    assert err == ""
    record: dict[str, Any] = json.loads(out)
    assert record == json.loads((directory / "out" / "record.json").read_text())
    del record["summary"]["seconds"], record["summary"]["peak_rss_bytes"]
    for cell in record["cells"]:
        del cell["seconds"]
    return record


class Whole:
    """An uninterrupted run, and how long it takes."""

    def __init__(self, directory: Path) -> None:
        finished(directory / "warm")  # compiles
        before = time.monotonic()
        self.record = json.dumps(finished(directory / "whole"))
        self.seconds = time.monotonic() - before


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole(tmp_path_factory.mktemp("whole"))


def stop(directory: Path, how: list[str], number: signal.Signals, after: float) -> bool:
    """Sends a signal after some seconds; whether that left the run unfinished."""
    with started(directory, how) as process:
        try:
            process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        out, err = process.communicate()
    if process.returncode in (0, 1):  # it was faster
        assert json.loads(out)["summary"]["failed"] == 0
        return False
    assert process.returncode in STOPPED[number], err
    if process.returncode > 0:
        assert "goes on from there" in err
        assert "Traceback" not in err
    return not (directory / "out" / "record.json").exists()  # else it came to the end just before


def chunks_done(directory: Path) -> int:
    """How far the checkpoint is; every file of it must be whole."""
    done = 0
    for file in (directory / "out" / "checkpoint").glob("*.json"):
        entries = json.loads(file.read_text())["entries"]
        done += sum(sum(cursor) for cursor, _ in entries.values())
    return done


def batter(directory: Path, whole: Whole, kills: int, seed: int) -> int:
    """Stops runs that many times, resuming in between; returns how many checkpoints it saw grow."""
    rng = random.Random(seed)
    grown, number, done = 0, 0, 0
    for _ in range(kills):
        here = directory / str(number)
        how = rng.choice([PLAIN, WRITING, WRITING])
        kind = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        if stop(here, how, kind, rng.uniform(0.3, 0.9) * whole.seconds):
            now = chunks_done(here)
            assert now >= done, "progress was lost"
            grown += now > done
            done = now
        else:
            assert json.dumps(finished(here)) == whole.record
            number, done = number + 1, 0
    assert json.dumps(finished(directory / str(number))) == whole.record
    return grown


def test_five_kills(whole: Whole, tmp_path: Path) -> None:
    batter(tmp_path, whole, 5, seed=20)


@pytest.mark.slow
def test_a_hundred_kills(whole: Whole, tmp_path: Path) -> None:
    assert batter(tmp_path, whole, 100, seed=21) > 20


def until_checkpoint(process: subprocess.Popen[str], directory: Path) -> None:
    """Waits until something is on the disk."""
    checkpoint = directory / "out" / "checkpoint"
    while not list(checkpoint.glob("*.json")):
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"it ended before it wrote anything: {process.communicate()}")


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_stopped_run_says_how_to_go_on_and_keeps_its_counts(
    number: signal.Signals, code: int, word: str, whole: Whole, tmp_path: Path
) -> None:
    with started(tmp_path / "run", WRITING) as process:
        until_checkpoint(process, tmp_path / "run")
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == code
    assert err == (f"{word}; what was counted is kept, and the same command goes on from there\n")
    assert out == ""
    assert chunks_done(tmp_path / "run") > 0
    assert json.dumps(finished(tmp_path / "run")) == whole.record


def test_a_run_that_was_killed_while_writing_goes_on(whole: Whole, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started(directory, WRITING) as process:
        until_checkpoint(process, directory)
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    before = chunks_done(directory)
    assert before > 0
    assert json.dumps(finished(directory)) == whole.record
    assert chunks_done(directory) > before


def test_ctrl_c_ends_worker_processes_quietly(tmp_path: Path) -> None:
    """A terminal sends it to all processes of the run."""
    with started(tmp_path, PLAIN, HOST_SPEC) as process:
        until_checkpoint(process, tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("interrupted;")
    assert len(err.splitlines()) == 1
    assert chunks_done(tmp_path) > 0


def test_no_worker_process_outlives_a_killed_run(tmp_path: Path) -> None:
    """They hold its standard output, which ends when the last of them has."""
    with started(tmp_path, PLAIN, HOST_SPEC) as process:
        until_checkpoint(process, tmp_path)
        process.kill()
        try:
            process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
