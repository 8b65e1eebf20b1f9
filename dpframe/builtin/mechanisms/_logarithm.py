"""Uniform draws and their logarithm, without the cases that they cannot meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

if TYPE_CHECKING:
    from dpframe import Array, Key

_ONE: Final = np.uint32(0x3F800000)
"""The bits of 1.0, whose mantissa is empty."""
_ROOT_HALF: Final = np.uint32(0x3F3504F3)
"""The bits of √½."""
_MANTISSA: Final = np.uint32(23)
"""Bits of it in float32."""

# ln(1 + x) = x − x²/2 + x³·P(x) for 1 + x in [√½, √2), by Cephes' `logf`; XLA's logarithm has the
# same polynomial. These are the coefficients of x⁸, x⁵, x², of x⁷, x⁴, x, and of x⁶, x³, 1.
_THIRDS: Final = np.array(
    [
        [0x3D9021BB, 0xBDEBD1B8, 0x3DEF251A],
        [0xBDFE5D4F, 0x3E11E9BF, 0xBE2AAE50],
        [0x3E4CCEAC, 0xBE7FFFFC, 0x3EAAAAAA],
    ],
    np.uint32,
).view(np.float32)
_LN_2: Final = np.array([0x3F318000, 0xB95E8083], np.uint32).view(np.float32)
"""ln 2 in two parts, the first of which has few bits: whole multiples of it are exact."""


def uniform(key: Key, n: int, dtype: Any, low: float = 0.0) -> Array:
    """Draws n numbers from Uni[low, low + 1), for low = 0 the very bits of `jax.random.uniform`.

    In float32 they are whole multiples of 2⁻²³; that minus ½ is exact, in one step as in two.

    Args:
        key: a JAX key.
        n: how many.
        dtype: of the draws.
        low: 0 or −½.
    """
    if dtype != jnp.float32:
        return jax.random.uniform(key, (n,), dtype) + low
    bits = jax.random.bits(key, (n,), np.uint32)
    one_to_two = lax.bitcast_convert_type((bits >> np.uint32(9)) | _ONE, np.float32)
    return one_to_two + np.float32(low - 1)


def log(x: Array) -> Array:
    """The natural logarithm of 0 and of normal numbers up to 1.

    In float32 it gives the very bits of XLA's logarithm on a CPU, in two thirds of its time: no
    NaN, infinity, negative or denormal number is looked for. Otherwise it is that logarithm.
    """
    if x.dtype != jnp.float32:
        return jnp.log(x)
    bits = lax.bitcast_convert_type(x, jnp.int32)
    # x = 2^exponent · (1 + part) with 1 + part in [√½, √2), by arithmetic on the bits.
    exponent = (bits - _ROOT_HALF.view(np.int32)) >> _MANTISSA.view(np.int32)
    scaled = bits - (exponent << _MANTISSA.view(np.int32))
    part = lax.bitcast_convert_type(scaled, jnp.float32) - np.float32(1)
    square = part * part
    cube = square * part
    highest, middle, lowest = ((a * part + b) * part + c for a, b, c in _THIRDS)
    tail = ((highest * cube + middle) * cube + lowest) * cube
    power = exponent.astype(jnp.float32)
    tail = tail + _LN_2[1] * power
    found = (part - np.float32(0.5) * square) + tail + _LN_2[0] * power
    return jnp.where(x == 0, -jnp.inf, found)
