"""Going on with counts that a store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.store import Saved

if TYPE_CHECKING:
    from dpframe.engine.plan import Pass, Place
    from dpframe.engine.store import Store
    from dpframe.engine.tally import Tally
    from dpframe.spec.audit import Cell
    from dpframe.types import Tree

Done = tuple[int, int]


class Uneven(Exception):  # noqa: N818  # not an error: the pass is only to be divided
    """Cells of one pass have come to different points; each group goes on as a pass of its own."""

    def __init__(self, groups: list[list[Cell]]) -> None:
        super().__init__("cells have come to different points")
        self.groups = groups


def resume(
    the_pass: Pass, zeros: tuple[Tree, ...], keys: dict[str, str], store: Store
) -> tuple[tuple[Tree, ...], Done]:
    """Finds the counts to go on from.

    Args:
        the_pass: the pass.
        zeros: per scorer counts of nothing; every leaf [lanes, attacks, …].
        keys: what each cell's counts are stored under.
        store: where they may be.

    Returns:
        Per scorer the counts so far, int64, and how many whole chunks of each dataset they cover.

    Raises:
        Uneven: the cells have not all come equally far.
    """
    found: dict[Done, list[tuple[Cell, Place, Saved | None]]] = {}
    for cell, place in the_pass.cells:
        saved = _usable(store.load(the_pass.stream, keys[cell.id]), the_pass, zeros[place.scorer])
        found.setdefault(saved.done if saved else (0, 0), []).append((cell, place, saved))
    if len(found) > 1:
        raise Uneven([[cell for cell, _, _ in group] for group in found.values()])
    ((done, cells),) = found.items()
    prefix = jax.tree.map(lambda leaf: leaf.astype(np.int64), zeros)
    for _, place, saved in cells:
        if saved is not None:
            leaves = jax.tree.leaves(prefix[place.scorer])
            for leaf, stored in zip(leaves, saved.leaves, strict=True):
                leaf[place.lane, place.attack] = stored
    return prefix, done


def saved(tally: Tally, place: Place) -> Saved:
    """What a store keeps of one cell."""
    leaves = jax.tree.leaves(tally.prefix[place.scorer])
    own: list[Any] = [leaf[place.lane, place.attack].tolist() for leaf in leaves]
    return Saved(tally.done, own)


def _usable(saved: Saved | None, the_pass: Pass, zero: Tree) -> Saved | None:
    """What is stored, unless it is of more trials than wanted: counts cannot be taken back."""
    if saved is None or max(saved.done) > the_pass.trials // the_pass.rows:
        return None
    shapes = [leaf.shape[2:] for leaf in jax.tree.leaves(zero)]
    return saved if [np.shape(leaf) for leaf in saved.leaves] == shapes else None
