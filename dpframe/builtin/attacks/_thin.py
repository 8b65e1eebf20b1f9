"""Weights for leaks so thin that only hundreds of thousands of outputs show them.

Where every output tells next to nothing, the loss of logistic regression is a parabola about 0. So
two sums over all outputs are enough to fit any choice of features with any ridge, and two more,
over outputs that are held out, to say which of these does best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.builtin.attacks import _columns
from dpframe.builtin.attacks._columns import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Array, Floats, HostArray

FROM = 2**16
"""Outputs per dataset from which on they are fitted like this."""

BLOCK = 2**13
"""Outputs per dataset that are added up at a time; every fourth block is held out."""

CURVED = 16
"""Blocks that say how features vary together; all say how their means differ."""

ENTRIES = 2**27
"""Of the features of one dataset, about: further outputs are left out."""

WIDEST = 2**10
"""Features beyond which their products would take too long."""

THIN = 0.5
"""Standard deviation of a score up to which its loss is about a parabola."""

RIDGES = (1.0, 0.1, 1e-2, 1e-3, 1e-4)

LUCK = 1.0
"""Standard errors by which weights for each column must show more than one weight for all."""

ALIKE = 0.05
"""Of a spread, by which centres and spreads of columns may differ that have one law."""


def pooled(columns: Columns, sides: Sequence[HostArray]) -> Columns | None:
    """What all columns look like together; None if they do not look alike.

    Args:
        columns: each by itself.
        sides: outputs on D and on D′.
    """
    c = len(columns.centre)
    if c < 2:
        return None
    spread = np.median(columns.spread)
    off = np.abs(columns.centre - np.median(columns.centre)) + np.abs(columns.spread - spread)
    special = np.sort(columns.special, axis=1)
    if np.any(off > ALIKE * spread) or np.any(special != special[0]):
        return None
    one = _columns.looked_at((sides[0].reshape(-1, 1), sides[1].reshape(-1, 1)), FROM, columns)
    return Columns(*(np.repeat(part, c, axis=0) for part in one))


class Sums(NamedTuple):
    """Of the loss at 0, over some outputs."""

    slope: Floats
    """How fast it falls, shape [m]."""
    curvature: Floats
    """[m, m]"""

    def along(self, directions: Floats) -> Sums:
        """The same where weights are sums of directions, shape [k, m]."""
        return Sums(directions @ self.slope, directions @ self.curvature @ directions.T)

    def fitted(self, ridges: Sequence[float]) -> list[Floats]:
        """The weights of the smallest loss, for each ridge."""
        values, vectors = np.linalg.eigh(self.curvature)
        turned = vectors.T @ self.slope
        return [vectors @ (turned / (np.maximum(values, 0) + ridge)) for ridge in ridges]

    def shown(self, weights: Floats) -> float:
        """How far apart the means of a score are, in units of its spread; its scale is no matter.

        Where two datasets have one law, its standard deviation is 1/√(2n) for n outputs of each.
        """
        spread = np.sqrt(weights @ self.curvature @ weights)
        return float(self.slope @ weights / spread) if spread > 0 else 0.0


def thin_weights(
    columns: Columns, centre: Floats, scale: Floats, sides: Sequence[HostArray], *, alike: bool
) -> Floats | None:
    """What is learned from many outputs; None if they tell nothing, or more than a little.

    Args:
        columns: what is looked at.
        centre: mean of each feature, shape [m].
        scale: 1/standard deviation of each; 0 for those that are not used.
        sides: outputs on D and on D′.
        alike: whether all columns look alike.

    Returns:
        Weights of the standardised features.
    """
    rows = min(*map(len, sides), ENTRIES // len(centre)) // BLOCK * BLOCK
    slopes, blocks = np.zeros((2, len(centre))), np.zeros((2, 2))
    products: list[Any] = [0.0, 0.0]
    for number in range(rows // BLOCK):
        at, held, curved = number * BLOCK, int(number % 4 == 3), number < CURVED
        part = (sides[0][at : at + BLOCK], sides[1][at : at + BLOCK])
        slope, product = _summed(columns, centre, scale, *part, curved=curved)
        slopes[held] += np.asarray(slope, np.float64)
        products[held] = products[held] + np.asarray(product, np.float64)
        blocks[held] += 1, curved
    train, held_out = (
        Sums(slope / many, product / few)
        for slope, product, (many, few) in zip(slopes, products, blocks, strict=True)
    )
    whole = train._replace(slope=slopes.sum(axis=0) / blocks[:, 0].sum())
    found = []
    for directions in _directions(columns, scale, sides, alike):
        own, judge = train.along(directions), held_out.along(directions)
        shown = [judge.shown(weights) for weights in own.fitted(RIDGES)]
        best = int(np.argmax(shown))
        found.append((shown[best], directions, RIDGES[best]))
    most, noise = max(shown for shown, *_ in found), 1 / np.sqrt(2 * BLOCK * blocks[1, 0])
    if most <= noise:
        return None
    # One weight for all columns, unless more than luck speaks for many.
    chosen = max(found[:2] if alike else found, key=lambda choice: choice[0])
    if chosen[0] < most - LUCK * noise:
        chosen = max(found, key=lambda choice: choice[0])
    _, directions, ridge = chosen
    (weights,) = whole.along(directions).fitted([ridge])
    weights = weights @ directions
    if 2 * np.sqrt(weights @ whole.curvature @ weights) > THIN:
        return None
    return weights


def _directions(
    columns: Columns, scale: Floats, sides: Sequence[HostArray], alike: bool
) -> list[Floats]:
    """Choices of features, as rows that weights are sums of, shape [k, m]; few weights come first.

    Without ramps, with the ramp from the median of D to that of D′, where two-sided noise has its
    step, and with all. Where columns are alike, there is one weight for all columns too.
    """
    c, ramps = columns.start.shape
    flags = columns.special.size + c
    kind = np.concatenate(
        [
            np.tile(np.arange(flags // c), c),
            np.full(c, flags // c),
            np.tile(flags // c + 1 + np.arange(ramps), c),
        ]
    )
    middle = np.zeros((c, ramps), bool)
    for at in range(c if ramps else 0):
        own = slice(None) if alike else at
        parts = [side[: _columns.LOOKED_AT, own].ravel() for side in sides]
        medians = [np.median(part[np.isfinite(part)]) for part in parts if np.isfinite(part).any()]
        distance = np.abs(columns.start[at] - min(medians, default=0.0))
        distance[columns.slope[at] <= 0] = np.inf
        middle[at, np.argmin(distance)] = True
    plain = kind <= flags // c
    step = plain.copy()
    step[flags + c :] = middle.ravel()
    each, every = np.eye(len(kind)), np.ones(len(kind), bool)
    found = [each[group & (scale > 0)] for group in (plain, step, every)]
    if alike:
        one = np.stack([(kind == own) * (scale > 0) for own in np.unique(kind[scale > 0])])
        found = [one * step / np.sqrt(c), one / np.sqrt(c), *found]
    return [directions[directions.any(axis=1)] for directions in found if directions.any()]


def _summed_of(
    columns: Columns, centre: Any, scale: Any, d0: Array, d1: Array, curved: bool
) -> tuple[Array, Array]:
    rows = jnp.concatenate([d0, d1])
    seen = (_columns.see(columns, rows, jnp) - centre.astype(rows.dtype)) * scale.astype(rows.dtype)
    slope = (seen[len(d0) :].mean(axis=0) - seen[: len(d0)].mean(axis=0)) / 4
    return slope, seen.T @ seen / (4 * len(rows)) if curved else jnp.zeros(())


_summed = jax.jit(_summed_of, static_argnames="curved")
