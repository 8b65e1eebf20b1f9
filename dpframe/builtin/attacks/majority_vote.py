"""The reconstruction attack of the DPText paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from dpframe import Attack

if TYPE_CHECKING:
    from dpframe import Array, Tree


class MajorityVote(Attack, name="majority-vote"):
    """Rounds each coordinate to 0 or 1 and lets the majority decide [Habernal2022, section 4].

    A coordinate counts as 1 unless it is at most 0.5, so NaN counts as 1. A tie decides for D:
    at dim 2 the vote is an AND. For a mechanism that sets each coordinate to 1 with probability
    p, independently, Pr[decide D′] = Pr[Bin(dim, p) > dim/2].
    """

    gives = "decision"

    def score(self, state: Tree, outputs: Array) -> Array:
        ones = ~(outputs <= 0.5)
        coordinates = ones.reshape(len(ones), -1)
        votes = jnp.sum(coordinates, axis=1, dtype=jnp.int32)
        return 2 * votes > coordinates.shape[1]
