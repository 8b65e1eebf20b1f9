"""Names for the arrays and trees that travel between plugins and the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import jax
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = jax.Array
    Key: TypeAlias = jax.Array
    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]
    HostArray: TypeAlias = npt.NDArray[Any]

# A pytree of arrays: an attack's state, a statistic's layout or its counts.
Tree: TypeAlias = Any

D, D_PRIME = 0, 1
"""Index of a dataset in its pair, everywhere."""
