"""What a worker process does: sample one chunk of a black box.

Imports little, so that a worker starts fast and does not take an accelerator for itself.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine.address import Stream, host_generator

if TYPE_CHECKING:
    from dpframe.types import HostArray

_held: dict[str, Any] = {}
"""What this worker process serves: the mechanisms and the data, or the problem with them."""


def start(pickled: bytes) -> None:
    """Prepares a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        _held["mechanisms"], _held["data"] = pickle.loads(pickled)
    except Exception as error:  # a module that only the parent could import, for one
        _held["problem"] = f"{type(error).__name__}: {error}"


def problem() -> str | None:
    """Why this worker cannot sample, if it cannot."""
    return _held.get("problem")


def _end_with_parent() -> None:
    """A run that is killed cannot end its workers; they would wait for it for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def sample_here(lane: int, stream: Stream, chunk: int, index: int, rows: int) -> HostArray:
    """Samples one chunk in a worker process.

    Ctrl-C reaches the workers too. It may end the author's code and nothing else: a worker that
    dies while it hands over a result would leave the run waiting for the rest of it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sample(_held["mechanisms"][lane], _held["data"][index], stream, chunk, index, rows)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def sample(
    mechanism: Any, data: HostArray, stream: Stream, chunk: int, index: int, rows: int
) -> HostArray:
    """Samples one chunk; whichever process does it, the outputs are the same."""
    rng = host_generator(stream, chunk, index)
    return np.asarray(mechanism.sample(rng, data, rows))
