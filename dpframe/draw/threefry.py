"""Threefry-2x32 with 13 rounds as a JAX key type, written so that XLA fuses it.

The generator is Threefry-2x32 of [Salmon2011]. Their library Random123 reports no statistical flaw
with 13 or more rounds; the generators of the paper pass TestU01's BigCrush. JAX's own key type is
the same function with 20 rounds.

Three choices make it fast. The rounds are unrolled, so that nothing goes through memory between
them. The bits of a chunk are made in a loop before the loop that uses them. A draw of up to 32 bits
is word 0 of the block whose counter is the draw's flat index, so nothing is concatenated and each
block is computed once. The two words are not combined by exclusive or, which would undo the end of
round 13, x1 = rotate(x1) ^ x0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from dpframe.common.arrays import jax, jnp, lax
from dpframe.draw.streams import GENERATORS, THREEFRY, Stream, blocks, words_of

_LOOP_OF_THEIR_OWN: Final = range(1 << 12, (1 << 18) + 1)
"""Numbers of draws whose bits are made in a separate loop on a CPU; more would not fit its cache.

A loop over rounds and a logarithm is slow, because a processor overlaps only two or three of its
long iterations. In two loops with short iterations it overlaps more.
"""

Words: TypeAlias = "tuple[jax.Array, jax.Array]"

_WIDTHS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def threefry2x32(key: Words, counters: Words, rounds: int = GENERATORS[THREEFRY]) -> Any:
    """Call `blocks` as a separate program, which XLA inlines.

    Some programs use it several times, and tracing it is most of the cost of a program that is
    compiled already.
    """
    return _compiled_blocks()(key, counters, rounds=rounds)


@functools.cache
def _compiled_blocks() -> Any:
    return jax.jit(blocks, static_argnames="rounds")


def _seed(seed: jax.Array) -> jax.Array:
    """Return the key of an integer seed: bits 32 to 63, then 0 to 31, as in JAX's own key type."""
    if seed.shape:
        raise TypeError(f"a seed is a scalar, not an array of shape {seed.shape}")
    low = seed.astype(np.uint32)
    if np.dtype(seed.dtype).itemsize < 8:
        return jnp.stack([jnp.zeros_like(low), low])
    high = lax.shift_right_logical(seed, jnp.asarray(32, seed.dtype)).astype(np.uint32)
    return jnp.stack([high, low])


def _fold_in(key: jax.Array, data: Any) -> jax.Array:
    """Return the block at counter (0, data), also draw number `data`: either fold a key or draw."""
    number = jnp.asarray(data).astype(np.uint32)
    return jnp.stack(threefry2x32((key[0], key[1]), (jnp.zeros_like(number), number)))


def _split(key: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Return the blocks at counters 0, 1, …: `_fold_in` of the same numbers."""
    return jnp.stack(_blocks(key, shape), axis=-1).reshape(*shape, 2)


def _random_bits(key: jax.Array, bit_width: int, shape: Sequence[int]) -> jax.Array:
    """Draw from one block each: word 0, both words for 64 bits, low bits of word 0 for 8 and 16."""
    if bit_width not in _WIDTHS:
        raise TypeError(f"bit width {bit_width}: must be 8, 16, 32 or 64")
    dtype = _WIDTHS[bit_width]
    size = math.prod(shape)

    def bits() -> jax.Array:
        word0, word1 = _blocks(key, shape)
        bits_drawn: jax.Array = word0.astype(dtype)
        return (
            (bits_drawn << np.uint64(32)) | word1.astype(dtype) if bit_width == 64 else bits_drawn
        )

    if size in _LOOP_OF_THEIR_OWN and jax.default_backend() == "cpu":
        always = (key[0] | np.uint32(1)) != 0  # XLA does not know, and fuses nothing into a branch
        bits_drawn = lax.cond(always, bits, lambda: jnp.zeros(size, dtype))
    else:
        bits_drawn = bits()
    draws: jax.Array = bits_drawn.reshape(tuple(shape))
    return draws


def _blocks(key: jax.Array, shape: Sequence[int]) -> Words:
    size = math.prod(shape)
    if size > 2**32:
        raise ValueError(f"{size} draws from one key: at most 2**32")
    counters = jnp.zeros(size, np.uint32), lax.iota(np.uint32, size)
    words: Words = threefry2x32((key[0], key[1]), counters)
    return words


@functools.cache
def implementation() -> Any:
    """Return the type of the keys, for `jax.random.key` and `jax.random.wrap_key_data`.

    The imports are late because kept programs need no key type.
    """
    from jax.extend.random import define_prng_impl

    return define_prng_impl(
        key_shape=(2,),
        seed=_seed,
        split=_split,
        random_bits=_random_bits,
        fold_in=_fold_in,
        name=THREEFRY,
        tag="tf13",
    )


def base_key(stream: Stream, prng: str) -> jax.Array:
    """Return the key of a stream, from which those of its chunks are derived."""
    return key_of(jax.device_put(words_of(stream, 8)), prng)  # `jnp.asarray` compiles a copy


def key_of(words: Any, prng: str) -> jax.Array:
    """Return the key of two words that `chunk_keys` gave; traced."""
    key_type: Any = implementation() if prng == THREEFRY else prng
    key: jax.Array = jax.random.wrap_key_data(words, impl=key_type)
    return key
