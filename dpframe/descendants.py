"""The processes that a process started, and those that these started: where one ends, all do.

A program that begins a session of its own is in nobody's process group any more; it is still a
descendant, as long as somebody above it adopts what its parents leave. On Linux only; elsewhere
there is nothing to read, and nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

_PROCESSES = Path("/proc")
_ADOPT = 36
"""PR_SET_CHILD_SUBREAPER"""


def adopt() -> None:
    """Makes this process the parent of every descendant whose own parent has ended."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_ADOPT, 1)


def descendants(process: int) -> list[int]:
    """Numbers of the processes below one, the nearest first."""
    found, place = [process], 0
    while place < len(found):
        for listed in _PROCESSES.glob(f"{found[place]}/task/*/children"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found += map(int, listed.read_text(encoding="ascii").split())
        place += 1
    return found[1:]


def running(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        about = (_PROCESSES / str(process) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return about.rpartition(")")[2].split()[0] not in "ZX"


def end(processes: list[int]) -> None:
    """Kills processes, whatever they are doing."""
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, getattr(signal, "SIGKILL", signal.SIGTERM))
