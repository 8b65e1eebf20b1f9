"""The parameter μ of Gaussian differential privacy, from the error rates of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def gaussian_mu(fpr: npt.ArrayLike, fnr: npt.ArrayLike) -> Floats:
    """The μ whose curve passes through (FPR, FNR): Φ⁻¹(1 − FPR) − Φ⁻¹(FNR).

    With upper limits of both rates this is equation 2.4 of [Koskela2024]: the point lies below the
    curve of every smaller μ, so a mechanism with these error rates is μ′-GDP for none of them.
    Whatever the mechanism, that much is true; that its loss is ε(δ) of this μ, is true of a
    Gaussian mechanism only.

    Args:
        fpr: in [0, 1].
        fnr: in [0, 1]; both broadcast.

    Returns:
        Negative above the diagonal FPR + FNR = 1; infinite where one rate is 0 and the other is
        below 1; 0 at (0, 1) and (1, 0), which every curve passes through.
    """
    x, y = np.broadcast_arrays(np.asarray(fpr, np.float64), np.asarray(fnr, np.float64))
    corner = (np.minimum(x, y) == 0) & (np.maximum(x, y) == 1)
    inner = np.where(corner, 0.5, x), np.where(corner, 0.5, y)
    # Φ⁻¹(1 − x) as −Φ⁻¹(x), which keeps its digits near 0.
    return np.asarray(0.0 - special.ndtri(inner[0]) - special.ndtri(inner[1]), np.float64)
