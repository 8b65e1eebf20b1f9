"""This machine: memory, process trees, and calls with a time limit."""

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
# Files with the memory limit and the memory use of a control group, in versions 2 and 1.
_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def free_bytes() -> int | None:
    """Return the memory that this process may still take without swapping or being killed.

    Returns:
        None if the system does not report it.
    """
    free = [unused for unused in (_of_system(), *map(_of_group, _groups())) if unused is not None]
    return min(free, default=None)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


LEAST_CORE_SHARE = 1 / 4


def core_share() -> float:
    """Estimate the part of a core that a thread gets beside the machine's other work.

    Returns:
        1 if the load leaves a core for it, or is unknown; at least `LEAST_CORE_SHARE`.
    """
    if not hasattr(os, "getloadavg"):
        return 1.0
    load = os.getloadavg()[0]
    # The load includes this process and its workers, which use no more than the cores and one.
    return max(LEAST_CORE_SHARE, min(1.0, ((os.cpu_count() or 1) + 1) / max(load, 1e-9)))


@contextlib.contextmanager
def within(more: int | None) -> Iterator[None]:
    """Make this process raise `MemoryError` if it asks for too much memory inside the context.

    Otherwise the system grants memory that it does not have, and kills the process that uses it.

    Args:
        more: bytes beyond the present use of the process; None for no limit. Linux only.
    """
    used = _table(Path("/proc/self/status")).get("VmData")
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


def _of_system() -> int | None:
    available = _table(Path("/proc/meminfo")).get("MemAvailable")
    if available is not None:
        return available << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _table(file: Path) -> dict[str, int]:
    """Read the numbers of a file of lines like `MemAvailable:  123 kB`."""
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    words = ((name, value.split()) for name, _, value in pairs)
    return {name: int(word[0]) for name, word in words if word and word[0].isdigit()}


def _groups() -> Iterator[Path]:
    """List the control groups of this process, from its own up to that of the whole machine."""
    try:
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers in ("", "memory"):
            own = _CONTROL_GROUPS / controllers / path.lstrip("/")
            yield from (g for g in (own, *own.parents) if g.is_relative_to(_CONTROL_GROUPS))


def _of_group(group: Path) -> int | None:
    """Return the bytes that a control group has left; None if it sets no limit."""
    try:
        most, used = (int(file.read_text(encoding="ascii")) for file in _files_of(group))
    except (OSError, ValueError):  # the group has no such files, or its limit is "max"
        return None
    return max(0, most - used)


@functools.cache
def _files_of(group: Path) -> tuple[Path, ...]:
    """Return the files of a control group that limit its memory, in one of the two versions."""
    pairs = (tuple(group / name for name in names) for names in _FILES)
    return next((pair for pair in pairs if all(file.is_file() for file in pair)), ())


# Process trees, on Linux only. A program that starts its own session leaves its process group, but
# stays a descendant if a process above it adopts orphans. psutil reads every process of the machine
# for this and takes 55 times as long.


def adopt() -> None:
    """Make this process the parent of every descendant whose own parent has ended."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def end_with_parent() -> None:
    """Let the system kill this process as soon as the thread that started it ends; Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


_BOUND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(9)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def bound_to_parent(command: list[str]) -> list[str]:
    """Return a command that runs another one, which the system kills as soon as this thread ends.

    No code runs between fork and exec, because a fork may deadlock in a process with threads. On
    other systems than Linux, return the command itself.
    """
    if sys.platform != "linux":
        return command
    return [sys.executable, "-ISc", _BOUND, str(os.getpid()), *command]


def descendants(process: int) -> list[int]:
    """Return the numbers of the processes below one, the nearest first."""
    processes = [process]
    for number in processes:  # grows during the loop
        for listed in Path("/proc").glob(f"{number}/task/*/children"):
            with contextlib.suppress(OSError):  # it has ended
                processes += map(int, listed.read_text(encoding="ascii").split())
    return processes[1:]


def running(process: int) -> bool:
    """True if a process exists and has not ended; a zombie has ended."""
    try:
        about = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return about.rpartition(")")[2].split()[0] not in "ZX"


def end(processes: list[int]) -> None:
    """Kill processes that still exist."""
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, getattr(signal, "SIGKILL", signal.SIGTERM))


T = TypeVar("T")

GRACE_SECONDS = 10.0
"""Seconds beyond the time budget that a call of plugin code gets outside counting."""

TICK = 0.05
"""Seconds between two checks of the time limit."""


class StuckError(Exception):
    """A call of plugin code exceeded its time limit; the message names the call.

    Args:
        what: name of the call.
        limit: its time limit, in seconds.
        place: the caller's name for the call.
    """

    def __init__(self, what: str, limit: float, place: Any = None) -> None:
        super().__init__(f"{what} did not return within {limit:g} s")
        self.place = place


class _Call(NamedTuple):
    what: str
    since: float
    place: Any


_calls: dict[int, _Call] = {}
"""By thread: the present call of plugin code, the outermost if they are nested."""


@contextlib.contextmanager
def at_work(what: str, place: Any = None) -> Iterator[None]:
    """Note that this thread calls plugin code inside the context.

    Args:
        what: name of the call.
        place: the caller's name for the call.
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
    """Return the name of the plugin call that a thread is in; None if it is in none."""
    call = None if thread is None else _calls.get(thread)
    return None if call is None else call.what


def run_into_future(future: "Future[T]", call: Callable[[], T]) -> None:
    """Make a call, and put its result or its exception into a future."""
    try:
        future.set_result(call())
    except BaseException as error:  # raised where the result is asked for
        future.set_exception(error)


def with_timeout(work: Callable[[], T], seconds: float | None) -> T:
    """Call plugin code with a time limit.

    No thread can be ended from outside. If the call times out, its thread is abandoned and its
    result ignored.

    Args:
        work: runs in another thread, so contexts of this thread do not apply to it.
        seconds: the time budget; None for no limit and no other thread.

    Raises:
        StuckError: a call under `at_work` exceeded the budget and a grace period.
    """
    if seconds is None:
        return work()
    from concurrent.futures import Future, wait  # the command line imports this module first

    limit, done = seconds + GRACE_SECONDS, Future[T]()
    thread = threading.Thread(
        target=run_into_future, args=(done, work), name="dpframe-authors", daemon=True
    )
    thread.start()
    while not wait([done], TICK).done:
        call = _calls.get(thread.ident or 0)
        if call is not None and time.monotonic() - call.since > limit:
            raise StuckError(call.what, limit, call.place)
    return done.result()
