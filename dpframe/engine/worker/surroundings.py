"""What a black box may leave changed in its process, and would hand on to the next one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
    }


_CLOCKS = ("time", "time_ns", "monotonic", "perf_counter", "sleep")


def differences(before: Mapping[str, Any]) -> list[str]:
    """What is no longer as it was."""
    return [name for name, now in surroundings().items() if now != before[name]]


def _directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # it was deleted
        return None
