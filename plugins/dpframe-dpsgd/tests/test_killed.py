"""A run that is killed again and again ends with the record of one that was not."""

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
trials = 600
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
KILLS = 6
HANGS = 600


@contextlib.contextmanager
def started(directory):
    directory.mkdir(exist_ok=True)
    (directory / "spec.toml").write_text(SPEC)
    command = [sys.executable, "-m", "dpframe", "run", "spec.toml", "--out", "out", "--quiet"]
    with subprocess.Popen(command, cwd=directory, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def record(directory):
    """Runs to the end; the record without what differs from run to run."""
    with started(directory) as process:
        assert process.wait(timeout=HANGS) == 0
    found = json.loads((directory / "out" / "record.json").read_text())
    del found["digest"], found["summary"]["seconds"], found["summary"]["peak_rss_bytes"]
    for cell in found["cells"]:
        del cell["seconds"]
    return found


@pytest.mark.slow
def test_training_that_is_killed_goes_on_where_it_was(tmp_path):
    expected = record(tmp_path / "whole")
    rng = random.Random(0)
    killed, kept = 0, 0
    for _ in range(KILLS):
        with started(tmp_path / "killed") as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=rng.uniform(5, 25))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
        folder = tmp_path / "killed" / "out" / "checkpoint"
        kept += any(path.suffix == ".json" for path in folder.glob("*"))
    assert killed > 0
    assert record(tmp_path / "killed") == expected
    assert kept > 0  # some kill met a run that had counted something
