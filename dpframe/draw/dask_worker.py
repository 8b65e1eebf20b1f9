"""The code that runs on a worker of a cluster: receive tasks, do them, and answer."""

import dataclasses
import functools
import hashlib
import importlib.metadata
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, NamedTuple

from dpframe.common.arrays import jax
from dpframe.common.text import error_message
from dpframe.draw import requests
from dpframe.draw.compile_cache import keep_compiled_programs
from dpframe.draw.value_digest import code_digest
from dpframe.errors import CellError
from dpframe.interfaces.executor import RefusedError, Task, wanted

MOST_UNPACKED = 8  # shared parts of tasks that a worker keeps unpacked
INSTALLERS = {"pip", "setuptools", "wheel"}  # they affect no draw


class Sent(NamedTuple):
    """The shared part of tasks as it is sent, with the versions and code that workers must have."""

    digest: str
    content: bytes
    versions: dict[str, str]
    code: dict[str, str]
    """Digest of the code of every plugin class, by module and name; classes that are sent as code
    have none."""


class UnableError(Exception):
    """A worker cannot do a task; another one may.

    Its arguments are the address of the worker, the reason, and True if it can do no task.
    """


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python, of the device and of all distributions of this machine."""
    installed = {"Python": sys.version.split()[0], "backend": jax.default_backend()}
    for one in importlib.metadata.distributions():
        if one.name not in INSTALLERS:
            installed.setdefault(one.name, one.version)  # the first one is imported
    return installed


def differences(run: dict[str, str]) -> str:
    """Describe the versions of this machine that differ from those of a run; "" if none does.

    A distribution that only one of them has makes no difference: code that needs it fails.
    """
    here = versions()
    odd = [name for name in sorted(run.keys() & here.keys()) if here[name] != run[name]]
    described = [f"{name} {here[name]}, but the run has {run[name]}" for name in odd[:4]]
    return ", ".join([*described, *(["…"] if len(odd) > 4 else [])])


def pack(value: Any, classes: Collection[type], *, as_code: bool = False) -> Sent:
    """Pickle a value; with `as_code`, the modules of the classes of its plugins too."""
    content = requests.pickled(value, classes, as_code=as_code)
    code = {}
    for cls in () if as_code else classes:
        if cls.__module__ != "__main__" and _named(cls.__module__, cls.__qualname__) is cls:
            code[f"{cls.__module__}:{cls.__qualname__}"] = code_digest(cls)
    return Sent(hashlib.blake2b(content, digest_size=16).hexdigest(), content, versions(), code)


def unpack(sent: Sent) -> Any:
    """Return the packed value.

    Raises RefusedError if versions or code differ from those of the run, ImportError or
    AttributeError if a module is missing.
    """
    if difference := differences(sent.versions):
        raise RefusedError(f"it has {difference}")
    value = pickle.loads(sent.content)
    for name, expected in sent.code.items():
        cls = _named(*name.split(":"))
        if cls is None or code_digest(cls) != expected:
            raise RefusedError(f"it has different code of {name} than the run")
    return value


def _named(module: str, qualified: str) -> Any:
    """Return the object of a qualified name in a loaded module; None if there is none."""
    value: Any = sys.modules.get(module)
    for part in qualified.split("."):
        value = getattr(value, part, None)
    return value


_known: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


def unpacked(sent: Sent) -> Any:
    """Return the packed value; it is unpacked once and kept."""
    with _lock:
        if sent.digest not in _known:
            keep_compiled_programs(lambda _: None)
            _known[sent.digest] = unpack(sent)
            while len(_known) > MOST_UNPACKED:
                _known.popitem(last=False)
        _known.move_to_end(sent.digest)
        return _known[sent.digest]


def same(value: Any) -> Any:
    """Return the value; as a task of Dask, it is sent to a worker once, and again if lost."""
    return value


def done(sent: Sent, task: Task) -> Any:
    """Do a task on a worker of Dask; `sent` is its shared part.

    Raises:
        UnableError: the worker differs from the machine of the run, or has a fault of its own, such
            as a full disk.
        CellError: the task failed.
        ImportError, AttributeError: a module is missing, whose code must be sent.
    """
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    token = wanted.set(lambda: _is_wanted(worker, key))
    try:
        try:
            shared = unpacked(sent)
        except RefusedError as error:  # other versions
            raise UnableError(worker.address, str(error), True) from None
        return dataclasses.replace(task, shared=shared)()
    except RefusedError as error:
        raise UnableError(worker.address, str(error), False) from None
    except (UnableError, CellError, ImportError, AttributeError):
        raise
    except Exception as error:
        raise UnableError(worker.address, error_message(error), False) from None
    finally:
        wanted.reset(token)


def _is_wanted(worker: Any, key: Any) -> bool:
    """True if the run still waits for a task, according to Dask's worker."""
    task = worker.state.tasks.get(key)
    gone = worker.status.name in ("closing", "closed", "closing_gracefully", "failed")
    return not gone and task is not None and task.state == "executing"
