"""The global state of a process, which one black box could change for the next."""

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
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_getpid = os.getpid  # a box may replace names in modules
_CLOCKS = ("time", "time_ns", "monotonic", "perf_counter", "sleep")
_TIMERS = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:  # it was closed
        return None
    return found.st_dev, found.st_ino


def _children() -> list[int]:
    try:
        from dpframe.common.machine import descendants, running
    except ImportError:
        return []
    return [child for child in descendants(_getpid()) if running(child)]


def _mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _limits() -> list[tuple[int, int]]:
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    kinds = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]
    return [resource.getrlimit(kind) for kind in kinds]


_PARTS: dict[str, Callable[[], Any]] = {
    "the working directory": _directory,
    "os.environ": lambda: dict(os.environ),
    "sys.path": lambda: list(sys.path),
    "sys.stdin, stdout or stderr": lambda: (sys.stdin, sys.stdout, sys.stderr),
    "the recursion limit": sys.getrecursionlimit,
    "a signal handler": lambda: [signal.getsignal(one) for one in signal.valid_signals()],
    "warnings.filters": lambda: list(warnings.filters),
    "numpy.seterr": lambda: "numpy" in sys.modules and sys.modules["numpy"].geterr(),
    "the module time": lambda: [getattr(time, name, None) for name in _CLOCKS],
    "a thread": threading.active_count,
    "a child process": _children,
    "standard input, output or error": lambda: [_identity(number) for number in range(3)],
    "the file mode mask": _mask,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "a timer": lambda: [
        any(signal.getitimer(getattr(signal, name))) for name in _TIMERS if hasattr(signal, name)
    ],
    "a limit of the process": _limits,
    "garbage collection": gc.isenabled,
    "tracing": lambda: (sys.gettrace(), sys.getprofile()),
    "builtins": lambda: {name: id(one) for name, one in vars(builtins).items() if name != "_"},
}
ALL = tuple(_PARTS)

OUTSIDE = (
    *("the working directory", "os.environ", "sys.path", "sys.stdin, stdout or stderr"),
    *("the recursion limit", "a signal handler", "the module time", "a thread"),
)
"""Parts that are watched in other interpreters. Child processes are not: some libraries keep
servers such as a Java machine, which would have to start again for every pair."""

_BY_IMPORTS = (
    *("os.environ", "sys.path", "the recursion limit", "a signal handler", "warnings.filters"),
    *("numpy.seterr", "a thread"),
)
"""Parts that libraries change once, when they are imported."""


def surroundings(names: Iterable[str] = ALL) -> Mapping[str, Any]:
    """Return the global state of this process, by the names of its parts."""
    return {name: _state(_PARTS[name]) for name in names}


def _state(read: Callable[[], Any]) -> Any:
    """Read a part; a part that cannot be read, such as without free descriptors, is its error."""
    try:
        return read()
    except Exception as error:
        return repr(error)


def imported(before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return earlier surroundings, with the present state of parts that imports change."""
    now = surroundings(before)
    return {name: now[name] if name in _BY_IMPORTS else old for name, old in before.items()}


def differences(before: Mapping[str, Any]) -> list[str]:
    """Return the names of parts that have changed."""
    return [name for name, now in surroundings(before).items() if now != before[name]]
