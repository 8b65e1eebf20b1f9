"""Random canaries in federated averaging: each is one client's update, scored by one number."""

from __future__ import annotations

from typing import Annotated

import jax
import jax.numpy as jnp

from dpframe.plugins import Array, Claim, GaussianDP, Ge, Gt, Key, Mechanism, Pair

AT_ONCE = 1 << 22
"""Largest number of canary coordinates in memory; they are regenerated instead of stored."""


class FederatedCanaries(Mechanism, name="federated-canaries"):
    """A noisy sum of random unit vectors, and its inner product with each of them.

    There are m random directions in d dimensions. An independent coin includes each in the sum with
    probability ½, and N(0, σ² I) is added. The score of a canary is its inner product with the sum:
    about N(1, σ²) if it is included, and N(0, σ²) if not. If m is small compared with √d, the
    scores are nearly independent [AndrewK2024] [Koskela2024, section 8, theorem 1]. The data of the
    pair are not used. Claim: 1/σ-GDP, for adding or removing one canary.
    """

    canaries = True

    sigma: Annotated[float, Gt(0)] = 1.0
    """Standard deviation of the noise in every coordinate."""
    dimension: Annotated[int, Ge(1)] = 10_000
    """d, the number of dimensions."""
    count: Annotated[int, Ge(1)] = 100
    """m, the number of canaries, each with its own coin."""

    @property
    def block(self) -> int:
        """Return the number of canaries that are in memory at the same time."""
        return max(1, min(self.count, AT_ONCE // self.dimension))

    @property
    def rows(self) -> int:
        return max(1, min(64, AT_ONCE // (self.block * self.dimension)))

    def claim(self, pair: Pair) -> Claim | None:
        return GaussianDP(1 / self.sigma)

    def release(self, key: Key, data: Array) -> Array:
        coins, where, noise = jax.random.split(key, 3)
        blocks = -(-self.count // self.block)
        members = jax.random.bernoulli(coins, 0.5, (blocks, self.block))
        # Clients beyond the last canary are in no sum.
        exists = jnp.arange(blocks * self.block) < self.count
        inside = (members & exists.reshape(members.shape)).astype(float)
        keys = jax.random.split(where, blocks)

        def directions(key: Key) -> Array:
            drawn = jax.random.normal(key, (self.block, self.dimension))
            unit: Array = drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)
            return unit

        def add(total: Array, block: tuple[Key, Array]) -> tuple[Array, None]:
            return total + block[1] @ directions(block[0]), None

        total, _ = jax.lax.scan(add, jnp.zeros(self.dimension), (keys, inside))
        released = total + self.sigma * jax.random.normal(noise, (self.dimension,))
        scores = jax.lax.map(lambda key: directions(key) @ released, keys)
        return jnp.stack([scores.reshape(-1), inside.reshape(-1)])[:, : self.count]
