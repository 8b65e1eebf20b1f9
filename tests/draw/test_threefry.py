"""The generator: known answers, uniformity, independence, and invariance under transformations.

False-alarm rate of each statistical test: 1e-6, at a fixed seed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support.tiers import mostly_slow

from dpframe.draw.threefry import implementation, threefry2x32

ALPHA = 1e-6

# Random123's kat_vectors: rounds, counter, key, answer.
KNOWN = [
    (13, "00000000 00000000", "00000000 00000000", "9d1c5ec6 8bd50731"),
    (13, "ffffffff ffffffff", "ffffffff ffffffff", "fd36d048 2d17272c"),
    (13, "243f6a88 85a308d3", "13198a2e 03707344", "ba3e4725 f27d669e"),
    (20, "00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    (20, "ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    (20, "243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
    (32, "00000000 00000000", "00000000 00000000", "cee3d47e a23dfd5c"),
    (32, "243f6a88 85a308d3", "13198a2e 03707344", "e2827716 c3c05cdf"),
]


def words(text: str) -> tuple[jax.Array, jax.Array]:
    first, second = (jnp.uint32(int(word, 16)) for word in text.split())
    return first, second


def key(seed: int) -> jax.Array:
    return jax.random.key(seed, impl=implementation())


@pytest.mark.parametrize(("rounds", "counter", "secret", "answer"), KNOWN)
def test_known_answers(rounds: int, counter: str, secret: str, answer: str) -> None:
    found = threefry2x32(words(secret), words(counter), rounds)
    assert [f"{int(word):08x}" for word in found] == answer.split()


@pytest.mark.parametrize(
    "shape", [(5, 3), (64, 64), pytest.param((1 << 18, 2), marks=pytest.mark.slow)]
)
def test_draws_are_word_0_of_consecutive_counters(shape: tuple[int, int]) -> None:
    """However many: a chunk of them is made in a loop of its own, few or very many are not."""
    size = shape[0] * shape[1]
    secrets = jax.random.split(key(7), 3)
    for secret in (key(0), *secrets):
        words = jax.random.key_data(secret)
        blocks = threefry2x32(
            (words[0], words[1]),
            (jnp.zeros(size, jnp.uint32), jnp.arange(size, dtype=jnp.uint32)),
        )
        bits = jax.random.bits(secret, shape, jnp.uint32)
        assert np.array_equal(bits.ravel(), blocks[0])
    several = jax.vmap(lambda secret: jax.random.bits(secret, shape, jnp.uint32))(secrets)
    for secret, bits in zip(secrets, several, strict=True):
        assert np.array_equal(bits, jax.random.bits(secret, shape, jnp.uint32))


@pytest.mark.parametrize("dtype", mostly_slow([jnp.uint8, jnp.uint16, jnp.uint32], (2,)))
def test_every_bit_is_fair(dtype: type) -> None:
    n = 1 << 20
    bits = np.asarray(jax.random.bits(key(1), (n,), dtype))
    width = bits.dtype.itemsize * 8
    for bit in range(width):
        ones = int(((bits >> bit) & 1).sum())
        assert stats.binomtest(ones, n).pvalue > ALPHA / width


def test_uniformity_and_serial_pairs() -> None:
    """χ² of values in 4096 cells, and of (draw, next draw) in 64 × 64 cells."""
    n = 1 << 21
    bits = np.asarray(jax.random.bits(key(2), (n,), jnp.uint32))
    single = np.bincount(bits >> 20, minlength=4096)
    top = bits >> 26
    for lag in (1, 2, 32, 128):
        pairs = np.bincount(top[:-lag] * 64 + top[lag:], minlength=4096)
        assert stats.chisquare(pairs).pvalue > ALPHA / 5
    assert stats.chisquare(single).pvalue > ALPHA / 5


def test_neighbouring_keys_are_unrelated() -> None:
    """Draws under key, fold_in(key, 0), fold_in(key, 1), …: bits agree as often as coins do."""
    n = 1 << 18
    keys = [key(3), key(4), *(jax.random.fold_in(key(3), i) for i in range(4))]
    draws = [np.asarray(jax.random.bits(k, (n,), jnp.uint32)) for k in keys]
    pairs = [(a, b) for i, a in enumerate(draws) for b in draws[:i]]
    for a, b in pairs:
        different = int(np.unpackbits((a ^ b).view(np.uint8)).sum())
        assert stats.binomtest(different, 32 * n).pvalue > ALPHA / len(pairs)


def test_transformations_change_nothing() -> None:
    def draw(k: jax.Array) -> jax.Array:
        return jax.random.uniform(k, (4, 5))

    keys = jax.random.split(key(5), 6)
    one_by_one = jnp.stack([draw(k) for k in keys])
    assert jnp.array_equal(jax.vmap(draw)(keys), one_by_one)
    assert jnp.array_equal(jax.jit(jax.vmap(draw))(keys), one_by_one)
    folded = jnp.stack([jax.random.key_data(jax.random.fold_in(key(5), i)) for i in range(6)])
    assert jnp.array_equal(jax.random.key_data(keys), folded)
    assert len({tuple(row) for row in jax.random.key_data(keys).tolist()}) == 6


def test_64_bits_and_64_bit_seeds() -> None:
    with jax.enable_x64(True):
        bits = jax.random.bits(key(6), (1 << 16,), jnp.uint64)
        assert int(jnp.unique(bits).size) == 1 << 16
        assert jax.random.uniform(key(6), (3,), jnp.float64).dtype == jnp.float64
        assert not jnp.array_equal(
            jax.random.key_data(key(1)), jax.random.key_data(key(1 + (1 << 40)))
        )


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        jax.jit(lambda: jax.random.bits(key(0), (1 << 17, 1 << 17), jnp.uint32)).lower()


def test_the_whole_family_of_jax_samplers_works() -> None:
    normal = np.asarray(jax.random.normal(key(8), (200_000,)))
    assert stats.kstest(normal, "norm").pvalue > ALPHA
    permuted = jax.random.permutation(key(9), 100)
    assert sorted(permuted.tolist()) == list(range(100))
