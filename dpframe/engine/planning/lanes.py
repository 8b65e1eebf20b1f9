"""Cells that share their draws, arranged so that one program serves them all.

Mechanisms that differ in traced floats only become *lanes*: their leaves are stacked, and one
program runs over them with one shared key. Attacks are arranged in the same way, per statistic, as
*scorers*.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.attack import Attack
    from dpframe.plugin import Plugin
    from dpframe.statistic import Statistic
    from dpframe.types import Array, Tree

LANES = 8
"""Lanes are padded to this, or to the next power of two above it.

One program then serves one value of ε or eight, so that a cell's counts cannot depend on how many
other values the spec has, not even through the rounding of a differently fused program.
"""


@dataclasses.dataclass(frozen=True)
class Scorer:
    """Attacks of one structure whose scores go into one statistic."""

    attacks: tuple[Attack, ...]
    statistic: Statistic


def stack(plugins: Sequence[Plugin], dtype: np.dtype[Any]) -> Any:
    """One plugin whose leaves hold the values of all, shape [plugins].

    Every leaf becomes an array of the run's dtype, since a Python float, an int and a float32
    would be three different traces.
    """
    return jax.tree.map(lambda *values: np.asarray(values, dtype), plugins[0], *plugins[1:])


def unstacked(plugin: Plugin, dtype: np.dtype[Any]) -> Any:
    """One plugin with leaves of the run's dtype."""
    return jax.tree.map(lambda value: np.asarray(value, dtype), plugin)


def pad(tree: Tree, lanes: int) -> Tree:
    """Repeats the last entry of every leaf's first axis until it has padded length."""
    padded = max(LANES, 1 << (lanes - 1).bit_length())
    return jax.tree.map(
        lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], padded - lanes, axis=0)]), tree
    )


def each_lane(
    function: Callable[..., Any], lanes: Array | int, results: Tree, *stacked: Tree
) -> Tree:
    """Updates the results of the first `lanes` lanes, in a loop, inside a traced program.

    A loop rather than `vmap`: what does not depend on the lane, such as the noise, is then moved
    out of the loop and made once, where a vectorised program would make it again for each lane.

    Args:
        function: called with one lane's result and one lane's part of every stacked tree; gives
            the new result.
        lanes: how many; may be traced.
        results: every leaf [padded lanes, …].
        stacked: the same.
    """

    def step(lane: Array, results: Tree) -> Tree:
        def take(leaf: Array) -> Any:
            return jax.lax.dynamic_index_in_dim(leaf, lane, keepdims=False)

        new = function(*jax.tree.map(take, (results, *stacked)))
        return jax.tree.map(
            lambda leaf, value: jax.lax.dynamic_update_index_in_dim(leaf, value, lane, 0),
            results,
            new,
        )

    return jax.lax.fori_loop(0, lanes, step, results)


def structure(plugin: Plugin) -> Any:
    """What two plugins must share to be stacked: class, static fields, and which leaves exist."""
    return jax.tree.structure(plugin)
