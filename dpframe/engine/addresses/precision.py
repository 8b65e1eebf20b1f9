"""The precision of a run: in which dtype parameters, datasets and outputs are held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.pair import as_traced

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


def dataset(made: Tree, dtype: np.dtype[Any]) -> Tree:
    """A dataset as a pair made it, with floating data in the run's dtype."""

    def held(data: Any) -> HostArray:
        array = np.asarray(data)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    return jax.tree.map(held, made)


def both_as_made(pair: Pair) -> tuple[Any, Any]:
    """D and D′ as the pair makes them, nothing rounded."""
    return pair.d0, pair.d1


def for_jax(made: tuple[Any, Any], dtype: np.dtype[Any]) -> tuple[Tree, Tree]:
    """D and D′ as a traced mechanism gets them: padded where their sizes differ.

    Args:
        made: as the pair made them.
        dtype: of floating data.
    """
    d0, d1 = as_traced(*made)
    return dataset(d0, dtype), dataset(d1, dtype)


def for_a_box(made: tuple[Any, Any]) -> tuple[Any, Any]:
    """D and D′ as a black box gets them: the pair's own values, in arrays that NumPy knows."""
    d0, d1 = (np.asarray(data) if isinstance(data, jax.Array) else data for data in made)
    return d0, d1


def shape_of_dataset(pair: Pair, dtype: np.dtype[Any]) -> Tree:
    """A dataset of zeros, shaped like those of a pair, that takes no memory."""

    def like(data: Any) -> HostArray:
        array = np.asarray(data)
        held = dtype if np.issubdtype(array.dtype, np.floating) else array.dtype
        return np.broadcast_to(np.zeros((), held), array.shape)

    return jax.tree.map(like, as_traced(pair.d0, pair.d1)[0])


def on_device(dtype: np.dtype[Any], run: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which an attack sees outputs: floating ones in the run's precision."""
    return run if jnp.issubdtype(dtype, jnp.floating) else dtype


def as_scored(outputs: HostArray, run: np.dtype[Any]) -> HostArray:
    """Outputs made outside of JAX, in the dtype in which attacks see them."""
    return outputs.astype(on_device(outputs.dtype, run))


def can_be_nan(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype can be NaN; NumPy alone does not know bfloat16."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))
