"""The optimal linear score for a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from dpframe import Attack
from dpframe.builtin.attacks._outputs import vectors

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key, Target, Tree


class Projection(Attack, name="projection"):
    """How far the output lies from the midpoint of D and D′, along the line from D to D′.

    With v = D′ − D the score is ⟨v, output − (D + D′)/2⟩/‖v‖: 0 half-way, ±‖v‖/2 at the datasets.
    It needs outputs of the shape of the data. Where noise is added to the data, independent and
    alike in all coordinates, no linear score moves by more standard deviations; and if the noise
    is Gaussian no attack at all is better [Neyman1933]. Coordinates in which D and D′
    agree count for nothing; a NaN in another makes the score NaN.
    """

    gives = "score"

    def unsuited(self, target: Target) -> str | None:
        shapes = [getattr(data, "shape", None) for data in (target.pair.d0, target.pair.d1)]
        shape = shapes[0]
        if shape is None or shapes[1] != shape:
            return "projects on the line from D to D′, which takes two arrays of one shape"
        if target.dims != shape:
            return f"takes outputs of the shape of the data {shape}, these have {target.dims}"
        return None if target.pair.distance(2) > 0 else "D and D′ are equal"

    def learns(self) -> bool:
        return False

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        d0, d1 = (np.asarray(data, np.float64) for data in (target.pair.d0, target.pair.d1))
        line = (d1 - d0).ravel()
        return {"direction": line / np.linalg.norm(line), "midpoint": (d0 + d1).ravel() / 2}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = vectors(outputs)
        direction = state["direction"].astype(x.dtype)
        parts = (x - state["midpoint"].astype(x.dtype)) * direction
        return jnp.sum(jnp.where(direction == 0, 0, parts), axis=1)
