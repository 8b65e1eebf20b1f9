"""Densities of the outputs of sparse vector techniques that release numbers."""

import numpy as np
from dpframe_textbook.quadrature import LAPLACE, nodes


def sparse_vector_3(mechanism, answers, place, values):
    """Density of: all before `place` below, and there the value that is released (c = 1)."""
    threshold_scale, scale = mechanism._scales
    t = mechanism.threshold
    kinks = np.concatenate([(answers - t), [0.0], values - t]) / min(scale, threshold_scale)
    at, weights = nodes(kinks, 300.0)
    rho = at * min(scale, threshold_scale)
    density = LAPLACE.density(rho / threshold_scale) * weights
    below = np.prod([LAPLACE.below((t + rho - q) / scale) for q in answers[:place]], axis=0)
    mass = np.cumsum(density * below)
    found = mass[np.searchsorted(rho, values - t) - 1]
    return found * LAPLACE.density((values - answers[place]) / scale)
