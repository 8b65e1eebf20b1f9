"""What a black box may leave changed in its process, and would hand on to the next one."""

from __future__ import annotations

import builtins
import gc
import locale
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.descendants import descendants, running

if TYPE_CHECKING:
    from collections.abc import Mapping


def surroundings() -> Mapping[str, Any]:
    """The state of this process that code shares without saying so, by name."""
    return {
        "the working directory": _directory(),
        "os.environ": dict(os.environ),
        "sys.path": list(sys.path),
        "sys.stdin, stdout or stderr": (sys.stdin, sys.stdout, sys.stderr),
        "the recursion limit": sys.getrecursionlimit(),
        "a signal handler": [signal.getsignal(number) for number in signal.valid_signals()],
        "warnings.filters": list(warnings.filters),
        "numpy.seterr": np.geterr(),
        "the module time": [getattr(time, name, None) for name in _CLOCKS],
        "a thread": threading.active_count(),
        "a child process": [child for child in descendants(os.getpid()) if running(child)],
        "standard input, output or error": [_identity(number) for number in range(3)],
        "the file mode mask": _mask(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "a timer": _timers(),
        "a limit of the process": _limits(),
        "garbage collection": gc.isenabled(),
        "tracing": (sys.gettrace(), sys.getprofile()),
        "builtins": {name: id(value) for name, value in vars(builtins).items() if name != "_"},
    }


BY_IMPORTS = (
    *("os.environ", "sys.path", "the recursion limit", "a signal handler", "warnings.filters"),
    *("numpy.seterr", "a thread"),
)
"""What libraries change when they are loaded, once and for all."""


def imported(before: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was there before, and what an import may since have changed."""
    now = surroundings()
    return {name: now[name] if name in BY_IMPORTS else old for name, old in before.items()}


_CLOCKS = ("time", "time_ns", "monotonic", "perf_counter", "sleep")


def differences(before: Mapping[str, Any]) -> list[str]:
    """What is no longer as it was."""
    return [name for name, now in surroundings().items() if now != before[name]]


def _timers() -> list[bool]:
    if not hasattr(signal, "getitimer"):
        return []
    running = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return [any(signal.getitimer(one)) for one in running]


def _limits() -> list[tuple[int, int]]:
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    kinds = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]
    return [resource.getrlimit(kind) for kind in kinds]


def _mask() -> int:
    os.umask(mask := os.umask(0o077))
    return mask


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:  # it was closed
        return None
    return found.st_dev, found.st_ino


def _directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it was deleted
        return None
