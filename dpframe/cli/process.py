"""Signals, and the process that supervises a run."""

import atexit
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from dpframe.common.machine import adopt, descendants, end, end_with_parent, running


def rest(keeps_counts: bool) -> str:
    """State what an interrupted command keeps."""
    if keeps_counts:
        return "the counts are kept; repeat the command to continue"
    return "nothing is kept"


# Ctrl-C and SIGTERM: the first of them ends a command in an orderly way, and none is lost.


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; code that does not catch Ctrl-C does not catch this either."""


_pending: list[KeyboardInterrupt] = []
_answered: list[KeyboardInterrupt] = []
_raised: list[KeyboardInterrupt] = []  # empty while a signal waits for the end of an import

IMPORT_TIMEOUT = 2.0  # seconds that a signal waits for the end of an import; above WRITE_TIMEOUT
IMPORT_POLL = 0.02  # seconds


def listen() -> None:
    """Make the first of both signals raise an exception, and ignore all others.

    A terminal sends Ctrl-C to all its processes, and the supervisor passes it on again; this second
    signal must not interrupt the writing of counts.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread receives signals
    for signals in (_pending, _answered, _raised):
        signals.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _raise_once)
    _ignore_dropped_signals()


def _raise_once(number: int, frame: FrameType | None) -> None:
    if _pending:
        return
    _pending.append(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
    if hasattr(signal, "setitimer") and _importing(frame):
        _wait_for_import()
    else:
        _raise_pending()


def _wait_for_import() -> None:
    """Raise the signal after the import that it met, or after a time limit.

    Modules in C import others. If an exception ends such an import, some print its traceback, and
    some abort. The supervisor ends a longer import, because it kills this process before.
    """
    until = time.monotonic() + IMPORT_TIMEOUT

    def look_again(_: int, frame: FrameType | None) -> None:
        if not _raised and time.monotonic() < until and _importing(frame):
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not _raised:
            _raise_pending()

    signal.signal(signal.SIGALRM, look_again)
    signal.setitimer(signal.ITIMER_REAL, IMPORT_POLL, IMPORT_POLL)


def _raise_pending() -> None:
    """Raise the signal that arrived, if one did."""
    if _pending:
        _raised[:] = _pending
        raise _pending[0]


def _importing(frame: FrameType | None) -> bool:
    """True if a module is imported in this frame or in one that called it."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def answered() -> None:
    """Note that the signal was reported to the user."""
    _answered[:] = _pending


def unanswered() -> KeyboardInterrupt | None:
    """Return the signal that arrived, unless it was already reported to the user."""
    return _pending[0] if _pending and not _answered else None


def progress_display(*, quiet: bool, **options: Any) -> Callable[[int, int], Any]:
    """Return a progress display on standard error that ends the command after a signal."""
    from dpframe.cli.terminal import console
    from dpframe.report.progress import run_progress

    return end_in_order(partial(run_progress, console(stderr=True), quiet=quiet, **options))


def end_in_order(display: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    """Return a display that raises a signal again at the next report of progress.

    Python drops the exception if a signal arrives during a callback of the garbage collector, and
    JAX has such a callback.
    """
    if (pending := unanswered()) is not None:
        raise pending
    listen()

    @contextlib.contextmanager
    def attentive(cells: int, total: int) -> Iterator[Callable[..., None]]:
        with display(cells, total) as progress:

            def report(**counts: Any) -> None:
                _raise_pending()
                progress(**counts)

            yield report

    return attentive


def _ignore_dropped_signals() -> None:
    """Keep Python from printing a traceback if it drops the exception of a signal."""
    before = sys.unraisablehook
    if before.__module__ == __name__:
        return

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            before(dropped)

    sys.unraisablehook = hook


# A supervisor guarantees three things that the command's own process cannot. Exit code 0 means that
# the command was completed, even if a plugin ends the process (`os._exit`, a crash, `exec`). Ctrl-C
# and SIGTERM end a run within two seconds, even if a plugin holds the interpreter's lock. A thread
# that a plugin leaves behind does not keep the process alive. So the command runs in a child, which
# is forked before any module with threads is imported.


INTERNAL = 70

WRITE_TIMEOUT = 1.7  # seconds for an interrupted child to write its counts
END_TIMEOUT = 1.0  # seconds between the exit code of a child and its end

_CODES = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}


def supervised(work: Callable[[], int], *, lost: int, resumable: bool) -> NoReturn:
    """Run a command in a child process, and exit with its code.

    If this process cannot fork or already has threads, the command runs in this process. `work`
    returns an exit code; `lost` is the exit code if the child ends without one. `resumable` says
    that the command continues after an interruption.
    """
    if not _can_fork():
        sys.exit(work())
    adopt()
    read_end, write_end = os.pipe()
    waker = _wake_on_signals()
    # Signals wait until the parent can handle them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _CODES)
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _go_alone()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _do(work, write_end)
    os.close(write_end)
    watch = _Watch(child, read_end, waker)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    # Not sys.exit: exit handlers run in the child.
    code = watch.code(lost, resumable)
    _end_all()
    os._exit(code)


TRACKER = b"multiprocessing.resource_tracker"


def _end_all() -> None:
    """End the processes that a plugin left; Python's resource trackers come last.

    A tracker waits for the others, removes the semaphores that a killed child left, and ends.
    """
    below = descendants(os.getpid())
    trackers = [process for process in below if TRACKER in _command(process)]
    end([process for process in below if process not in trackers])
    until = time.monotonic() + END_TIMEOUT
    while any(map(running, trackers)) and time.monotonic() < until:
        time.sleep(0.01)
    end(descendants(os.getpid()))


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _can_fork() -> bool:
    """True if this process has no threads, which do not survive a fork; JAX starts some."""
    return hasattr(os, "fork") and threading.active_count() == 1 and "jax" not in sys.modules


def _wake_on_signals() -> int:
    """Return a descriptor that becomes readable when a signal arrives."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return read


def _go_alone() -> None:
    """Undo the parent's signal settings in the child, and end the child if the parent is killed."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    end_with_parent()


def _do(work: Callable[[], int], write_end: int) -> NoReturn:
    code = INTERNAL
    try:
        code = work()
    except KeyboardInterrupt:  # before a command could handle it; the parent reports it
        os._exit(INTERNAL)
    finally:
        with contextlib.suppress(OSError):
            os.write(write_end, bytes([code]))
        _end_here(code)


def _end_here(code: int) -> NoReturn:
    """Run the exit handlers and end this process, but do not finalise the interpreter.

    Python ends threads that return to a finalised interpreter, and if one of them was in a compiled
    program, C++ prints "terminate called" and aborts.
    """
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing does
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    os._exit(code)


class _Watch:
    """Waits for the child and passes signals on to it."""

    def __init__(self, child: int, read_end: int, waker: int) -> None:
        self.child, self.read_end, self.waker = child, read_end, waker
        self.deadline: float | None = None  # the child is killed then
        self.stopped: int | None = None  # the signal that was passed on
        for number in _CODES:
            signal.signal(number, self._pass_on)

    def code(self, lost: int, resumable: bool) -> int:
        """Return the exit code after the child has ended."""
        word = b""
        waiting = [self.read_end, self.waker]
        while (status := self._ended()) is None:
            remaining = (
                None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            )
            ready, _, _ = select.select(waiting, [], [], remaining)
            if self.waker in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.waker, 512)
            if self.read_end in ready:
                word = os.read(self.read_end, 1)
                waiting.remove(self.read_end)
                if word:
                    self._end_within(END_TIMEOUT)
            if self.deadline is not None and time.monotonic() >= self.deadline:
                os.kill(self.child, signal.SIGKILL)
        word = word or self._last_word()
        if word:
            return word[0]
        if self.stopped is not None:
            description, code = _CODES[signal.Signals(self.stopped)]
            print(f"{description}; {rest(resumable)}", file=sys.stderr)
            return code
        print(_unexpected(status), file=sys.stderr)
        return lost

    def _ended(self) -> int | None:
        ended, status = os.waitpid(self.child, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None

    def _last_word(self) -> bytes:
        """Read the child's exit code without blocking, as processes it left may hold the pipe."""
        os.set_blocking(self.read_end, False)
        with contextlib.suppress(BlockingIOError):
            return os.read(self.read_end, 1)
        return b""

    def _end_within(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        self.deadline = at if self.deadline is None else min(self.deadline, at)

    def _pass_on(self, number: int, _: Any) -> None:
        """Pass a signal on; the child ignores it if the terminal has already sent it."""
        self.stopped = number
        self._end_within(WRITE_TIMEOUT)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, number)


def _unexpected(status: int) -> str:
    how = f"with exit code {status}"
    if status < 0:
        how = f"by signal {-status}"
        with contextlib.suppress(ValueError):
            how = f"by {signal.Signals(-status).name}"
    return (
        f"the process was ended {how} before the command was done: a plugin called os._exit or "
        "crashed, or something outside killed it; there is no result"
    )
