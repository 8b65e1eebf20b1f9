"""Real runs, stopped in every way at random moments, end as an uninterrupted one does."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from support import processes
from support.processes import DPFRAME, HANGS

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
trials = 6_000_003
[pair]
use = "zeros-ones"
[[mechanism]]
use = "laplace"
[[mechanism]]
use = "random-output"
[[attack]]
use = "majority-vote"
[[estimator]]
use = "precision"
[sweep]
"mechanism.epsilon" = [0.5, 1.0]
"pair.dim" = [8]
"""
MORE = '[[mechanism]]\nuse = "dptext"\n[[attack]]'
LARGE = SPEC.replace("6_0", "20_0").replace("[8]", "[2, 8]").replace("[[attack]]", MORE)

OFTEN = """
import sys
from dpframe.count import checkpoint
from dpframe.draw import streams as chunks
assert checkpoint.WRITE_SECONDS and chunks.SEGMENT_ELEMENTS  # else the next lines change nothing
checkpoint.WRITE_SECONDS = 0.0  # writes all the time, so that many kills meet one
chunks.SEGMENT_ELEMENTS = 1 << 23
sys.argv[0] = "dpframe"
from dpframe.cli import main
main()
"""
ONCE = """
from dpframe.count.checkpoint import Store
flush, flushes = Store.flush, []
def flush_and_wait(store):
    writes = bool(store._changed)  # not before the first chunk, which must compile
    flush(store)
    if writes:
        flushes.append(store)
    if writes and len(flushes) == 12:  # far from the end; whoever is to stop it was too busy so far
        sys.stdin.read()
Store.flush = flush_and_wait
"""

PLAIN, WRITING = DPFRAME, ("-c", OFTEN)
WAITING = ("-c", OFTEN.replace("sys.argv", f"{ONCE}sys.argv"))
STOPPED = {signal.SIGKILL: {-9}, signal.SIGINT: {130, -2, 1}, signal.SIGTERM: {143, -15}}
"""Python itself ends with a negative one while it is still starting, or with 1 and no output."""


def started(
    directory: Path, how: tuple[str, str] = PLAIN, spec: str = SPEC
) -> AbstractContextManager[subprocess.Popen[str]]:
    options = ("--out", "out", "--json")  # compiled as for users, since they draw millions
    return processes.started_audit(directory, spec, *options, how=how, XLA_FLAGS="")


def finished(directory: Path, spec: str = SPEC) -> dict[str, Any]:
    """Runs to the end; the record without what differs from run to run."""
    with started(directory, PLAIN, spec) as process:
        out, err = process.communicate(timeout=HANGS)
    assert process.returncode in (0, 1), err
    notes = r"out/checkpoint: continues with the counts of|out/record\.json: from the record of"
    assert re.fullmatch(rf"(({notes}) [^\n]*\n)?", err)
    record: dict[str, Any] = json.loads(out)
    assert record == json.loads((directory / "out" / "record.json").read_text())
    del record["digest"]  # for all of it, seconds included
    del record["summary"]["seconds"], record["summary"]["peak_rss_bytes"]
    del record["summary"]["calls"]  # the last process alone
    for cell in record["cells"]:
        del cell["seconds"]
    return record


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of a run that nobody stopped."""
    return finished(tmp_path_factory.mktemp("whole") / "run")


def stop(
    directory: Path, how: tuple[str, str], number: signal.Signals, after: float, done: int | None
) -> bool:
    """Sends a signal after some seconds; whether that left the run unfinished.

    Args:
        directory: where it runs.
        how: what comes after the interpreter.
        number: the signal.
        after: seconds.
        done: the seconds begin once the checkpoint holds more than so many chunks; None: at once.
    """
    with started(directory, how, LARGE) as process:
        while done is not None and process.poll() is None and chunks_done(directory) <= done:
            time.sleep(0.01)
        try:
            process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        out, err = process.communicate(timeout=HANGS)
    if process.returncode in (0, 1) and out:  # it was faster
        assert json.loads(out)["summary"]["failed"] == 0
        return False
    assert process.returncode in STOPPED[number], err
    assert process.returncode != 1 or "KeyboardInterrupt" in err
    if process.returncode > 1:
        assert "repeat the command to continue" in err
        assert "Traceback" not in err
    return not (directory / "out" / "record.json").exists()  # else it came to the end just before


def chunks_done(directory: Path) -> int:
    """Return the progress of the checkpoint; every file of it must be whole."""
    done = 0
    for file in (directory / "out" / "checkpoint").glob("*.json"):
        entries = json.loads(file.read_text())["entries"]
        done += sum(sum(cursor) for cursor, _ in entries.values())
    answers = (directory / "out" / "checkpoint").glob("*.answers")
    return done + sum(file.stat().st_size for file in answers)


@pytest.mark.slow
def test_a_hundred_kills(tmp_path: Path) -> None:
    """At random moments, resuming in between; many of them must have met a growing checkpoint."""
    finished(tmp_path / "warm", LARGE)  # compiles
    before = time.monotonic()
    whole = finished(tmp_path / "whole", LARGE)
    seconds = time.monotonic() - before
    rng = random.Random(21)
    grown, number, done = 0, 0, 0
    for _ in range(100):
        here = tmp_path / str(number)
        how = rng.choice([PLAIN, WRITING, WRITING])
        kind = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        # Half of them at any time, and half once it has got on, however busy the machine is.
        early = how == PLAIN or rng.random() < 0.25
        after, since = (rng.uniform(0.0, 0.9), None) if early else (rng.uniform(0.0, 0.2), done)
        if stop(here, how, kind, after * seconds, since):
            now = chunks_done(here)
            assert now >= done, "progress was lost"
            grown += now > done
            done = now
        else:
            assert finished(here, LARGE) == whole
            number, done = number + 1, 0
    assert finished(tmp_path / str(number), LARGE) == whole
    assert grown >= 10


def until_checkpoint(process: subprocess.Popen[str], directory: Path) -> None:
    """Waits until something that was counted is on the disk."""
    processes.until(process, lambda: chunks_done(directory))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_stopped_run_says_how_to_go_on_and_keeps_its_counts(
    number: signal.Signals, code: int, word: str, whole: dict[str, Any], tmp_path: Path
) -> None:
    with started(tmp_path / "run", WAITING) as process:
        until_checkpoint(process, tmp_path / "run")
        process.send_signal(number)
        out, err = process.communicate(timeout=HANGS)
    assert process.returncode == code
    assert err == (f"{word}; the counts are kept; repeat the command to continue\n")
    assert out == ""
    assert chunks_done(tmp_path / "run") > 0
    assert finished(tmp_path / "run") == whole


@pytest.mark.slow
def test_a_run_that_was_killed_while_writing_goes_on(whole: dict[str, Any], tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started(directory, WAITING) as process:
        until_checkpoint(process, directory)
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    before = chunks_done(directory)
    assert before > 0
    assert finished(directory) == whole
    assert chunks_done(directory) > before


@pytest.mark.slow
def test_ctrl_c_ends_worker_processes_quietly(tmp_path: Path) -> None:
    """A terminal sends it to all processes of the run."""
    with started(tmp_path, WRITING, HOST_SPEC) as process:
        until_checkpoint(process, tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert err.startswith("interrupted;")
    assert "Traceback" not in err
    assert chunks_done(tmp_path) > 0


def test_no_worker_process_outlives_a_killed_run(tmp_path: Path) -> None:
    """They hold its standard output, which ends when the last of them has."""
    with started(tmp_path, WRITING, HOST_SPEC) as process:
        until_checkpoint(process, tmp_path)
        process.kill()
        process.communicate(timeout=HANGS)


BETS = (
    LARGE.replace('"precision"', '"betting"')
    .replace("20_000_003", "2_000_003")
    .replace("[sweep]", '[run]\nstop = "decided"\n[sweep]')
)

SEARCH = """
schema = 1
[audit]
name = "searched"
trials = 1_000_000
[search]
use = "patterns"
params = { length = 4, low = 0.0, high = 1.0, adjacency = "each-by-one" }
[[mechanism]]
use = "laplace"
params = { epsilon = 1.0, sensitivity = 4.0 }
[[mechanism]]
use = "adept"
params.epsilon = 1.0
[[attack]]
use = "learned"
[[estimator]]
use = "betting"
"""


BOX = """
schema = 1
[audit]
name = "boxed"
trials = 60_000
[search]
use = "patterns"
params = { length = 4, low = 0.0, high = 1.0, adjacency = "each-by-one" }
[[mechanism]]
use = "laplace-numpy"
params = { epsilon = 1.0, sensitivity = 4.0 }
"""


@pytest.mark.slow
@pytest.mark.parametrize("spec", [BETS, SEARCH, BOX], ids=["betting", "search", "box"])
def test_bets_that_are_killed_go_on_to_the_same_wealth(spec: str, tmp_path: Path) -> None:
    """To the last bit: wealth is in the record, and nothing that was drawn is drawn otherwise."""
    whole = finished(tmp_path / "whole", spec)
    rounds = 3 if spec == BOX else 20  # those of a box grow faster
    assert any(len(cell["estimate"]["wealth"]) > rounds for cell in whole["cells"])
    directory, kills, done = tmp_path / "killed", 0, 0
    while kills < 6:
        with started(directory, WRITING, spec) as process:
            while process.poll() is None and chunks_done(directory) <= done:
                time.sleep(0.01)
            process.kill()
            process.wait()
        if process.returncode != -signal.SIGKILL:
            break  # it came to its end
        kills, done = kills + 1, chunks_done(directory)
    assert kills > 2
    if (directory / "out" / "record.json").exists():
        (directory / "out" / "record.json").unlink()  # judged again, from the checkpoint
    assert finished(directory, spec) == whole
