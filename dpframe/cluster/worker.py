"""The code that runs on a worker of a cluster: receive tasks, do them, and answer."""

import dataclasses
import hashlib
import os
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from dpframe import __version__
from dpframe.common.arrays import jax
from dpframe.common.text import error_message
from dpframe.engine.fingerprint import code_digest
from dpframe.errors import CellError
from dpframe.interfaces.executor import RefusedError, Task, wanted
from dpframe.sampling.compile_cache import keep_compiled_programs
from dpframe.workers import box_tasks, requests
from dpframe.workers.requirements import differences

KEPT = 8  # shared parts of tasks that a worker keeps unpacked


class Sent(NamedTuple):
    """The shared part of tasks as it is sent, with the versions and code that workers must have."""

    digest: str
    content: bytes
    versions: dict[str, str]
    code: dict[str, str]
    """Digest of the code of every plugin class, by module and name; classes that are sent as code
    have none."""


class MissingError(Exception):
    """A worker lacks a module of the run, whose code must then be sent."""


class Answer(NamedTuple):
    """The outcome of a task; an exception would make Dask retry, and its class may be unknown."""

    kind: str
    """"done", "failed" (by the task), "refused", "missing", or "broken" (by this machine)."""
    found: Any  # the result, or the reason
    worker: str  # address
    place: str  # name of the process


def versions() -> dict[str, str]:
    """Return the versions that must be equal on all machines for equal counts."""
    return {
        "dpframe": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "backend": jax.default_backend(),
    }


def pack(value: Any, classes: Collection[type], *, as_code: bool = False) -> Sent:
    """Pickle a value; with `as_code`, the modules of the classes of its plugins too."""
    content = requests.pickled(value, classes, as_code=as_code)
    code = {}
    for cls in () if as_code else classes:
        if cls.__module__ != "__main__" and _found(cls.__module__, cls.__qualname__) is cls:
            code[f"{cls.__module__}:{cls.__qualname__}"] = code_digest(cls)
    return Sent(hashlib.blake2b(content, digest_size=16).hexdigest(), content, versions(), code)


def unpack(sent: Sent) -> Any:
    """Return the packed value.

    Raises RefusedError if versions or code differ from those of the run, MissingError if a module
    is missing.
    """
    if why := differences(versions(), sent.versions):
        raise RefusedError(f"a worker has {why}")
    try:
        value = pickle.loads(sent.content)
    except (ImportError, AttributeError) as error:
        raise MissingError(f"{type(error).__name__}: {error}") from None
    for name, expected in sent.code.items():
        module, _, qualified = name.partition(":")
        cls = _found(module, qualified)
        if cls is None or code_digest(cls) != expected:
            raise RefusedError(
                f"a worker has different code of {qualified} (module {module}) than the run"
            )
    return value


def _found(module: str, qualified: str) -> Any:
    """Return the object of a qualified name in a loaded module; None if there is none."""
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    return found


_known: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


def unpacked(sent: Sent) -> Any:
    """Return the packed value; it is unpacked once and kept."""
    with _lock:
        if sent.digest not in _known:
            keep_compiled_programs(lambda _: None)
            _known[sent.digest] = unpack(sent)
            while len(_known) > KEPT:
                _known.popitem(last=False)
        _known.move_to_end(sent.digest)
        return _known[sent.digest]


def same(value: Any) -> Any:
    """Return the value; as a task of Dask, it is sent to a worker once, and again if lost."""
    return value


def answered(sent: Sent, task: Task) -> Answer:
    """Do a task on a worker of Dask; `sent` is its shared part."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    token = wanted.set(lambda: _is_wanted(worker, key))
    try:
        kind, found = answer(sent, task)
    finally:
        wanted.reset(token)
    return Answer(kind, found, worker.address, box_tasks.PLACE)


def answer(sent: Sent, task: Task) -> tuple[str, Any]:
    """Do a task; return the first two fields of an `Answer`."""
    try:
        return "done", dataclasses.replace(task, shared=unpacked(sent))()
    except RefusedError as refused:
        return "refused", str(refused)
    except MissingError as missing:
        return "missing", str(missing)
    except CellError as error:
        return "failed", str(error)
    except Exception as error:  # a fault of this machine, such as a full disk; another may succeed
        return "broken", error_message(error)


def _is_wanted(worker: Any, key: Any) -> bool:
    """True if the run still waits for a task, according to Dask's worker."""
    task = worker.state.tasks.get(key)
    gone = worker.status.name in ("closing", "closed", "closing_gracefully", "failed")
    return not gone and task is not None and task.state == "executing"


def keep_apart(addresses: list[str], dask_worker: Any) -> None:
    """Keep every worker of this machine to its share of the cores; all are told at once."""
    keep_to_share(addresses.index(dask_worker.address), len(addresses))


def keep_to_share(place: int, of: int) -> None:
    """Keep this process to its share of the cores it may use, if the system can."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[place::of] or [cores[place % len(cores)]])
