"""This machine: memory, process trees, and calls with a time limit."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# What this machine has, so that nothing is begun that it cannot hold.


_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Of a control group, versions 2 and 1: what its processes may have and do have."""


def free_bytes() -> int | None:
    """Memory that this process may still take without anything being pushed out or killed.

    Returns:
        None where the system does not tell.
    """
    free = [left for left in (_of_system(), *map(_of_group, _groups())) if left is not None]
    return min(free, default=None)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def within(more: int | None) -> Iterator[None]:
    """Lets whoever asks for more memory than this meet a `MemoryError`.

    Without it the system gives what it does not have, and kills the process that uses it.

    Args:
        more: bytes beyond what the process has now; None for no limit. Kept on Linux only.
    """
    used = _status().get("VmData")
    if more is None or used is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = (used << 10) + more
    if before[0] not in (resource.RLIM_INFINITY, -1):
        limit = min(limit, before[0])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _status() -> dict[str, int]:
    return _table(Path("/proc/self/status"))


def _of_system() -> int | None:
    available = _table(Path("/proc/meminfo")).get("MemAvailable")
    if available is not None:
        return available << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _table(file: Path) -> dict[str, int]:
    """The numbers of a file of lines like `MemAvailable:  123 kB`."""
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    words = ((name, value.split()) for name, _, value in pairs)
    return {name: int(word[0]) for name, word in words if word and word[0].isdigit()}


def _groups() -> list[Path]:
    """The control groups of this process, from its own up to that of the whole machine."""
    try:
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers in ("", "memory"):
            own = _CONTROL_GROUPS / controllers / path.lstrip("/")
            found += [own, *own.parents]
    return [group for group in found if group.is_relative_to(_CONTROL_GROUPS)]


def _of_group(group: Path) -> int | None:
    """What a control group has left; None if it sets no limit."""
    for limit, usage in _FILES:
        try:
            most, used = ((group / name).read_text(encoding="ascii") for name in (limit, usage))
            return max(0, int(most) - int(used))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return None


# The processes that a process started, and those that these started: where one ends, all do.
#
# A program that begins a session of its own is in nobody's process group any more; it is still a
# descendant, as long as somebody above it adopts what its parents leave. On Linux only; elsewhere
# there is nothing to read, and nothing is done.


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


# Waits for authors' code as long as a time budget allows, and no longer.
#
# No thread can be ended from outside. So code that may hang runs in a thread of its own, which is
# left behind if it does: it keeps nobody, and nothing that it still finds is used.


T = TypeVar("T")

PATIENCE = 10.0
"""Seconds beyond a time budget that a call of authors' code gets while nothing is counted."""

TICK = 0.05
"""Seconds between two looks at the clock."""


class StuckError(Exception):
    """Authors' code did not come back; the message says whose.

    Args:
        what: was called.
        limit: seconds that it had.
        place: whatever its caller knows it by.
    """

    def __init__(self, what: str, limit: float, place: Any = None) -> None:
        super().__init__(f"{what} did not come back within {limit:g} s")
        self.place = place


class _Call(NamedTuple):
    what: str
    since: float
    place: Any


_calls: dict[int, _Call] = {}
"""By thread: the call of authors' code that is going on, the outermost if there are several."""


@contextlib.contextmanager
def at_work(what: str, place: Any = None) -> Iterator[None]:
    """While authors' code is called.

    Args:
        what: is called.
        place: whatever the caller knows it by.
    """
    thread = threading.get_ident()
    if thread in _calls:
        yield
        return
    _calls[thread] = _Call(what, time.monotonic(), place)
    try:
        yield
    finally:
        _calls.pop(thread, None)


def doing(thread: int | None) -> str | None:
    """What authors' code a thread is calling."""
    call = None if thread is None else _calls.get(thread)
    return None if call is None else call.what


def patiently(work: Callable[[], T], seconds: float | None) -> T:
    """What a call gives, if no authors' code in it takes too long.

    Args:
        work: is called in another thread, so that its contexts must be its own.
        seconds: the time budget; None waits for ever, in this thread.

    Raises:
        StuckError: some code of authors takes longer than that and the patience for it.
    """
    if seconds is None:
        return work()
    limit = seconds + PATIENCE
    done: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((True, work()))
        except BaseException as error:
            done.put((False, error))

    thread = threading.Thread(target=run, name="dpframe-authors", daemon=True)
    thread.start()
    while True:
        try:
            came, result = done.get(timeout=TICK)
        except queue.Empty:
            call = _calls.get(thread.ident or 0)
            if call is not None and time.monotonic() - call.since > limit:
                raise StuckError(call.what, limit, call.place) from None
            continue
        if came:
            found: T = result
            return found
        raise result
