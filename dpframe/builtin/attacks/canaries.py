"""The canaries of a release as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe import Attack
from dpframe.builtin.attacks._outputs import floats

if TYPE_CHECKING:
    from dpframe import Array, Target, Tree


class Canaries(Attack, name="canaries"):
    """The scores of canaries and which of them were in, as a mechanism of many canaries has them.

    For mechanisms whose release is a whole run, of shape [2, m]. Larger scores must mean that a
    canary was in.
    """

    gives = "canaries"

    def unsuited(self, target: Target) -> str | None:
        if len(target.dims) == 2 and target.dims[0] == 2 and target.dims[1] > 0:
            return None
        return f"takes scores and memberships, [2, m]; outputs have shape {target.dims}"

    def score(self, state: Tree, outputs: Array) -> Array:
        return floats(outputs)
