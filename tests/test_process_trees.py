"""Processes below a process, wherever they went."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support.processes import has_ended

from dpframe.common.machine import descendants, end, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they are read from /proc")

FAMILY = """
import subprocess, sys
word = "import subprocess; p = subprocess.Popen(['sleep', '1000'], start_new_session=True); "
word += "print(p.pid, flush=True)"
if sys.argv[1:]:
    from dpframe.common.machine import adopt
    adopt()
subprocess.run([sys.executable, "-S", "-c", word])  # leaves it
sys.stdin.read()
"""


def test_a_family_is_found_and_ended() -> None:
    """Also the child of a child that has ended, in a session of its own, if it was adopted."""
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY, "adopt"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lost = int(process.stdout.readline())
        assert lost in descendants(process.pid)
        assert lost in descendants(os.getpid())
        assert running(lost)
        end([lost])
        process.communicate()
    assert has_ended(lost)
    assert not running(process.pid)


def test_who_is_not_there_is_not_running() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert running(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not running(process.pid)
    assert descendants(process.pid) == []
    end([process.pid])
