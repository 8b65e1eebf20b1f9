"""Types of the arrays and trees that travel between plugins and the engine."""

from typing import TYPE_CHECKING, Any, TypeAlias

# A pytree of arrays: an attack's state, a statistic's layout or its counts.
Tree: TypeAlias = Any

if TYPE_CHECKING:
    import jax
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = jax.Array
    Key: TypeAlias = jax.Array
    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]
    HostArray: TypeAlias = npt.NDArray[Any]
else:

    def __getattr__(name: str) -> Any:
        """Return the same names at run time, for annotations; importing JAX would be slow."""
        if name in ("Array", "Key"):
            return Any
        if name in ("Floats", "Ints", "Bools", "HostArray"):
            import numpy as np
            import numpy.typing as npt

            kinds = {"Floats": np.float64, "Ints": np.int64, "Bools": np.bool_}
            return npt.NDArray[kinds.get(name, Any)]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
