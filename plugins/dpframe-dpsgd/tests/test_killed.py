"""A run that is killed repeatedly ends with the same record as an uninterrupted one."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys

import pytest

SPEC = """
schema = 1
[audit]
name = "killed"
trials = 8000
[pair]
use = "canary"
params = { canary = "mislabelled", records = 100 }
[[mechanism]]
use = "dpsgd"
params = { steps = 30, batch = 50, noise_multiplier = 0.5, width = 50 }
[[attack]]
use = "canary-loss-ratio"
[[estimator]]
use = "order-statistics"
[run]
fit = 60
pilot = 100
"""
WRITING = """
import sys
from dpframe.count import checkpoint
checkpoint.INTERVAL = 0.0  # seconds between two writes, so that a short run is killed between them
sys.argv[0] = "dpframe"
from dpframe.cli import main
main()
"""
KILLS = 4
HANGS = 600


@contextlib.contextmanager
def started(directory):
    directory.mkdir(exist_ok=True)
    (directory / "spec.toml").write_text(SPEC)
    command = [sys.executable, "-c", WRITING, "run", "spec.toml", "--out", "out", "--quiet"]
    with subprocess.Popen(command, cwd=directory, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def record(directory):
    """Run to the end; return the record without fields that differ from run to run."""
    with started(directory) as process:
        assert process.wait(timeout=HANGS) == 0
    found = json.loads((directory / "out" / "record.json").read_text())
    del found["digest"], found["summary"]["seconds"], found["summary"]["peak_rss_bytes"]
    for cell in found["cells"]:
        del cell["seconds"]
    return found


def saved(directory):
    """Return the count files on disk, by name and time."""
    files = (directory / "out" / "checkpoint").glob("*.json")
    return {(file.name, file.stat().st_mtime_ns) for file in files}


@pytest.mark.slow
def test_training_that_is_killed_goes_on_where_it_was(tmp_path):
    expected = record(tmp_path / "whole")
    rng = random.Random(0)
    killed = 0
    for _ in range(KILLS):
        before = saved(tmp_path / "killed")
        with started(tmp_path / "killed") as process:
            while process.poll() is None and saved(tmp_path / "killed") == before:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.05)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=rng.uniform(0, 1))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
    assert killed > 1  # runs that had counted something
    assert record(tmp_path / "killed") == expected
