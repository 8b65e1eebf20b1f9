"""What a worker process does: sample one chunk of a black box.

Imports little, so that a worker starts fast and does not take an accelerator for itself.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine.address import Stream, host_generator

if TYPE_CHECKING:
    from dpframe.types import HostArray

_mechanisms: tuple[Any, ...] = ()
_data: tuple[Any, ...] = ()
_problem: str | None = None


def start(pickled: bytes) -> None:
    """Prepares a worker process."""
    global _mechanisms, _data, _problem  # a worker serves one pass and has nothing else
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        _mechanisms, _data = pickle.loads(pickled)
    except Exception as error:  # a module that only the parent could import, for one
        _problem = f"{type(error).__name__}: {error}"


def problem() -> str | None:
    """Why this worker cannot sample, if it cannot."""
    return _problem


def sample_here(lane: int, stream: Stream, chunk: int, index: int, rows: int) -> HostArray:
    """Samples one chunk in a worker process."""
    return sample(_mechanisms[lane], _data[index], stream, chunk, index, rows)


def sample(
    mechanism: Any, data: HostArray, stream: Stream, chunk: int, index: int, rows: int
) -> HostArray:
    """Samples one chunk; whichever process does it, the outputs are the same."""
    rng = host_generator(stream, chunk, index)
    return np.asarray(mechanism.sample(rng, data, rows))
