"""The precision of a run: in which dtype parameters, datasets and outputs are held."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from dpframe.pair import Pair
    from dpframe.spec.audit import RunSettings
    from dpframe.types import HostArray, Tree


def run_dtype(run: RunSettings) -> np.dtype[Any]:
    """The dtype of floating leaves and datasets."""
    return np.dtype(run.precision)


def precision_of(run: RunSettings) -> Any:
    """Context in which JAX has the run's precision; it belongs to a thread."""
    return jax.enable_x64(run.precision == "float64")


def dataset(pair: Pair, index: int, dtype: np.dtype[Any]) -> Tree:
    """One dataset of a pair; floating data in the run's dtype."""

    def held(data: Any) -> HostArray:
        array = np.asarray(data)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    return jax.tree.map(held, (pair.d0, pair.d1)[index])


def data_digest(pair: Pair) -> str:
    """Digest of D and D′ as the pair makes them, whatever the precision of the run."""
    hasher = hashlib.blake2b(digest_size=16)
    for data in (pair.d0, pair.d1):
        leaves, structure = jax.tree.flatten(data)
        hasher.update(str(structure).encode())
        for leaf in leaves:
            array = np.asarray(leaf)
            hasher.update(f"{array.dtype}{array.shape}".encode())
            hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def both_as_made(pair: Pair) -> tuple[Any, Any]:
    """D and D′ as a black box gets them: the pair's own values, nothing rounded."""
    d0, d1 = (np.asarray(d) if isinstance(d, jax.Array) else d for d in (pair.d0, pair.d1))
    return d0, d1


def shape_of_dataset(pair: Pair, dtype: np.dtype[Any]) -> Tree:
    """A dataset of zeros, shaped like those of a pair, that takes no memory."""

    def like(data: Any) -> HostArray:
        array = np.asarray(data)
        held = dtype if np.issubdtype(array.dtype, np.floating) else array.dtype
        return np.broadcast_to(np.zeros((), held), array.shape)

    return jax.tree.map(like, pair.d0)


def on_device(dtype: np.dtype[Any], run: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which an attack sees outputs: floating ones in the run's precision."""
    return run if jnp.issubdtype(dtype, jnp.floating) else dtype


def as_scored(outputs: HostArray, run: np.dtype[Any]) -> HostArray:
    """Outputs made outside of JAX, in the dtype in which attacks see them."""
    return outputs.astype(on_device(outputs.dtype, run))


def can_be_nan(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype can be NaN; NumPy alone does not know bfloat16."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))
