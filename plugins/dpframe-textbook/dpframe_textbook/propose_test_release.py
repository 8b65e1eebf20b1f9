"""Propose-test-release on a median."""

from __future__ import annotations

from typing import Annotated, Literal

import jax
import jax.numpy as jnp

from dpframe.plugins import ApproxDP, Array, Gt, Key, Le, Mechanism, Pair
from dpframe_textbook.neighbours import changed, of_steps
from dpframe_textbook.noise import laplace


class ProposeTestRelease(Mechanism, name="propose-test-release"):
    """The median of values in [0, 1], if one person cannot move it far [DworkL2009].

    The mechanism proposes that the local sensitivity is at most β. It tests this with a noisy count
    of the values that would have to change to make it false, and then releases the median +
    Lap(β/ε). The output is (1, number), or (0, 0) if the test fails. Claim: (2ε, δ)-DP if one value
    changes to any other; true. With the mistake: wrong, because the scale of the noise depends on
    the data. Values are clamped; for an even number of values it uses the upper median.
    """

    epsilon: Annotated[float, Gt(0)] = 0.5
    """ε of the test, and of the release."""
    delta: Annotated[float, Gt(0), Le(0.5)] = 1e-3
    """δ of the claim for neighbours."""
    beta: Annotated[float, Gt(0)] = 0.3
    """β, the proposed sensitivity."""
    mistake: Literal["none", "no-test"] = "none"
    """no-test: the median with noise scaled to the local sensitivity itself, without a test."""

    def claim(self, pair: Pair) -> ApproxDP | None:
        return of_steps(2 * self.epsilon, self.delta, changed(pair))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        values = jnp.sort(jnp.clip(data.ravel(), 0, 1))
        median, moves = values[data.size // 2], median_moves(values)
        of_test, of_release = jax.random.split(key)
        noise = laplace(of_release, (n,), data.dtype)
        if self.mistake == "no-test":
            passes = jnp.ones(n, bool)
            noise = noise * moves[0]
        else:
            # The appended entry is for β ≥ 1, which no change of the median exceeds.
            distance = jnp.argmax(jnp.append(moves > self.beta, True))
            noisy = distance + laplace(of_test, (n,), data.dtype) / self.epsilon
            passes = noisy > -jnp.log(2 * self.delta) / self.epsilon
            noise = noise * self.beta
        released = jnp.where(passes, median + noise / self.epsilon, 0.0)
        return jnp.stack([passes.astype(data.dtype), released], axis=1)


def median_moves(values: Array) -> Array:
    """Return the change of the median by one value after k others [NissimRS2007, section 3].

    Args:
        values: sorted, in [0, 1], shape [m].

    Returns:
        The local sensitivity at distance k = 0, …, m − 1, shape [m]; it never decreases.
    """
    size, middle = len(values), len(values) // 2
    padded = jnp.concatenate([jnp.zeros(size + 1), values, jnp.ones(size + 1)])
    centre = middle + size + 1
    moves = []
    for k in range(size):
        high = padded[centre : centre + k + 2]
        low = padded[centre - k - 1 : centre + 1]
        moves.append(jnp.max(high - low))
    return jnp.stack(moves)
