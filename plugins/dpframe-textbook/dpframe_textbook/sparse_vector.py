"""The six sparse vector techniques of figure 1 of [Lyu2017], correct and incorrect.

An output has one number for each query: 1 above the threshold (or the noisy answer, if that is
released), 0 below it, and −1 if the technique had already stopped.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Ge, Key, Pair
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import EachByOne
from dpframe_textbook.noise import laplace
from dpframe_textbook.paths import MOST_PATHS, Noises, paths

BELOW = 0.0
"""The output for an answer below the threshold."""

STOPPED = -1.0
"""The output for a query after the technique has stopped."""


class SparseVector(EachByOne):
    """Compare queries in turn with a noisy threshold, until `cutoff` of them are above it."""

    threshold: float = 1.0
    """The threshold that answers are compared with."""
    cutoff: Annotated[int, Ge(1)] = 1
    """c, the number of answers above the threshold after which it stops."""

    threshold_noise: ClassVar[tuple[float, bool]] = (2.0, False)
    """Scale × ε of the threshold's noise, and True if the scale is multiplied by c."""
    query_noise: ClassVar[tuple[float, bool]] = (4.0, True)
    """The same for the noise of an answer."""
    stops: ClassVar[bool] = True
    renews: ClassVar[bool] = False
    """True if the threshold gets new noise after every answer above it."""
    numeric: ClassVar[bool] = False
    """True if the noisy answer itself is released if it is above."""

    def truth(self, pair: Pair) -> FiniteDP | None:
        cutoff = self.cutoff if self.stops else np.size(pair.d0)
        if self.numeric or paths(np.size(pair.d0), cutoff) > MOST_PATHS:
            return None
        return FiniteDP.of(*(self.probabilities(data)[1] for data in (pair.d0, pair.d1)))

    def probabilities(self, data: Floats) -> tuple[Floats, Floats]:
        """Return all outputs, shape [outputs, queries], and their probabilities, in float64."""
        threshold, answer = self._scales
        noises = Noises(float(threshold), float(answer), self.renews)
        answers = np.asarray(data, np.float64) - self.threshold
        return noises.probabilities(answers, self.cutoff if self.stops else answers.size)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return sparse_vector(self, key, data, n)

    @property
    def _scales(self) -> tuple[Array | float, Array | float]:
        both = self.threshold_noise, self.query_noise
        threshold, query = (
            (self.cutoff if by_cutoff else 1) * factor / self.epsilon for factor, by_cutoff in both
        )
        return threshold, query


def sparse_vector(technique: SparseVector, key: Key, data: Array, n: int) -> Array:
    """Return the outputs of a technique, shape [n, queries]."""
    size, dtype = data.size, data.dtype
    of_threshold, of_answers = jax.random.split(key)
    scale, query_scale = technique._scales
    fresh = (size if technique.renews else 1, n)
    thresholds = technique.threshold + scale * laplace(of_threshold, fresh, dtype)
    noisy = data[:, None] + jnp.zeros((1, n), dtype)
    if technique.query_noise[0]:
        noisy = noisy + query_scale * laplace(of_answers, (size, n), dtype)
    above = _above_renewed(noisy, thresholds) if technique.renews else noisy >= thresholds
    outputs = jnp.where(above, noisy if technique.numeric else 1.0, BELOW)
    if technique.stops:
        outputs = stop(outputs, above, technique.cutoff)
    return outputs.T


def stop(outputs: Array, above: Array, cutoff: int) -> Array:
    """Overwrite the answers after the last permitted answer above; both have shape [queries, n]."""
    before = jnp.cumsum(above, axis=0) - above
    return jnp.where(before >= cutoff, STOPPED, outputs)


def _above_renewed(noisy: Array, thresholds: Array) -> Array:
    """Return the answers above a threshold that changes after each; both [queries, n]."""
    threshold, all_above = thresholds[0], []
    for query, answer in enumerate(noisy):
        all_above.append(answer >= threshold)
        following = thresholds[min(query + 1, len(thresholds) - 1)]
        threshold = jnp.where(all_above[-1], following, threshold)
    return jnp.stack(all_above)


class SparseVector1(SparseVector, name="sparse-vector-1"):
    """Threshold plus Lap(2/ε), answers plus Lap(4c/ε), stops after c [Lyu2017, figure 1].

    Claim: ε-DP if each answer changes by up to 1; true.
    """

    threshold: float = 0.5
    """The threshold that answers are compared with."""


class SparseVector2(SparseVector, name="sparse-vector-2"):
    """Threshold plus Lap(2c/ε), renewed after each answer above it [Lyu2017, figure 1].

    Answers plus Lap(4c/ε), stops after c. Claim: ε-DP if each answer changes by up to 1; true.
    """

    threshold_noise = (2.0, True)
    renews = True


class SparseVector3(SparseVector, name="sparse-vector-3"):
    """Releases the noisy answers above the threshold [Lyu2017, figure 1].

    Threshold plus Lap(2/ε), answers plus Lap(2c/ε), stops after c. Claim: ε-DP if each answer
    changes by up to 1; wrong: the released answer rules out values of the noisy threshold, and no
    single ε holds for every number of queries.
    """

    query_noise = (2.0, True)
    numeric = True


class SparseVector4(SparseVector, name="sparse-vector-4"):
    """Threshold plus Lap(4/ε), answers plus Lap(4/3ε) for every c [Lyu2017, figure 1].

    Stops after c. Claim: ε-DP if each answer changes by up to 1; wrong, it is (1 + 6c)ε/4-DP.
    """

    threshold_noise = (4.0, False)
    query_noise = (4 / 3, False)


class SparseVector5(SparseVector, name="sparse-vector-5"):
    """Threshold plus Lap(2/ε), answers without noise, never stops [Lyu2017, figure 1].

    Claim: ε-DP if each answer changes by up to 1; wrong: two equal answers are either both above or
    both below.
    """

    query_noise = (0.0, False)
    stops = False


class SparseVector6(SparseVector, name="sparse-vector-6"):
    """Threshold and answers plus Lap(2/ε), never stops [Lyu2017, figure 1].

    Claim: ε-DP if each answer changes by up to 1; wrong: the loss grows with the number of queries.
    """

    query_noise = (2.0, False)
    stops = False
