"""Exit codes and time limits hold, whatever a plugin does to the process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from support.processes import HANGS, has_ended
from support.tiers import mostly_slow
from typer.testing import CliRunner

from dpframe.cli import process
from dpframe.cli.app import offer
from dpframe.errors import DpframeError

FRAME = """
import os, sys, signal, time, threading, ctypes
from dpframe.cli.process import listen
from dpframe.cli import process as supervisor
from dpframe.cli.process import supervised
supervisor.WRITE_TIMEOUT = supervisor.END_TIMEOUT = {patience}
def work():
    listen()
{body}
supervised(work, lost=3, resumable=True)
"""

LOST = "before the command was done"


def started(body: str, patience: float = 0.4) -> subprocess.Popen[str]:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return subprocess.Popen(
        [sys.executable, "-c", FRAME.format(body=lines, patience=patience)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(body: str) -> tuple[int, str]:
    with started(body) as process:
        _, err = process.communicate(timeout=HANGS)
    return process.returncode, err


@pytest.mark.parametrize("code", mostly_slow([0, 1, 2, 3, 70, 130], (0, 2, 4)))
def test_the_child_s_word_is_the_exit_code(code: int) -> None:
    assert ended(f"return {code}") == (code, "")


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("os._exit(0)", "with exit code 0"),
        ("os._exit(1)", "with exit code 1"),
        ("ctypes.CDLL(None).exit(0)", "with exit code 0"),
        ("os.execv(sys.executable, [sys.executable, '-c', ''])", "with exit code 0"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "by SIGKILL"),
    ],
)
def test_a_process_that_a_plugin_ends_has_no_result(body: str, how: str) -> None:
    code, err = ended(body)
    assert code == 3
    assert how in err
    assert LOST in err
    assert len(err.splitlines()) == 1


def test_a_thread_that_is_left_behind_keeps_nobody() -> None:
    assert ended("threading.Thread(target=time.sleep, args=(1000,)).start()\nreturn 0") == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts them")
@pytest.mark.parametrize("end", ["return 0", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_program_that_is_left_behind_ends_too(end: str) -> None:
    """It has a session of its own, so that no signal to the process group reaches it."""
    body = "import subprocess\np = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    with started(f"{body}print(p.pid, flush=True)\n{end}") as process:
        assert process.stdout is not None
        left = int(process.stdout.readline())
        process.communicate(timeout=HANGS)
    assert has_ended(left)


STUCK = """import itertools
while True:
    try:
        print("ready", flush=True)
        sum(itertools.repeat(0))
    except KeyboardInterrupt:
        pass"""
"""In C, without giving the interpreter away: no handler of Python's can run, or is heeded."""


@pytest.mark.parametrize(
    ("number", "code", "word"),
    mostly_slow([(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")], (1,)),
)
@pytest.mark.parametrize("everybody", mostly_slow([False, True], [1]))
def test_a_signal_ends_even_what_holds_the_interpreter(
    number: signal.Signals, code: int, word: str, everybody: bool
) -> None:
    with started(STUCK) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (os.killpg if everybody else os.kill)(process.pid, number)
        _, err = process.communicate(timeout=HANGS)
    assert process.returncode == code
    assert err == f"{word}; the counts are kept; repeat the command to continue\n"


def test_a_signal_that_comes_as_the_child_is_made_is_passed_on() -> None:
    hurried = """
import os, signal
fork = os.fork
def fork_and_be_told():
    child = fork()
    if child:
        os.kill(os.getpid(), signal.SIGTERM)
    return child
os.fork = fork_and_be_told
"""
    code = hurried + FRAME.format(body="    time.sleep(1000)", patience=0.4)
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=HANGS
    )
    assert (done.returncode, done.stderr[:10]) == (143, "terminated")


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_that_nobody_answers_is_answered_here(number: int, code: int, word: str) -> None:
    """As one does that comes before the command has begun."""
    with started("print('ready', flush=True)\ntime.sleep(1000)", patience=HANGS) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=HANGS)
    assert (process.returncode, err.partition(";")[0]) == (code, word)


ANSWERS = f"""came = []
def told(number, frame, heed=signal.getsignal(signal.SIGINT)):
    came.append(number)
    heed(number, frame)
signal.signal(signal.SIGINT, told)
try:
    print("ready", flush=True)
    time.sleep({HANGS})
except KeyboardInterrupt:
    before = len(came)
    print("answering", flush=True)
    while len(came) == before:
        time.sleep(0.01)
    return 130"""
"""Needs the second signal, so that it comes while it answers however busy the machine is."""


def test_a_second_signal_does_not_break_into_the_answer_to_the_first() -> None:
    with started(ANSWERS, patience=HANGS) as process:
        assert process.stdout is not None
        for said in ("ready\n", "answering\n"):
            assert process.stdout.readline() == said
            os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=HANGS)
    assert (process.returncode, err) == (130, "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells a child")
def test_the_child_ends_with_its_parent() -> None:
    """It holds its parent's standard output, which ends when the last holder has."""
    with started(STUCK) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.communicate(timeout=HANGS)
    assert process.returncode == -signal.SIGKILL


def test_nothing_is_supervised_where_threads_run_already() -> None:
    code = """
import threading
from dpframe.cli.process import supervised
import os
before = os.getpid()
threading.Thread(target=threading.Event().wait, daemon=True).start()
supervised(lambda: 5 if os.getpid() == before else 6, lost=3, resumable=True)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 5


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("error", [ImportError, DpframeError])
def test_an_error_that_a_signal_caused_is_an_interruption(
    number: int, code: int, error: type[Exception]
) -> None:
    """A module in C that is imported when a signal arrives raises an error of its own."""
    group = typer.Typer()

    def command() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            process._raise_once(number, None)
        raise error("initialisation failed")

    offer(command, keeps_counts=True, group=group, name="x")
    process._pending.clear()
    process._answered.clear()
    try:
        found = CliRunner().invoke(group, [])
    finally:
        process._pending.clear()
        process._answered.clear()
    assert found.exit_code == code


IMPORTED = """
import os, signal, sys, time
from dpframe.cli import process

try:
    os.kill(os.getppid(), signal.SIGTERM)  # the supervisor passes it on
    while not process._pending:
        time.sleep(0.01)
except KeyboardInterrupt:
    print("Traceback", file=sys.stderr)  # as modules in C do, before they raise their own error
"""


def test_a_signal_waits_for_the_end_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "broken_by_signals.py").write_text(IMPORTED)
    code, err = ended(
        f"sys.path.insert(0, {str(tmp_path)!r})\nimport broken_by_signals\ntime.sleep({HANGS})"
    )
    assert (code, err) == (143, "terminated; the counts are kept; repeat the command to continue\n")


def test_a_signal_that_python_dropped_is_raised_again() -> None:
    """Python drops an exception that is raised in a callback of the garbage collector."""
    process.listen()
    with contextlib.suppress(KeyboardInterrupt):
        process._raise_once(signal.SIGTERM, None)
    try:
        with pytest.raises(process.Terminated):
            process.end_in_order(lambda cells, total: None)
    finally:
        process._pending.clear()


def test_the_child_runs_exit_handlers_and_no_finalisers_of_the_interpreter() -> None:
    """Finalising it under a thread in a compiled program prints "terminate called"."""
    body = """
import atexit
class Kept:
    def __del__(self): os.write(2, b"finalised")
sys.modules["kept"] = Kept()
atexit.register(os.write, 2, b"exit handler")
print("not yet flushed", end="")
return 0"""
    with started(body) as process:
        out, err = process.communicate(timeout=HANGS)
    assert (process.returncode, out, err) == (0, "not yet flushed", "exit handler")
