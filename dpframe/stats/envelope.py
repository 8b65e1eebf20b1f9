"""A trade-off curve from points of a privacy profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe.stats.hull import falling_hull

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

LARGEST_EPSILON = 700.0
"""e^700 is finite in float64; a point further out says nothing anyway."""


class Envelope(NamedTuple):
    """The largest of some lines, at each place."""

    breaks: Floats
    """Where one line gives way to the next, ascending, shape [m − 1]."""
    slopes: Floats
    """Shape [m], ascending."""
    heights: Floats
    """Of the lines at `anchors`, shape [m]."""
    anchors: Floats
    """A place on each line; 0 or near where it reaches 0, so that small values keep digits."""

    def at(self, x: npt.ArrayLike) -> Floats:
        """The envelope, and 0 where it is negative.

        A line that is not the largest at some place only gives too little there, so rounding in
        `breaks` cannot give too much.
        """
        places = np.asarray(x, np.float64)
        line = np.searchsorted(self.breaks, places)
        values = self.heights[line] + self.slopes[line] * (places - self.anchors[line])
        return np.asarray(np.maximum(values, 0.0))


def tradeoff_envelope(epsilons: npt.ArrayLike, deltas: npt.ArrayLike) -> Envelope:
    """The curve max_i max{0, 1 − δ_i − e^{ε_i} x, e^{−ε_i}(1 − δ_i − x)}.

    This is Algorithm 1 of [Koskela2024], after their lemma 7. With finitely many points of a
    privacy profile the curve is nowhere above the true one, and equal to it where a line touches.

    Args:
        epsilons: at least 0, any order; those that are not finite are left out.
        deltas: in [0, 1], one for each.

    Returns:
        The lines that are largest somewhere, from the steepest to the flattest.
    """
    e, d = np.asarray(epsilons, np.float64), np.asarray(deltas, np.float64)
    keep = (e <= LARGEST_EPSILON) & (d < 1)
    # (0, 1) says nothing, and gives an envelope of 0 where nothing else is known.
    e, d = np.append(e[keep], 0.0), np.append(d[keep], 1.0)
    hull = falling_hull(zip(np.exp(e).tolist(), d.tolist(), strict=True))
    growth, delta = np.array(hull).T
    # In falling order of ε: line i is 1 − δ_i − e^{ε_i} x, and meets the next one at x.
    growth, delta = growth[::-1], delta[::-1]
    x = np.diff(delta) / -np.diff(growth)
    y = 1 - delta[:-1] - growth[:-1] * x
    # Beyond the diagonal the same lines follow, reflected and in the opposite order:
    # e^{−ε_i}(1 − δ_i − x).
    steep = int((x < y).sum())
    x, y, growth, delta = x[:steep], y[:steep], growth[: steep + 1], delta[: steep + 1]
    middle = (1 - delta[-1]) / (1 + growth[-1])
    zero = np.zeros(steep + 1)
    return Envelope(
        breaks=np.maximum.accumulate(np.concatenate([x, [middle], y[::-1]])),
        slopes=np.concatenate([-growth, -1 / growth[::-1]]),
        heights=np.concatenate([1 - delta, zero]),
        anchors=np.concatenate([zero, 1 - delta[::-1]]),
    )
