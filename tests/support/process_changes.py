"""Changes that a box may leave in its process, and the remarks about each.

`python -m support.process_changes` makes every change, one after the other, in a process where no
other test has left a thread that is about to end, and prints what was noticed as JSON.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from dpframe.workers.program.process_state import differences, surroundings

CHANGES: dict[str, Callable[[], AbstractContextManager[object]]] = {}


def change(name: str) -> Callable[[Any], Any]:
    def keep(function: Callable[[], Iterator[None]]) -> Any:
        CHANGES[name] = contextlib.contextmanager(function)
        return function

    return keep


@change("the working directory")
def directory() -> Iterator[None]:
    with contextlib.chdir("/"):
        yield


@change("os.environ")
def environment() -> Iterator[None]:
    os.environ["DPFRAME_TESTS_WERE_HERE"] = "1"
    yield
    del os.environ["DPFRAME_TESTS_WERE_HERE"]


@change("sys.path")
def path() -> Iterator[None]:
    sys.path.append("/nowhere")
    yield
    sys.path.remove("/nowhere")


@change("sys.stdin, stdout or stderr")
def streams() -> Iterator[None]:
    with contextlib.redirect_stdout(sys.stderr):
        yield


@change("the recursion limit")
def recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 1)
    yield
    sys.setrecursionlimit(before)


@change("a signal handler")
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield
    signal.signal(signal.SIGUSR1, before)


@change("warnings.filters")
def filters() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@change("numpy.seterr")
def errors() -> Iterator[None]:
    before = np.seterr(under="raise")
    yield
    np.seterr(**before)


@change("the module time")
def clock() -> Iterator[None]:
    before, time.time = time.time, lambda: 0.0
    yield
    time.time = before


@change("a thread")
def thread() -> Iterator[None]:
    over = threading.Event()
    (other := threading.Thread(target=over.wait)).start()
    yield
    over.set()
    other.join()


@change("a child process")
def child() -> Iterator[None]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        yield
        other.communicate()


@change("standard input, output or error")
def descriptor() -> Iterator[None]:
    kept = os.dup(0)
    os.close(0)
    yield
    os.dup2(kept, 0)
    os.close(kept)


@change("the file mode mask")
def mask() -> Iterator[None]:
    before = os.umask(0o123)
    yield
    os.umask(before)


@change("a timer")
def timer() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@change("a limit of the process")
def limit() -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@change("garbage collection")
def collection() -> Iterator[None]:
    before = gc.isenabled()
    (gc.disable if before else gc.enable)()
    yield
    (gc.enable if before else gc.disable)()


@change("builtins")
def builtin() -> Iterator[None]:
    before, builtins.callable = builtins.callable, lambda thing: True  # type: ignore[assignment]
    yield
    builtins.callable = before


@change("deleted: the working directory")
def deleted() -> Iterator[None]:
    own = tempfile.mkdtemp()
    with contextlib.chdir(own):
        Path(own).rmdir()
        yield
        os.chdir(tempfile.gettempdir())


def noticed() -> dict[str, list[list[str]]]:
    """Return for every change the differences before it, while it lasted and after it."""
    found = {}
    for name, made in CHANGES.items():
        before = surroundings()
        parts = [differences(before)]
        with made():
            parts.append(differences(before))
        found[name] = [*parts, differences(before)]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(noticed()))
