"""One report about d attributes, each with k values.

The dataset is d numbers. A claim for a whole user must cover all d of them; each class says how its
loss grows with the number m of attributes in which D and D′ differ.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.noise import categorical

from dpframe.plugins import Array, Floats, Ge, Gt, Key, Le, Mechanism, Pair, PureDP
from dpframe_local.protocols import grr, grr_rates

MOST_OUTPUTS = 20_000


class Attributes(Mechanism):
    """A report about all attributes."""

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε, as each class claims it."""
    k: Annotated[int, Ge(2), Le(4096)] = 4
    """Number of values of each attribute."""

    def values(self, data: Any, numpy: Any = jnp) -> Any:
        """Return the user's values, each from 0 to k − 1, shape [d]."""
        numbers = numpy.floor(numpy.asarray(data).ravel() + 0.5).astype(numpy.int32)
        return numpy.clip(numbers, 0, self.k - 1)

    def _changed(self, pair: Pair) -> int:
        return int(np.count_nonzero(self.values(pair.d0, np) != self.values(pair.d1, np)))

    def truth(self, pair: Pair) -> FiniteDP | None:
        size = np.size(pair.d0)
        if self.k**size > MOST_OUTPUTS:
            return None
        outputs = np.array(list(itertools.product(range(self.k), repeat=size)))
        return FiniteDP.of(
            *(np.exp(self._log(self.values(d, np), outputs, np)) for d in (pair.d0, pair.d1))
        )

    def log_density(self, data: Array, outputs: Array) -> Array:
        densities: Array = self._log(self.values(data), outputs, jnp)
        return densities

    def _log(self, values: Any, outputs: Any, numpy: Any) -> Any:
        """Return the logarithm of the probabilities of outputs [n, d], up to a constant."""
        raise NotImplementedError


class Split(Attributes, name="spl"):
    """All attributes by randomised response, each with ε/d [Arcolezi2021].

    Claim: ε if all attributes change, mε/d if m do; true, and tight.
    """

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon * self._changed(pair) / np.size(pair.d0))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        shape, part = (n, data.size), self.epsilon / data.size
        return grr(key, self.values(data), part, self.k, shape, data.dtype)

    def _log(self, values: Any, outputs: Any, numpy: Any) -> Any:
        return self.epsilon / values.size * numpy.sum(outputs == values, axis=1)


class Sampled(Attributes, name="smp"):
    """One attribute at random with ε; the report says which [Arcolezi2021].

    Attributes that were not sampled are −1. Claim: ε if any attributes change; true, and tight.
    """

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def truth(self, pair: Pair) -> FiniteDP:
        share = self._changed(pair) / np.size(pair.d0)
        keep, other = (float(rate) for rate in grr_rates(self.epsilon, self.k, np))
        zero = np.array([share * keep, share * other, share * (1 - keep - other), 1 - share])
        one = zero[[1, 0, 2, 3]]
        return FiniteDP.of(np.maximum(zero, 0), np.maximum(one, 0))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_attribute, of_response = jax.random.split(key)
        chosen = jax.random.randint(of_attribute, (n, 1), 0, data.size)
        shape = n, data.size
        responses = grr(of_response, self.values(data), self.epsilon, self.k, shape, data.dtype)
        return jnp.where(jnp.arange(data.size) == chosen, responses, -1.0).astype(data.dtype)

    def _log(self, values: Any, outputs: Any, numpy: Any) -> Any:
        return self.epsilon * numpy.sum(outputs == values, axis=1)


class SampledWithFakes(Attributes, name="rs-fd"):
    """One attribute at random with more than ε, fake values for the others [Arcolezi2021].

    RS+FD: the sampled attribute has ε′ = ln(d(e^ε − 1) + 1), and the report does not say which it
    is. RS+RFD: a `prior` makes the fake values realistic. Claim: ε if one attribute changes,
    ln(1 + m(e^ε − 1)) if m do; true without a prior, and tight. With a prior the class claims
    nothing, because rare fake values reveal more, but its exact loss is known.
    """

    prior: tuple[Annotated[float, Gt(0)], ...] = ()
    """Probabilities of the k fake values; default: all equal."""

    def check(self) -> None:
        if self.prior and (len(self.prior) != self.k or abs(sum(self.prior) - 1) > 1e-9):
            raise ValueError(f"prior: should be k = {self.k} probabilities that add to 1")

    def claim(self, pair: Pair) -> PureDP | None:
        if self.prior:
            return None
        return PureDP(float(np.log1p(self._changed(pair) * np.expm1(self.epsilon))))

    def _amplified(self, size: int, numpy: Any) -> Any:
        return numpy.log1p(size * numpy.expm1(self.epsilon))

    def _fakes(self) -> Floats:
        return np.array(self.prior or (1 / self.k,) * self.k)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_attribute, of_response, of_fakes = jax.random.split(key, 3)
        chosen = jax.random.randint(of_attribute, (n, 1), 0, data.size)
        amplified = self._amplified(data.size, jnp)
        shape = n, data.size
        responses = grr(of_response, self.values(data), amplified, self.k, shape, data.dtype)
        fakes = categorical(of_fakes, jnp.asarray(self._fakes(), data.dtype), n * data.size)
        return jnp.where(jnp.arange(data.size) == chosen, responses, fakes.reshape(shape))

    def _log(self, values: Any, outputs: Any, numpy: Any) -> Any:
        keep, other = grr_rates(self._amplified(values.size, numpy), self.k, numpy)
        fakes = numpy.asarray(self._fakes())[outputs.astype(int)]
        ratios = numpy.where(outputs == values, keep, other) / fakes
        logs = numpy.log(numpy.sum(ratios, axis=1))
        return logs + numpy.sum(numpy.log(fakes), axis=1)
