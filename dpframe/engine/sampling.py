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


def start(pickled: bytes) -> None:
    """Prepares a worker process."""
    global _mechanisms, _data  # a worker serves one pass and has nothing else
    os.environ["JAX_PLATFORMS"] = "cpu"
    _mechanisms, _data = pickle.loads(pickled)


def sample_here(lane: int, stream: Stream, chunk: int, index: int, rows: int) -> HostArray:
    """Samples one chunk in a worker process."""
    return sample(_mechanisms[lane], _data[index], stream, chunk, index, rows)


def sample(
    mechanism: Any, data: HostArray, stream: Stream, chunk: int, index: int, rows: int
) -> HostArray:
    """Samples one chunk; whichever process does it, the outputs are the same."""
    rng = host_generator(stream, chunk, index)
    return np.asarray(mechanism.sample(rng, data, rows))
