"""Spawned processes that calibration plays in: how they start, and when they end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import jax


def spawned(
    number: int, initializer: Callable[[bytes], None], pickled: bytes
) -> ProcessPoolExecutor:
    """Return processes that start with the first task; forking after JAX started is not safe.

    Args:
        number: of processes.
        initializer: what each calls first, with `pickled`; it calls `begin`.
        pickled: what the processes work with.
    """
    # A spawned process imports the script that started it before it does anything else. One that
    # gets here runs a script without a guard, and would start workers of its own: it ends, and the
    # parent says what is wrong.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(1)
    return ProcessPoolExecutor(
        number,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=initializer,
        initargs=(pickled,),
    )


def begin() -> None:
    """Prepare a process that was spawned.

    Ctrl-C is the parent's to answer. JAX stays on the CPU: devices are the parent's too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]


def in_bytes(content: Any) -> tuple[bytes, None] | tuple[None, str]:
    """Return a pickle, or the name of the exception that says why there is none."""
    try:
        return pickle.dumps(content), None
    except Exception as error:  # pickle raises whatever the object's code raises
        return None, type(error).__name__


def from_bytes(pickled: bytes) -> tuple[Any, str | None]:
    """Return what was pickled, or why it cannot be loaded here."""
    try:
        return pickle.loads(pickled), None
    except Exception as error:  # a module that only the parent could import, for one
        return None, f"{type(error).__name__}: {error}"


def _end_with_parent() -> None:
    """End with the parent: a run that is killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
