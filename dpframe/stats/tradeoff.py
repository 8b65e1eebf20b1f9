"""Trade-off curves from a privacy profile, in one direction, and from certified points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.stats.envelope import tradeoff_envelope

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def tradeoff_of_profile(
    fpr: npt.ArrayLike, epsilons: npt.ArrayLike, deltas: npt.ArrayLike
) -> Floats:
    """max_i max{0, 1 − δ_i − e^{ε_i} x, e^{−ε_i}(1 − δ_i − x)}, the curve of both directions.

    Lemma 7 of Koskela and Mohammadi (2024), at the points of the profile that are given.

    Args:
        fpr: in [0, 1], any shape.
        epsilons: at least 0, shape [m].
        deltas: δ(ε), the larger one of both directions, shape [m].
    """
    return tradeoff_envelope(epsilons, deltas).at(fpr)


def one_sided_tradeoff(
    fpr: npt.ArrayLike, epsilons: npt.ArrayLike, deltas: npt.ArrayLike
) -> Floats:
    """T(Q, P)(x) = sup_ε {1 − H_{e^ε}(P‖Q) − e^ε x}, over the ε that are given.

    An event of Q-probability x has P-probability at most e^ε x + H_{e^ε}(P‖Q), whatever ε is; the
    curve is the best of these lines. Lemma 7 takes the worse direction at each order, which gives
    the symmetrised, convex curve of both. For this one alone ε runs over all real numbers.

    Args:
        fpr: type I error under Q, in [0, 1], any shape.
        epsilons: any real numbers up to 700, shape [m].
        deltas: H_{e^ε}(P‖Q), shape [m].
    """
    x = np.asarray(fpr, np.float64)
    e, d = np.asarray(epsilons, np.float64), np.asarray(deltas, np.float64)
    lines = 1 - d - np.exp(e) * x[..., None]
    return np.asarray(np.maximum(lines.max(axis=-1, initial=0.0), 0.0))


def lower_convex_hull(points: npt.ArrayLike) -> Floats:
    """The lower convex hull of points (FPR, FNR) and of (0, 1) and (1, 0), by ascending FPR.

    A trade-off curve is convex, starts at or below (0, 1) and ends at (1, 0) (Dong, Roth and Su
    2022, proposition 2.2). So if it passes below or through every point, it does not rise above
    the hull: unlike lemma 7 applied to a lowered profile, this is a rigorous upper bound.

    Args:
        points: shape [k, 2], in [0, 1].

    Returns:
        Corners of the hull, shape [m, 2], from (0, ≤ 1) to (1, 0).
    """
    given = np.asarray(points, np.float64).reshape(-1, 2)
    every = np.concatenate([given, [[0.0, 1.0], [1.0, 0.0]]])
    hull: list[tuple[float, float]] = []
    for x, y in every[np.lexsort((every[:, 1], every[:, 0]))].tolist():
        if hull and y >= hull[-1][1]:
            continue  # not lower than a point to its left
        while len(hull) > 1 and _turns_down(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    if hull[-1][0] < 1:  # an FNR of 0 was reached before (1, 0)
        hull.append((1.0, 0.0))
    return np.array(hull)


def _turns_down(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b is on or above the segment from a to c."""
    return (a[1] - b[1]) * (c[0] - b[0]) <= (b[1] - c[1]) * (b[0] - a[0])
