"""JAX keys from addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.engine.address import Stream, digest
from dpframe.engine.prng import IMPLEMENTATIONS

if TYPE_CHECKING:
    from dpframe.types import Array, Key


def base_key(stream: Stream, prng: str) -> Key:
    """The key of a stream; `chunk_key` goes on from it."""
    words = np.frombuffer(bytes.fromhex(digest(list(stream), 8)), "<u4")
    key: Key = jax.random.wrap_key_data(jnp.asarray(words), impl=IMPLEMENTATIONS[prng])
    return key


def chunk_key(base: Key, chunk: Array, dataset: Array) -> Key:
    """The key of one chunk of one dataset; traced. D and D′ never share draws."""
    key: Key = jax.random.fold_in(jax.random.fold_in(base, chunk), dataset)
    return key
