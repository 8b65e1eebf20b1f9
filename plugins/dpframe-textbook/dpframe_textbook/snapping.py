"""The snapping mechanism."""

from __future__ import annotations

from typing import Annotated

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Gt, Key, Pair
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import OneByOne
from dpframe_textbook.noise import half_step, laplace
from dpframe_textbook.quadrature import LAPLACE


class Snapping(OneByOne, name="snapping"):
    """Laplace noise, snapped to a grid and clamped to ±B [Mironov2012, theorem 1].

    The spacing of the grid is the smallest power of two that is at least the scale of the noise.
    The scale is slightly above 1/ε, to allow for rounding in the run's precision. Claim: ε-DP if
    one answer changes by up to 1; true.
    """

    bound: Annotated[float, Gt(0)] = 100.0
    """B, the bound of the output."""

    def truth(self, pair: Pair) -> FiniteDP | None:
        if np.size(pair.d0) != 1:
            return None
        return FiniteDP.of(*(self.probabilities(data)[1] for data in (pair.d0, pair.d1)))

    def probabilities(self, data: Floats) -> tuple[Floats, Floats]:
        """Return all outputs for one answer and their probabilities, over the real numbers."""
        scale = float(self._scale(np.float32(0).dtype))
        grid = 2.0 ** np.ceil(np.log2(scale))
        steps = np.arange(-np.floor(self.bound / grid), np.floor(self.bound / grid) + 1)
        outputs = np.unique(np.concatenate([steps * grid, [-self.bound, self.bound]]))
        answer = np.clip(float(np.ravel(data)[0]), -self.bound, self.bound)
        # Beyond the outermost multiple within ±B everything that rounds further is clamped.
        last = steps[-1] * grid + grid / 2
        edges = np.append(steps * grid - grid / 2, last) if last < np.inf else steps
        below = LAPLACE.below((edges - answer) / scale)
        inside = np.diff(below)
        probabilities = dict.fromkeys(outputs.tolist(), 0.0)
        for output, share in zip((steps * grid).tolist(), inside.tolist(), strict=True):
            probabilities[output] += share
        probabilities[-self.bound] += float(below[0])
        probabilities[self.bound] += float(1 - below[-1])
        return outputs, np.array([probabilities[output] for output in outputs.tolist()])

    def sample(self, key: Key, data: Array, n: int) -> Array:
        scale = self._scale(data.dtype)
        fraction, power = jnp.frexp(scale)
        grid = jnp.ldexp(jnp.ones_like(scale), power - (fraction == 0.5))
        noisy = self._clamped(data) + scale * laplace(key, (n, *data.shape), data.dtype)
        snapped = self._clamped(jnp.round(noisy / grid) * grid)
        return jnp.where(snapped == 0, 0.0, snapped)  # −0 would reveal the side

    def _clamped(self, values: Array) -> Array:
        return jnp.clip(values, -self.bound, self.bound)

    def _scale(self, dtype: np.dtype) -> Array:
        """Return (1 + 2⁴ηB)/ε, where η is half the spacing of floats at 1."""
        return jnp.asarray((1 + 16 * half_step(dtype) * self.bound) / self.epsilon)
