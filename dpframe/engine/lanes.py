"""Cells that share their draws, arranged so that one program serves them all.

Mechanisms that differ in traced floats only become *lanes*: their leaves are stacked, and the
program is mapped over them with one shared key. Attacks are arranged in the same way, per
statistic, as *scorers*.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.attack import Attack
    from dpframe.plugin import Plugin
    from dpframe.statistic import Statistic


@dataclasses.dataclass(frozen=True)
class Scorer:
    """Attacks of one structure whose scores go into one statistic."""

    attacks: tuple[Attack, ...]
    statistic: Statistic


def stack(plugins: Sequence[Plugin], dtype: np.dtype[Any]) -> Any:
    """One plugin whose leaves hold the values of all: shape [lanes], or [] where they agree.

    Every leaf becomes an array of the run's dtype, since a Python float, an int and a float32
    would be three different traces.
    """

    def join(*values: float) -> Any:
        same = len(set(values)) == 1
        return np.asarray(values[0] if same else values, dtype)

    return jax.tree.map(join, plugins[0], *plugins[1:])


def lane_axes(stacked: Any) -> Any:
    """`in_axes` for a stacked plugin: 0 where its values differ, else None."""
    return jax.tree.map(lambda leaf: 0 if leaf.ndim else None, stacked)


def structure(plugin: Plugin) -> Any:
    """What two plugins must share to be stacked: class, static fields, and which leaves exist."""
    return jax.tree.structure(plugin)
