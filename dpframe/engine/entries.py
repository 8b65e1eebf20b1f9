"""What the counts of a cell are stored under: everything that determines them, and nothing else."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe import __version__
from dpframe.engine.address import digest
from dpframe.engine.code import code_digest

if TYPE_CHECKING:
    from dpframe.engine.plan import Pass
    from dpframe.spec.audit import Choice
    from dpframe.types import Tree


def entry_keys(
    the_pass: Pass, states: tuple[Tree, ...], bounds: tuple[Tree, ...]
) -> dict[str, str]:
    """The key of every cell of a pass, by the cell's id.

    The address of the draws is not part of it, because the store keeps a file per address.

    Args:
        the_pass: gives the cells.
        states: what the attacks learned; every leaf [lanes, attacks, …].
        bounds: what the pilots of the statistics fixed; shaped like the states.
    """
    program = [__version__, jax.__version__, jax.default_backend()]
    keys = {}
    for cell, place in the_pass.cells:
        statistic = the_pass.scorers[place.scorer].statistic
        kind = type(statistic)
        fixed = (states[place.scorer], bounds[place.scorer])
        own = jax.tree.map(lambda leaf, at=place: leaf[at.lane, at.attack], fixed)
        content = {
            "program": program,
            "mechanism": _plugin(cell.mechanism),
            "pair": _plugin(cell.pair),
            "attack": _plugin(cell.attack),
            "statistic": [kind.__module__, repr(statistic), code_digest(kind)],
            "learned": _arrays(own),
        }
        keys[cell.id] = digest(content, 16)
    return keys


def _plugin(choice: Choice[Any]) -> list[Any]:
    cls: type = type(choice.value)
    params = choice.value.params()
    return [choice.distribution, choice.version, choice.use, params, code_digest(cls)]


def _arrays(tree: Tree) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        hasher.update(f"{array.dtype}{array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()
