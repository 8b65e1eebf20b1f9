"""One worker process: start it, send requests, wait for answers, and end it at any moment."""

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

MOST = 1 << 16  # remarks that are remembered; later ones are printed each time
LONGEST = 1 << 16  # bytes after which a line counts as ended


class WorkerStderr:
    """Prints remarks, the output of black boxes, to standard error: once for each mechanism.

    Otherwise a warning would be printed by each worker, and perhaps at each release. A remark is a
    line with the indented lines that follow it, such as the source line of a warning.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def take(self, topic: str, said: bytes) -> None:
        """Print a remark, unless it was printed for the same topic."""
        with self._lock:
            if (topic, said) in self._known:
                return
            if len(self._known) < MOST:
                self._known.add((topic, said))
            with contextlib.suppress(Exception):  # standard error may be closed, or replaced
                text = said.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
                sys.stderr.write(escape(text, "\n\t"))
                sys.stderr.flush()


def remarks_in(said: bytes) -> tuple[list[bytes], bytes]:
    """Split the output of a process into remarks and the unfinished last line."""
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


# A worker in another interpreter, which has no dpframe.


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
"""Load the worker program under another name: a black box may have a `dpframe` beside it."""

ONE_THREAD = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS"),
    *("POLARS_MAX_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
)
"""Variables that keep a library from using all cores, which several workers share."""


# Workers in any interpreter.


WORKER_PROCESS_START = (
    "import json, sys; sys.path[:], files = json.loads(sys.argv.pop()); "
    "from dpframe.interfaces.plugin_files import offer; offer(files); "
    "from dpframe.draw.worker.mechanism_sampler import main; main()"
)

PULSE = 0.2  # seconds between two checks that a silent process still exists
GRACE = 0.3  # seconds that processes get to end themselves and what they started


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

    def __init__(self, interpreter: str | None = None, remarks: WorkerStderr | None = None) -> None:
        self.interpreter = interpreter
        self.topic = ""  # of its remarks
        self.imported = ""  # code of the load that it took in last, see `BoxPayload.code`
        self.holds: int | None = None  # number of the load that it has taken in
        self._remarks = remarks or WorkerStderr()
        self._process = _started(interpreter)
        self._heard: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._nonsense: str | None = None  # the fault of its last answer, if it was invalid
        self._saying = threading.Lock()
        threading.Thread(target=self._listen, name="dpframe-listener", daemon=True).start()
        self._overhearing = threading.Thread(
            target=self._overhear, name="dpframe-remarks", daemon=True
        )
        self._overhearing.start()

    def say(self, header: dict[str, object], content: bytes = b"") -> None:
        """Send a request; raises WorkerExited."""
        assert self._process.stdin is not None
        try:
            with self._saying:
                frames.write(self._process.stdin.fileno(), Frame(header, content))
        except (OSError, ValueError):
            raise self._gone() from None

    def hear(self, deadline: float | None = None) -> Frame:
        """Wait for the next answer.

        Raises WorkerExited if there will be none, DeadlinePassed at the deadline.
        """
        while True:
            left = PULSE if deadline is None else min(PULSE, deadline - time.monotonic())
            try:
                frame = self._heard.get(timeout=max(0.0, left))
            except queue.Empty:
                # A process that it started may hold its output, which then does not end with it.
                if self._exit_status() is not None and self._heard.empty():
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
                    self._nonsense, frame = str(error), None
                self._heard.put(frame)
                if frame is None:
                    return

    def _overhear(self) -> None:
        """Print the output of the process and of its descendants."""
        assert self._process.stderr is not None
        with self._process.stderr as printed:
            rest = b""
            while got := os.read(printed.fileno(), 1 << 16):
                found, rest = remarks_in(rest + got)
                for remark in found:
                    self._remarks.take(self.topic, remark)
            if rest:
                self._remarks.take(self.topic, rest)

    def refused(self, error: NoFrameError) -> WorkerExited:
        """End it because of an invalid answer."""
        self._nonsense = str(error)
        return self._gone()

    def _gone(self) -> WorkerExited:
        if self._nonsense is not None:
            end(self)
            return WorkerExited(f"was ended ({self._nonsense})")
        status = self._exit_status()
        deadline = time.monotonic() + GRACE
        while status is None and time.monotonic() < deadline:
            time.sleep(0.01)  # its output ends a moment before it does
            status = self._exit_status()
        end(self)
        return WorkerExited(_described(status))

    def _exit_status(self) -> int | None:
        """Return its exit status without freeing its process number; None if it is running."""
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
        """Send a signal to it and to the processes of its group."""
        if self._process.returncode is not None:
            return  # its number may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()

    def bury(self) -> None:
        """Wait for its end, and close its pipes."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)  # longer only if the system itself hangs
        self._overhearing.join(timeout=1)  # longer only if others hold its output open
        if self._process.stdin is not None and self._saying.acquire(timeout=1):
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._saying.release()

    @property
    def number(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if it has not ended."""
        return self._exit_status() is None


def _started(interpreter: str | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WORKER_PROCESS_START, json.dumps([sys.path, given()])]
    environ = {**os.environ}
    if interpreter is not None:
        command = [interpreter, "-c", START, str(Path(__file__).parent / "worker")]
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
    deadline = time.monotonic() + GRACE
    while any(process.alive for process in running) and time.monotonic() < deadline:
        time.sleep(0.01)
    for process in processes:
        process.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    end_all(below)
    for process in processes:
        process.bury()


def _described(status: int | None) -> str:
    if status is None:
        return "was ended"
    if status >= 0:
        return f"ended with exit code {status}"
    name = f"signal {-status}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-status).name
    more = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return f"was ended by {name}{more}"
