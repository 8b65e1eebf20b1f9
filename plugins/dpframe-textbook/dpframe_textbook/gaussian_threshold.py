"""Above-threshold with Gaussian noise."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import ApproxDP, Array, Floats, Gt, Key, Lt, Mechanism, Pair
from dpframe.stats.gaussian import gaussian_mu_at
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import each_by_one, of_steps
from dpframe_textbook.noise import normal
from dpframe_textbook.paths import Noises
from dpframe_textbook.quadrature import NORMAL
from dpframe_textbook.sparse_vector import BELOW, stop


class GaussianThreshold(Mechanism, name="above-threshold-gaussian"):
    """The first of k answers above a threshold, with N(0, σ²) noise on both [Zhu2020].

    Outputs as for `sparse-vector-1` with c = 1. Claim: (ε, δ)-DP if each answer changes by up to 1;
    true. Half of ε pays for the threshold, whose noise hides a shift by 1 at δ₁, and half for the
    last answer, whose noise hides a shift by 2 at δ₂. Earlier answers cost nothing, because the
    threshold can shift with them. The last answer may be any of k, so e^{ε/2}δ₁ + kδ₂ = δ, split in
    equal halves. With the mistake: wrong.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε of the claim for neighbours."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-3
    """δ of the claim for neighbours."""
    threshold: float = 1.0
    """The threshold that answers are compared with."""
    mistake: Literal["none", "one-sigma"] = "none"
    """one-sigma: both standard deviations are 2/ε, which would be a scale of Laplace noise."""
    threshold_sigma: Annotated[float, Gt(0)] | None = None
    """Standard deviation of the threshold's noise; default: the value that the claim needs."""
    answer_sigma: Annotated[float, Gt(0)] | None = None
    """Standard deviation of an answer's noise; default: the value that the claim needs."""

    def resolve(self, pair: Pair) -> Self:
        half, queries = self.epsilon / 2, np.size(pair.d0)
        if self.mistake == "one-sigma":
            needed = (1 / half, 1 / half)
        else:
            deltas = self.delta * np.exp(-half) / 2, self.delta / (2 * queries)
            first, last = (float(gaussian_mu_at(half, delta)) for delta in deltas)
            needed = (1 / first, 2 / last)
        given = (self.threshold_sigma, self.answer_sigma)
        threshold, answer = (a if b is None else b for a, b in zip(needed, given, strict=True))
        return dataclasses.replace(self, threshold_sigma=threshold, answer_sigma=answer)

    def claim(self, pair: Pair) -> ApproxDP | None:
        return of_steps(self.epsilon, self.delta, each_by_one(pair))

    def truth(self, pair: Pair) -> FiniteDP:
        return FiniteDP.of(*(self.probabilities(data)[1] for data in (pair.d0, pair.d1)))

    def probabilities(self, data: Floats) -> tuple[Floats, Floats]:
        """Return all outputs, shape [outputs, queries], and their probabilities, in float64."""
        noises = Noises(*self._sigmas, law=NORMAL)
        return noises.probabilities(np.asarray(data, np.float64) - self.threshold, 1)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_threshold, of_answers = jax.random.split(key)
        sigma, answer_sigma = self._sigmas
        threshold = self.threshold + sigma * normal(of_threshold, (1, n), data.dtype)
        noisy = data[:, None] + answer_sigma * normal(of_answers, (data.size, n), data.dtype)
        above = noisy >= threshold
        return stop(jnp.where(above, 1.0, BELOW).astype(data.dtype), above, 1).T

    @property
    def _sigmas(self) -> tuple[float, float]:
        if self.threshold_sigma is None or self.answer_sigma is None:
            raise ValueError("the noise is known only for a given pair")
        return self.threshold_sigma, self.answer_sigma
