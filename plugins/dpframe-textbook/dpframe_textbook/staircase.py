"""The staircase mechanism."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Gt, Key, Lt, Pair
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import OneByOne
from dpframe_textbook.noise import exponential, uniform

LOST = 20.0
"""Multiple of 1/ε beyond which the noise has a probability of 2e-9 and counts as one output."""


class Staircase(OneByOne, name="staircase"):
    """Noise whose density falls by e^ε at |x| = γ, 1 + γ, 2 + γ, … [Geng2014, algorithm 1].

    For answers of sensitivity 1, this noise has the smallest expected size of all ε-DP noise.
    Claim: ε-DP if one answer changes by up to 1; true, and tight. With the mistake: wrong, the
    noise is never smaller than 1.
    """

    gamma: Annotated[float, Gt(0), Lt(1)] | None = None
    """γ, the position in a step at which the density falls; default: 1/(1 + e^{ε/2})."""
    mistake: Literal["none", "counts-from-one"] = "none"
    """counts-from-one: the geometric variable starts from 1, as in some libraries, instead of 0."""

    def truth(self, pair: Pair) -> FiniteDP | None:
        zero, one = (np.asarray(data, np.float64).ravel() for data in (pair.d0, pair.d1))
        if np.count_nonzero(zero != one) > 1:
            return None
        gap = float(np.abs(one - zero).sum())
        steps = np.arange(np.ceil(LOST / self.epsilon) + 2)
        edges = np.unique(np.concatenate([steps, steps + float(self._gamma), -steps[1:]]))
        edges = np.unique(np.concatenate([edges, -edges]))
        edges = np.unique(np.concatenate([edges, edges + gap]))
        middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        laws = []
        for shift in (0.0, gap):
            low, high = self.below(edges[[0, -1]] - shift)
            laws.append(np.concatenate([[low], self.density(middles - shift) * widths, [1 - high]]))
        return FiniteDP.of(*laws)

    def density(self, x: Floats) -> Floats:
        """Return the density of the noise, in float64."""
        gamma, b, low = self._shares()
        size = np.abs(x) - (self.mistake == "counts-from-one")
        step = np.floor(np.maximum(size, 0))
        level = np.where(size - step < gamma, low / gamma, (1 - low) / (1 - gamma))
        return np.where(size > 0, b**step * (1 - b) * level / 2, 0.0)

    def below(self, x: Floats) -> Floats:
        """Return the distribution function of the noise, in float64."""
        gamma, b, low = self._shares()
        size = np.abs(x) - (self.mistake == "counts-from-one")
        step = np.floor(np.maximum(size, 0))
        inner, outer = np.minimum(size - step, gamma), np.maximum(size - step - gamma, 0)
        part = low * inner / gamma + (1 - low) * outer / (1 - gamma)
        within = np.where(size > 0, 1 - b**step + b**step * (1 - b) * part, 0.0)
        return np.where(x < 0, (1 - within) / 2, (1 + within) / 2)

    def _shares(self) -> tuple[float, float, float]:
        """Return γ, e^{−ε}, and the probability of the first part of a step, in float64."""
        gamma, b = float(self._gamma), math.exp(-self.epsilon)
        return gamma, b, gamma / (gamma + (1 - gamma) * b)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        shape, dtype, gamma = (n, *data.shape), data.dtype, self._gamma
        keys = jax.random.split(key, 3)
        step = jnp.floor(exponential(keys[0], shape, dtype) / self.epsilon)
        if self.mistake == "counts-from-one":
            step = step + 1
        low = gamma / (gamma + (1 - gamma) * jnp.exp(-self.epsilon))
        # One number determines the part of the step, and the place within it.
        u = uniform(keys[1], shape, dtype)
        inside = gamma * u / low
        beyond = gamma + (1 - gamma) * (u - low) / (1 - low)
        size = step + jnp.where(u < low, inside, beyond)
        return data + jnp.where(jax.random.bernoulli(keys[2], 0.5, shape), size, -size)

    @property
    def _gamma(self) -> Array | float:
        if self.gamma is not None:
            return self.gamma
        half: Array = 1 / (1 + jnp.exp(self.epsilon / 2))
        return half
