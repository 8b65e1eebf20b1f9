"""A sum of 32 answers with weights ±1, whose noise is scaled to a sensitivity of 24."""

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Key, Mechanism, Pair, PureDP

WEIGHTS = np.random.default_rng(3).choice([-1.0, 1.0], 32)
SENSITIVITY = 24.0


class WeightedSum(Mechanism, name="weighted-sum"):
    """Claims ε, and loses 4/3 of it if every answer changes by 1 in the direction of its weight."""

    epsilon: float = 1.0
    """The claim."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noise = SENSITIVITY / self.epsilon * jax.random.laplace(key, (n, 1), data.dtype)
        return jnp.dot(jnp.asarray(WEIGHTS, data.dtype), data) + noise
