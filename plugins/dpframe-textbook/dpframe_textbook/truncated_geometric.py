"""The geometric mechanism on a finite computer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Ge, Key, Le, Pair
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import OneByOne
from dpframe_textbook.noise import categorical

LN_2 = float(np.log(2))


class TruncatedGeometric(OneByOne, name="truncated-geometric"):
    """A count from 0 to n plus two-sided geometric noise, clamped [Balcer2018, algorithm 4.8].

    Pr[z] is proportional to a^|z|, a = 2^k/(2^k + 1), k = ⌈log₂(2/ε)⌉, so that integer arithmetic
    is sufficient. Claim: ε-DP if the count changes by up to 1; true, the loss is ln(1 + 2^−k). With
    the natural logarithm, as in [Bichsel2021], k is smaller, and the claimed ε may be too small.
    Counts are rounded and clamped first.
    """

    most: Annotated[int, Ge(1), Le(1000)] = 5
    """n, the largest count."""
    logarithm: Literal["binary", "natural"] = "binary"
    """The formula for k; "natural" is the mistake."""

    def truth(self, pair: Pair) -> FiniteDP | None:
        if np.size(pair.d0) != 1:
            return None
        both = (self.probabilities(float(np.ravel(data)[0])) for data in (pair.d0, pair.d1))
        return FiniteDP.of(*both)

    def probabilities(self, count: float) -> Floats:
        """Return the probabilities of the outputs 0 … n, in float64."""
        k = np.ceil(np.log(2 / self.epsilon) / (LN_2 if self.logarithm == "binary" else 1.0))
        rounded = np.clip(np.floor(count + 0.5), 0, self.most)
        return np.asarray(_probabilities(rounded, k, self.most, np))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        k = jnp.ceil(jnp.log(2 / self.epsilon) / (LN_2 if self.logarithm == "binary" else 1.0))
        count = jnp.clip(jnp.floor(data.ravel()[0] + 0.5), 0, self.most)
        shares = _probabilities(count, k, self.most, jnp).astype(data.dtype)
        return categorical(key, shares, n)[:, None]


def _probabilities(count: Any, k: Any, most: int, numpy: Any) -> Any:
    """Return the probabilities of 0 … most; clamping gives the remaining mass to both ends."""
    a = 1 / (1 + 2.0**-k)
    outputs = numpy.arange(most + 1)
    distance = numpy.abs(outputs - count)
    inner = a**distance * (1 - a) / (1 + a)
    outer = a**distance / (1 + a)
    return numpy.where((outputs == 0) | (outputs == most), outer, inner)
