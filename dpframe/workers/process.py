"""One worker process, as the run sees it."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from dpframe.common.machine import descendants, free_bytes
from dpframe.common.machine import end as end_all
from dpframe.environments.places import clean
from dpframe.errors import SampleError
from dpframe.interfaces.mechanism import ForeignMechanism
from dpframe.interfaces.plugin_files import given
from dpframe.workers.program import frames
from dpframe.workers.program.frames import Frame, NoFrameError
from dpframe.workers.program.plain_data import UnfitError, pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.interfaces.mechanism import HostMechanism


# What black boxes print: each thing once for every mechanism, not once for every process.
#
# A library that warns does so in each worker, and some warn with every release. A thing is a line
# with the indented lines that follow it, as warnings have their source and tracebacks their
# frames.


MOST = 1 << 16
"""Things that are remembered; what comes then is printed as often as it comes."""

LONGEST = 1 << 16
"""Bytes after which a line counts as ended."""


class Remarks:
    """Prints what it has not printed for a mechanism yet, to standard error."""

    def __init__(self) -> None:
        self._known: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def take(self, topic: str, said: bytes) -> None:
        """Takes one thing in.

        Args:
            topic: whose it is.
            said: lines, or the part of one that is not ended.
        """
        with self._lock:
            if (topic, said) in self._known:
                return
            if len(self._known) < MOST:
                self._known.add((topic, said))
            with contextlib.suppress(Exception):  # standard error may be closed, or somebody's own
                sys.stderr.write(said.decode(errors="replace"))
                sys.stderr.flush()


def things(said: bytes) -> tuple[list[bytes], bytes]:
    """The things in what a process has written, and the line that is not ended yet."""
    *lines, rest = said.split(b"\n")
    if len(rest) > LONGEST:
        lines, rest = [*lines, rest], b""
    found: list[bytes] = []
    for line in lines:
        if found and line[:1] in (b" ", b"\t"):
            found[-1] += line + b"\n"
        else:
            found.append(line + b"\n")
    return found, rest


# Processes beside this one: how they are started, what they begin with, and when they end.
#
# They are spawned, because forking after JAX has started would not be safe.


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


UNGUARDED = (
    "worker processes ended before they began; if a script runs this, they import the script "
    'again: keep what it does under if __name__ == "__main__":'
)


def spawned(
    number: int, initializer: Callable[[bytes], None], pickled: bytes
) -> ProcessPoolExecutor:
    """Processes that have yet to start; the first task starts them.

    Args:
        number: how many.
        initializer: what each calls first, with `pickled`; it calls `begin`.
        pickled: what the processes work with.
    """
    _end_if_imported_again()
    return ProcessPoolExecutor(
        number,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=initializer,
        initargs=(pickled,),
    )


def begin() -> None:
    """What every process of ours does first.

    Ctrl-C is the parent's to answer. JAX stays on the CPU: devices are the parent's too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]


def in_bytes(content: Any) -> tuple[bytes, None] | tuple[None, str]:
    """What can be handed to another process, or the name of the exception that says it cannot."""
    try:
        return pickle.dumps(content), None
    except Exception as error:  # pickle raises whatever the object's code raises
        return None, type(error).__name__


def from_bytes(pickled: bytes) -> tuple[Any, str | None]:
    """What was handed over, or why it cannot be had here."""
    try:
        return pickle.loads(pickled), None
    except Exception as error:  # a module that only the parent could import, for one
        return None, f"{type(error).__name__}: {error}"


def _end_if_imported_again() -> None:
    """Ends a worker process that runs a script again because the script has no guard.

    A spawned process imports the script that started it before it does anything else. One that got
    here would start workers of its own; the parent says what is wrong.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(1)


def _end_with_parent() -> None:
    """A run that is killed cannot end its workers; they would wait for it for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# How a worker of another interpreter is started, and what it is told of a load.


START = """
import sys, types
sys.path[:] = [place for place in sys.path if place]
bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
package = types.ModuleType("dpframe_worker")
package.__path__ = [sys.argv.pop()]
sys.modules["dpframe_worker"] = package
from dpframe_worker.module_sampler import main
sys.dont_write_bytecode = bytecode
main()
"""
"""Load the worker program under a name of its own: a `dpframe` that a black box may have beside it
is left alone."""

ONE_THREAD = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS"),
    *("POLARS_MAX_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
)
"""Libraries that would take all cores, where several workers share them."""


def command(interpreter: str) -> list[str]:
    """Return the command that starts a worker."""
    return [interpreter, "-c", START, str(Path(__file__).parent / "program")]


def surroundings() -> dict[str, str]:
    """Its environment variables: nothing in them leads back to this interpreter."""
    return {**clean(), **dict.fromkeys(ONE_THREAD, "1"), "JAX_PLATFORMS": "cpu"}


def is_foreign(mechanisms: tuple[HostMechanism, ...]) -> bool:
    """Whether the boxes of a load are modules for any interpreter."""
    return isinstance(mechanisms[0], ForeignMechanism)


def task(mechanisms: tuple[Any, ...], data: tuple[Any, ...]) -> tuple[dict[str, Any], bytes]:
    """What a worker is told: where the program is, its parameters, and the data.

    Args:
        mechanisms: one per lane.
        data: the two datasets.

    Raises:
        SampleError: the program is not there, or the data cannot be handed over.
    """
    first = mechanisms[0]
    try:
        program = first.program()
        told = {
            "do": "load",
            "program": str(program.path.resolve()),
            "digest": program.digest,
            "params": [mechanism.arguments() for mechanism in mechanisms],
            "attributes": list(first.attributes),
            "memory": free_bytes(),
        }
        return told, pack([pack(one) for one in data])
    except UnfitError as error:
        raise SampleError(f"D or D′: {error}") from None
    except (OSError, ValueError) as error:
        raise SampleError(f"the program cannot be read: {error}") from None


# A worker process as the run sees it: it can be asked, waited for, and ended at any moment.


WORKER_PROCESS_START = (
    "import json, sys; sys.path[:], files = json.loads(sys.argv.pop()); "
    "from dpframe.interfaces.plugin_files import offer; offer(files); "
    "from dpframe.workers.program.mechanism_sampler import main; main()"
)

PULSE = 0.2
"""Seconds between two looks at whether a silent process is still there."""

GRACE = 0.3
"""Seconds that processes get to end themselves and what they started."""


class Gone(Exception):  # noqa: N818  # not always an error: who is told to end is gone
    """The process has ended; the message says how."""


class Overdue(Exception):  # noqa: N818
    """The process did not answer in time; it goes on."""


class WorkerProcess:
    """A fresh Python with the same import path: no fork, and `__main__` is not imported again.

    Or another interpreter, with the worker that needs nothing installed. It has a session of its
    own, so that Ctrl-C in a terminal does not reach it, and so that it can be ended with all the
    processes that it started.

    Args:
        interpreter: path of another Python; default: this one.
        remarks: takes in what it prints.
    """

    def __init__(self, interpreter: str | None = None, remarks: Remarks | None = None) -> None:
        self.interpreter = interpreter
        self.topic = ""
        """Whose prints its prints are."""
        self._remarks = remarks or Remarks()
        self.holds: int | None = None
        """Number of the load that it has taken in."""
        self._process = _started(interpreter)
        self._heard: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._nonsense: str | None = None
        """What came instead of an answer, if anything did."""
        self._saying = threading.Lock()
        threading.Thread(target=self._listen, name="dpframe-listener", daemon=True).start()
        self._overhearing = threading.Thread(
            target=self._overhear, name="dpframe-remarks", daemon=True
        )
        self._overhearing.start()

    def say(self, header: dict[str, object], content: bytes = b"") -> None:
        """Asks for something; raises Gone."""
        assert self._process.stdin is not None
        try:
            with self._saying:
                frames.write(self._process.stdin.fileno(), Frame(header, content))
        except (OSError, ValueError):
            raise self._gone() from None

    def hear(self, deadline: float | None = None) -> Frame:
        """The next answer.

        Args:
            deadline: until when to wait for it, on the monotonic clock.

        Raises:
            Gone: there will be none.
            Overdue: there is none yet.
        """
        while True:
            left = PULSE if deadline is None else min(PULSE, deadline - time.monotonic())
            try:
                frame = self._heard.get(timeout=max(0.0, left))
            except queue.Empty:
                # Whoever it started may hold its output, which then does not end with it.
                if self._exit_status() is not None and self._heard.empty():
                    raise self._gone() from None
                if deadline is not None and time.monotonic() >= deadline:
                    raise Overdue from None
                continue
            if frame is None:
                raise self._gone()
            return frame

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:  # closed by nobody else: its number is in use here
            frame: Frame | None = Frame({})
            while frame is not None:
                try:
                    frame = frames.read(answers.fileno())
                except NoFrameError as error:
                    self._nonsense, frame = str(error), None
                self._heard.put(frame)

    def _overhear(self) -> None:
        """Hands on what the process, or what it started, prints."""
        assert self._process.stderr is not None
        with self._process.stderr as printed:
            rest = b""
            while got := os.read(printed.fileno(), 1 << 16):
                found, rest = things(rest + got)
                for thing in found:
                    self._remarks.take(self.topic, thing)
            if rest:
                self._remarks.take(self.topic, rest)

    def _gone(self) -> Gone:
        if self._nonsense is not None:
            end(self)
            return Gone(f"was ended ({self._nonsense})")
        status = self._exit_status()
        deadline = time.monotonic() + GRACE
        while status is None and time.monotonic() < deadline:
            time.sleep(0.01)  # its output ends a moment before it does
            status = self._exit_status()
        end(self)
        return Gone(_how(status))

    def _exit_status(self) -> int | None:
        """How it ended, while the system still keeps its number for us; None if it has not."""
        if self._process.returncode is not None:
            return self._process.returncode
        if not hasattr(os, "waitid"):
            return self._process.poll()
        try:
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._process.poll()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def signal(self, number: int) -> None:
        """Sends a signal to it and to what it started."""
        if self._process.returncode is not None:
            return  # its number may be somebody else's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()

    def bury(self) -> None:
        """Takes its end in."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)  # longer only if the system itself hangs
        self._overhearing.join(timeout=1)  # longer only if others hold what it printed to
        if self._process.stdin is not None and self._saying.acquire(timeout=1):
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._saying.release()

    @property
    def number(self) -> int:
        """By which the system knows it."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._exit_status() is None


def _started(interpreter: str | None) -> subprocess.Popen[bytes]:
    """Raises SampleError where there is no such interpreter."""
    own = [sys.executable, "-c", WORKER_PROCESS_START, json.dumps([sys.path, given()])]
    try:
        return subprocess.Popen(
            own if interpreter is None else command(interpreter),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=surroundings() if interpreter else _environ(),
            start_new_session=True,
        )
    except OSError as error:
        raise SampleError(f"no worker process can be started: {error.strerror}") from None


def _environ() -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu"}


def end(*processes: WorkerProcess) -> None:
    """Ends processes and everything that they started, whatever they are doing, in half a second.

    First in a way that they can answer to, then in one that they cannot.
    """
    running = [process for process in processes if process.alive]
    below = [one for process in running for one in descendants(process.number)]
    for process in running:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while any(process.alive for process in running) and time.monotonic() < deadline:
        time.sleep(0.01)
    for process in processes:
        process.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    end_all(below)
    for process in processes:
        process.bury()


def _how(status: int | None) -> str:
    if status is None:
        return "was ended"
    if status >= 0:
        return f"ended with exit code {status}"
    name = f"signal {-status}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-status).name
    more = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return f"was ended by {name}{more}"
