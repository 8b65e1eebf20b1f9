"""Processes beside this one: how they are started, what they begin with, and when they end.

They are spawned, because forking after JAX has started would not be safe.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from collections.abc import Callable


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
