"""JAX on first use: what runs black boxes does without it, because its import takes 1.5 s."""

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np

__all__ = ["is_floating", "is_jax_array", "jax", "jnp", "lax"]

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jax import lax
else:

    class _OnFirstUse(types.ModuleType):
        """A module that is imported when one of its attributes is used."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self.__name__), name)
            if isinstance(value, type | types.ModuleType):
                setattr(self, name, value)  # functions stay replaceable
            return value

    jax, jnp, lax = map(_OnFirstUse, ("jax", "jax.numpy", "jax.lax"))


def is_jax_array(value: Any) -> bool:
    """True if a value is an array of JAX, traced or not; does not import JAX."""
    return bool("jax" in sys.modules and isinstance(value, jax.Array))


def is_floating(dtype: Any) -> bool:
    """True if values of a dtype are real floats; NumPy alone does not know bfloat16."""
    return str(np.dtype(dtype).name).startswith(("float", "bfloat"))
