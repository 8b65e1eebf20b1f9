"""How fast bets against a claim grow where the truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from dpframe.stats.betting import project

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def growth_rate(q: Floats, p: Floats, slope: Floats, delta: Floats) -> float:
    """Largest expected growth of ln of the wealth with each pair of draws.

    A bet on the truth itself grows by the distance of the truth to the claim, KL(p‖p₀) + KL(q‖q₀)
    at the nearest point (q₀, p₀) that the claim allows.

    Args:
        q: probability of each event on the side that is multiplied, shape [events].
        p: on the other side.
        slope: e^ε of each half-plane p ≤ e^ε q + δ that the claim implies, shape [lines].
        delta: its δ.

    Returns:
        0 where no event lies outside.
    """
    q, p = np.clip(q, 1e-15, 1 - 1e-15)[:, None], np.clip(p, 1e-15, 1 - 1e-15)[:, None]
    q0, p0 = project(q, p, slope, delta)
    distance = rel_entr(p, p0) + rel_entr(1 - p, 1 - p0) + rel_entr(q, q0) + rel_entr(1 - q, 1 - q0)
    return float(np.max(np.where(p > slope * q + delta, distance, 0.0), initial=0.0))
