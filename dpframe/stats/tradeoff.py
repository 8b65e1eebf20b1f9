"""Trade-off curves from a privacy profile, of both directions and of one."""

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

    Lemma 7 of [Koskela2024], at the points of the profile that are given.

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
