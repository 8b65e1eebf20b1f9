"""The baseline without any privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import jax.numpy as jnp

from dpframe import Gt, Mechanism, Pair, PureDP

if TYPE_CHECKING:
    from dpframe import Array, Key


class CopyInput(Mechanism, name="copy-input"):
    """Releases the data as they are [Habernal2022, section 5].

    Claim: ε-DP; false. True ε for the zeros-ones pair: infinite.
    """

    epsilon: Annotated[float, Gt(0)]
    """The claim; changes nothing else."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return jnp.broadcast_to(data, (n, *data.shape))

    def log_density(self, data: Array, outputs: Array) -> Array:
        """Of the one output that is possible, with respect to counting."""
        same = jnp.all((outputs == data).reshape(len(outputs), -1), axis=1)
        return jnp.where(same, 0.0, -jnp.inf)
