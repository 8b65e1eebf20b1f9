"""One worker process: start it, send requests, wait for replies, and end it at any moment."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from dpframe.common.machine import descendants, end as end_all
from dpframe.common.text import escape
from dpframe.draw.requests import DeadlinePassed
from dpframe.draw.worker import frames
from dpframe.draw.worker.frames import Frame, NoFrameError
from dpframe.environments import clean
from dpframe.errors import SampleError
from dpframe.interfaces.plugin_files import given

MOST_MESSAGES = 1 << 16  # messages that are remembered; later ones are printed each time
LONGEST_LINE = 1 << 16  # bytes after which a line counts as ended


class WorkerStderr:
    """Prints messages, the output of black boxes, to standard error: once for each mechanism.

    Otherwise a warning would be printed by each worker, and perhaps at each release. A message is a
    line with the indented lines that follow it, such as the source line of a warning.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def print_once(self, topic: str, message: bytes) -> None:
        """Print a message, unless it was printed for the same topic."""
        with self._lock:
            if (topic, message) in self._known:
                return
            if len(self._known) < MOST_MESSAGES:
                self._known.add((topic, message))
            with contextlib.suppress(Exception):  # standard error may be closed, or replaced
                text = message.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
                sys.stderr.write(escape(text, "\n\t"))
                sys.stderr.flush()


def split_messages(output: bytes) -> tuple[list[bytes], bytes]:
    """Split the output of a process into messages and the unfinished last line."""
    *lines, unfinished = output.split(b"\n")
    if len(unfinished) > LONGEST_LINE:
        lines, unfinished = [*lines, unfinished], b""
    messages: list[bytes] = []
    for line in lines:
        if messages and line[:1] in (b" ", b"\t"):
            messages[-1] += line + b"\n"
        else:
            messages.append(line + b"\n")
    return messages, unfinished


# A worker in another interpreter, which has no dpframe.


PROGRAM_WORKER_START = """
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
"""Load the worker program under another name: a black box may have a `dpframe` beside it."""

ONE_THREAD = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS"),
    *("POLARS_MAX_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
)
"""Variables that keep a library from using all cores, which several workers share."""


# Workers in any interpreter.


MECHANISM_WORKER_START = (
    "import json, sys; sys.path[:], files = json.loads(sys.argv.pop()); "
    "from dpframe.interfaces.plugin_files import offer; offer(files); "
    "from dpframe.draw.worker.mechanism_sampler import main; main()"
)

POLL_SECONDS = 0.2  # seconds between two checks that a silent process still exists
END_SECONDS = 0.3  # seconds that processes get to end themselves and what they started


class WorkerExited(Exception):  # noqa: N818  # no error if the process was told to end
    """The process has ended; the message says how."""


class WorkerProcess:
    """A new Python process with the same import path: no fork, and `__main__` is not imported.

    `interpreter` is the path of another Python, which then runs the worker program that needs no
    packages; default: this Python. The process has its own session, so that Ctrl-C in a terminal
    does not reach it, and so that it can be ended together with the processes that it started.

    Raises:
        SampleError: no such interpreter.
    """

    def __init__(self, interpreter: str | None = None, stderr: WorkerStderr | None = None) -> None:
        self.interpreter = interpreter
        self.topic = ""  # of its messages
        self.imported = ""  # code of the load that it took in last, see `BlackBoxPayload.code`
        self.holds: int | None = None  # number of the load that it has taken in
        self._stderr = stderr or WorkerStderr()
        self._process = _started(interpreter)
        self._replies: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._invalid_reply: str | None = None  # the fault of its last answer, if it was invalid
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, name="dpframe-listener", daemon=True).start()
        self._stderr_copier = threading.Thread(
            target=self._copy_stderr, name="dpframe-stderr", daemon=True
        )
        self._stderr_copier.start()

    def send(self, header: dict[str, object], content: bytes = b"") -> None:
        """Send a request; raises WorkerExited."""
        assert self._process.stdin is not None
        try:
            with self._sending:
                frames.write(self._process.stdin.fileno(), Frame(header, content))
        except (OSError, ValueError):
            raise self._gone() from None

    def receive(self, deadline: float | None = None) -> Frame:
        """Wait for the next answer.

        Raises WorkerExited if there will be none, DeadlinePassed at the deadline.
        """
        while True:
            left = (
                POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - time.monotonic())
            )
            try:
                frame = self._replies.get(timeout=max(0.0, left))
            except queue.Empty:
                # A process that it started may hold its output, which then does not end with it.
                if self._exit_status() is not None and self._replies.empty():
                    raise self._gone() from None
                if deadline is not None and time.monotonic() >= deadline:
                    raise DeadlinePassed from None
                continue
            if frame is None:
                raise self._gone()
            return frame

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:  # closed here only: its number is in use here
            frame: Frame | None = None
            while True:
                try:
                    frame = frames.read(answers.fileno())
                except NoFrameError as error:
                    self._invalid_reply, frame = str(error), None
                self._replies.put(frame)
                if frame is None:
                    return

    def _copy_stderr(self) -> None:
        """Print the output of the process and of its descendants."""
        assert self._process.stderr is not None
        with self._process.stderr as printed:
            unfinished = b""
            while output := os.read(printed.fileno(), 1 << 16):
                messages, unfinished = split_messages(unfinished + output)
                for message in messages:
                    self._stderr.print_once(self.topic, message)
            if unfinished:
                self._stderr.print_once(self.topic, unfinished)

    def refused(self, error: NoFrameError) -> WorkerExited:
        """End it because of an invalid answer."""
        self._invalid_reply = str(error)
        return self._gone()

    def _gone(self) -> WorkerExited:
        if self._invalid_reply is not None:
            end(self)
            return WorkerExited(f"was ended ({self._invalid_reply})")
        status = self._exit_status()
        deadline = time.monotonic() + END_SECONDS
        while status is None and time.monotonic() < deadline:
            time.sleep(0.01)  # its output ends a moment before it does
            status = self._exit_status()
        end(self)
        return WorkerExited(_exit_in_words(status))

    def _exit_status(self) -> int | None:
        """Return its exit status without freeing its process number; None if it is running."""
        if self._process.returncode is not None:
            return self._process.returncode
        if not hasattr(os, "waitid"):
            return self._process.poll()
        try:
            status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._process.poll()
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def signal(self, number: int) -> None:
        """Send a signal to it and to the processes of its group."""
        if self._process.returncode is not None:
            return  # its number may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()

    def close(self) -> None:
        """Wait for its end, and close its pipes."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)  # longer only if the system itself hangs
        self._stderr_copier.join(timeout=1)  # longer only if others hold its output open
        if self._process.stdin is not None and self._sending.acquire(timeout=1):
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._sending.release()

    @property
    def number(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if it has not ended."""
        return self._exit_status() is None


def _started(interpreter: str | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MECHANISM_WORKER_START, json.dumps([sys.path, given()])]
    environ = {**os.environ}
    if interpreter is not None:
        command = [interpreter, "-c", PROGRAM_WORKER_START, str(Path(__file__).parent / "worker")]
        # These variables would point to this interpreter.
        environ = {**clean(), **dict.fromkeys(ONE_THREAD, "1")}
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**environ, "JAX_PLATFORMS": "cpu"},
            start_new_session=True,
        )
    except OSError as error:
        raise SampleError(f"no worker process can be started: {error.strerror}") from None


def end(*processes: WorkerProcess) -> None:
    """End processes and all of their descendants, usually within half a second.

    The first signal can be handled, the second cannot.
    """
    running = [process for process in processes if process.alive]
    below = [one for process in running for one in descendants(process.number)]
    for process in running:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + END_SECONDS
    while any(process.alive for process in running) and time.monotonic() < deadline:
        time.sleep(0.01)
    for process in processes:
        process.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    end_all(below)
    for process in processes:
        process.close()


def _exit_in_words(status: int | None) -> str:
    if status is None:
        return "was ended"
    if status >= 0:
        return f"ended with exit code {status}"
    name = f"signal {-status}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-status).name
    more = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return f"was ended by {name}{more}"
