"""What a worker in another interpreter has to do with its process; see `foreign`.

Python 3.8 and its standard library are all that it uses.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
import types
from typing import Any


def seeds(stream: list[Any], chunk: int, dataset: int) -> bytes:
    """The seeds of an address: those of `dpframe.sampling.address.host_seeds`."""
    text = json.dumps(stream, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    words = hashlib.blake2b(text.encode(), digest_size=32).digest()
    place = words + chunk.to_bytes(8, "little") + bytes([dataset])
    return hashlib.blake2b(place, digest_size=32, person=b"shared").digest()


def surroundings() -> list[Any]:
    """The state of this process that a box would hand on to the next one."""
    try:
        directory: str | None = os.getcwd()
    except OSError:  # it was deleted
        directory = None
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    clocks = [getattr(time, name) for name in ("time", "monotonic", "perf_counter", "sleep")]
    shared = [directory, dict(os.environ), list(sys.path), sys.getrecursionlimit(), handlers]
    return [*shared, clocks, (sys.stdin, sys.stdout, sys.stderr), threading.active_count()]


def imported(before: list[Any]) -> list[Any]:
    """What was there before, and what an import may since have changed for good.

    Libraries set variables of the environment, paths, limits, handlers of signals and threads when
    they are loaded, and a program may load them when it is first asked.
    """
    now = surroundings()
    changes = (1, 2, 3, 4, 7)
    return [now[at] if at in changes else old for at, old in enumerate(before)]


def module(path: str, digest: str) -> Any:
    """Runs a file as a module of its own; what stands beside it can be imported."""
    with open(path, "rb") as file:
        source = file.read()
    if hashlib.sha256(source).hexdigest()[: len(digest)] != digest:
        raise ImportError(os.path.basename(path) + " has changed since the run began")
    name = "dpframe_program_" + os.path.splitext(os.path.basename(path))[0]
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    sys.path.append(os.path.dirname(path))
    exec(compile(source, path, "exec"), module.__dict__)
    return module


def limit(more: int | None) -> None:
    """A box that asks for more memory than there is gets an exception."""
    if more is None:
        return
    try:
        import resource

        with open("/proc/self/status") as status:
            used = next(line.split() for line in status if line.startswith("VmData"))
        limit = (int(used[1]) << 10) + more
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (ImportError, OSError, ValueError, StopIteration):  # Linux alone tells
        pass
