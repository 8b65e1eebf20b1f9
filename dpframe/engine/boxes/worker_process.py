"""A worker process as the run sees it: it can be asked, waited for, and ended at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

from dpframe.descendants import descendants
from dpframe.descendants import end as end_all
from dpframe.engine.boxes import foreign_start
from dpframe.engine.boxes.remarks import Remarks, things
from dpframe.engine.boxes.worker import frames
from dpframe.engine.boxes.worker.frames import Frame, NoFrameError
from dpframe.errors import SampleError
from dpframe.plugin_files import given

START = (
    "import json, sys; sys.path[:], files = json.loads(sys.argv.pop()); "
    "from dpframe.plugin_files import offer; offer(files); "
    "from dpframe.engine.boxes.worker.serve import main; main()"
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
    own = [sys.executable, "-c", START, json.dumps([sys.path, given()])]
    try:
        return subprocess.Popen(
            own if interpreter is None else foreign_start.command(interpreter),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=foreign_start.surroundings() if interpreter else _environ(),
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
