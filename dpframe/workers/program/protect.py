"""Protect datasets and the process from the black box that runs in it."""

from __future__ import annotations

import builtins
import gc
import hashlib
import locale
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.common.machine import descendants, running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.common.types import HostArray


# The dataset as a black box gets it: a copy that it cannot change, or not without being noticed.
#
# A box that adds to its data in place would change them for every later draw.


CHANGED = "sample changed the dataset, which is the input of every later draw: copy it first"


class Handout:
    """Gives one dataset out again and again.

    Args:
        value: the dataset; nobody else may hold it.
    """

    def __init__(self, value: Any) -> None:
        self.seconds = 0.0
        """What the last comparison of the whole dataset took."""
        self._plain = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if self._plain:
            self._dtype, self._shape = value.dtype, value.shape
            self._content = value.tobytes()
            self._before = self._digest()
        else:
            self._content = pickle.dumps(value)
            self._before = pickle.dumps(pickle.loads(self._content))

    def copy(self) -> Any:
        """The dataset: an array over bytes that Python will not change, or a deep copy."""
        if not self._plain:
            return pickle.loads(self._content)
        array: HostArray
        if self._content:
            array = np.frombuffer(self._content, self._dtype).reshape(self._shape)
        else:
            array = np.zeros(self._shape, self._dtype)
            array.flags.writeable = False
        return array

    def changed(self, copy: Any) -> bool:
        """Whether the copy is no longer what it was; of an array, whether the bytes are.

        Arrays share their bytes, so it is enough to ask once for many copies.
        """
        if not self._plain:
            return pickle.dumps(copy) != self._before
        started = monotonic()
        changed = self._digest() != self._before
        self.seconds = monotonic() - started
        return changed

    @property
    def shared(self) -> bool:
        """Whether one question about a copy answers for all copies before it."""
        return self._plain

    def _digest(self) -> bytes:
        return hashlib.blake2b(self._content, digest_size=16).digest()


# What a black box may leave changed in its process, and would hand on to the next one.


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
