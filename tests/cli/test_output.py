"""Output of plugins goes to standard error, however they print it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import HANGS, started_audit
from support.tiers import mostly_slow

from dpframe.cli.terminal import print_json, results, set_apart

NOISY = """
import ctypes, os, subprocess, sys
from dpframe.cli.terminal import results, set_apart
old = sys.stdout
with set_apart():
    print("python")
    print("kept handle", file=old, flush=True)
    os.write(1, b"descriptor\\n")
    subprocess.run(["echo", "child"])
    results().write("result\\n")
print("afterwards")
"""


def run(code: str, **streams: int) -> subprocess.CompletedProcess[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run([sys.executable, "-c", code], text=True, check=False, **pipes)  # type: ignore[call-overload,no-any-return]


def test_standard_output_has_the_result_only() -> None:
    done = run(NOISY)
    assert done.stdout == "result\nafterwards\n"
    assert sorted(done.stderr.split("\n")) == ["", "child", "descriptor", "kept handle", "python"]


def test_without_standard_error_what_plugins_print_is_dropped() -> None:
    done = run("import os\nos.close(2)\n" + NOISY)
    assert done.stdout == "result\nafterwards\n"


WORDS = ("--version", "--help", "show --help", "environments list", "show nowhere")
STREAMS = {
    ">/dev/full": "No space left on device",
    ">&-": "it is closed",
    ">/dev/full 2>/dev/full": "",
    ">&- 2>&- <&-": "",
}
EVERY = [(words, *stream) for stream in STREAMS.items() for words in WORDS]


# By default each command once, and each stream once.
@pytest.mark.parametrize(("words", "streams", "why"), mostly_slow(EVERY, [0, 3, 5, 15]))
def test_output_that_cannot_be_written_is_said_and_no_fault_of_ours(
    words: str, streams: str, why: str
) -> None:
    command = f"exec {sys.executable} -m dpframe {words} {streams}"
    done = subprocess.run(["sh", "-c", command], text=True, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    wanted = f"cannot write to standard output: {why}\n" if why else ""
    if words == "show nowhere":  # its own message comes before
        assert "Traceback" not in done.stderr
        return
    assert done.stderr == wanted


def test_results_in_memory_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    held = io.StringIO()
    monkeypatch.setattr(sys, "stdout", held)
    with set_apart():
        print("not a result")  # noqa: T201
        print_json({"a": 1})
    assert json.loads(held.getvalue()) == {"a": 1}
    assert results() is held


PLUGIN = '''
import os, sys
print("imported")
import dpframe
from dpframe import Mechanism, PureDP

class Talks(Mechanism, name="talks"):
    """Says what it does."""
    epsilon: float = 1.0
    def claim(self, pair):
        return PureDP(20.0)
    def sample(self, key, data, n):
        import jax
        print("traced")
        os.write(1, b"traced too\\n")
        return jax.random.uniform(key, (n, *data.shape))

class Ends(Mechanism, name="ends"):
    """Ends the process that traces it."""
    def claim(self, pair):
        return PureDP(1.0)
    def sample(self, key, data, n):
        os._exit(0)

class Exits(Mechanism, name="exits"):
    """Asks the interpreter to end."""
    def claim(self, pair):
        return PureDP(1.0)
    def sample(self, key, data, n):
        sys.exit(0)

@dpframe.hookimpl
def dpframe_mechanisms():
    return [Talks, Ends, Exits]
'''

SPEC = """
schema = 1
[audit]
name = "noisy"
trials = 1000
[pair]
use = "zeros-ones"
[[mechanism]]
use = "{use}"
[[mechanism]]
use = "random-output"
params.epsilon = 30.0
[[attack]]
use = "majority-vote"
[[estimator]]
use = "precision"
"""


def dpframe(directory: Path, use: str, *options: str) -> subprocess.CompletedProcess[str]:
    info = directory / "noisy-1.0.dist-info"
    info.mkdir()
    (directory / "noisy_plugin.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dpframe]\nnoisy = noisy_plugin\n")
    spec = SPEC.format(use=use)
    offered = {"PYTHONPATH": str(directory), "DPFRAME_NO_PLUGINS": "0"}
    with started_audit(directory, spec, *options, **offered) as process:
        out, err = process.communicate(timeout=HANGS)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_a_record_on_standard_output_is_pure(tmp_path: Path) -> None:
    done = dpframe(tmp_path, "talks", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cells"][0]["status"] == "ok"
    assert {"imported", "traced", "traced too"} <= set(done.stderr.splitlines())


@pytest.mark.slow
def test_a_traced_mechanism_that_ends_the_process_never_exits_0(tmp_path: Path) -> None:
    done = dpframe(tmp_path, "ends")
    assert done.returncode == 3, done.stderr
    assert "a plugin called os._exit" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs" / "noisy" / "record.json").exists()


@pytest.mark.slow
def test_a_traced_mechanism_that_exits_fails_its_cell(tmp_path: Path) -> None:
    done = dpframe(tmp_path, "exits", "--json")
    assert done.returncode == 3, done.stderr
    failed, fine = json.loads(done.stdout)["cells"]
    assert failed["reason"].startswith("sample raised SystemExit: 0 (noisy_plugin.py:")
    assert fine["status"] == "ok"
