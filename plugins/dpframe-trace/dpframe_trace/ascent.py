"""A search over vectors that follows the gradient of a traced mechanism's output."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import (
    Array,
    Earned,
    Floats,
    Ge,
    Gt,
    Le,
    Mechanism,
    Neighbourhood,
    Pair,
    Values,
    find_plugin,
    hookimpl,
)

DRAWS = 64  # of the noise, for a gradient
FINENESS = 1024  # numbers are multiples of step / FINENESS, as in `climb`


class Ascent(Neighbourhood, name="ascent"):
    """Proposes the pairs of `climb`, and pairs to which the gradient leads from some of them.

    D and D′ go where outputs with the same noise differ more, in units of their standard deviation.
    Mechanisms that JAX does not trace or cannot differentiate, or whose outputs are discrete, have
    no gradient; for these the pairs are those of `climb`.
    """

    length: Annotated[int, Ge(1)] = 5
    """Number of entries."""
    low: float = 0.0
    """Lower bound of an entry."""
    high: float = 1.0
    """Upper bound of an entry."""
    step: Annotated[float, Gt(0)] = 1.0
    """Largest difference of an entry between D and D′; every entry may differ."""
    starts: Annotated[int, Ge(1), Le(100)] = 2
    """Pairs of a batch that are followed uphill."""
    moves: Annotated[int, Ge(1), Le(100)] = 6
    """Gradient steps from each; each is half as long as the one before."""

    _gradient: ClassVar[Callable[..., Any] | None] = None  # set by `for_mechanism` on a copy

    def check(self) -> None:
        self._climb.check()

    @property
    def adjacency(self) -> str:
        return str(self._climb.words)

    @property
    def _climb(self) -> Any:
        box = {"length": self.length, "low": self.low, "high": self.high, "step": self.step}
        return find_plugin("neighbourhood", "climb")(**box)

    def for_mechanism(self, mechanism: Any) -> Self:
        if not isinstance(mechanism, Mechanism):
            return self

        def gap(d0: Array, d1: Array, key: Array) -> Array:
            zero, one = (mechanism.sample(key, data, DRAWS) for data in (d0, d1))
            spread = jax.lax.stop_gradient(jnp.std(zero, axis=0) + jnp.std(one, axis=0))
            return jnp.mean(jnp.abs(one - zero) / jnp.maximum(spread, 1e-6))

        bound = copy.copy(self)
        object.__setattr__(bound, "_gradient", jax.jit(jax.grad(gap, argnums=(0, 1))))
        return bound

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        pairs: list[Pair] = list(self._climb.propose(rng, history))
        if self._gradient is None:
            return pairs
        seen = {_key(pair) for pair in (*pairs, *(earned.pair for earned in history))}
        for pair in pairs[: self.starts]:
            try:
                d0, d1 = self._uphill(np.asarray(pair.d0), np.asarray(pair.d1), rng)
            except Exception:  # JAX cannot differentiate it; draws will show a fault of `sample`
                break
            found = Values(d0=d0, d1=d1, adjacency=self.adjacency)
            if len(_key(found)) == 2 and _key(found) not in seen:
                seen.add(_key(found))
                pairs.append(found)
        return pairs

    def _uphill(self, d0: Floats, d1: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return a pair after some moves along the signs of the gradient."""
        reach = min(self.step, self.high - self.low)
        assert self._gradient is not None
        for move in range(self.moves):
            key = jax.random.key(int(rng.integers(2**31)))
            slopes = self._gradient(*(jnp.asarray(part, jnp.float32) for part in (d0, d1)), key)
            signs = [np.sign(np.nan_to_num(np.asarray(slope, np.float64))) for slope in slopes]
            size = reach / 2**move
            d0, d1 = self._held(d0 + size * signs[0]), d1 + size * signs[1]
            d1 = self._held(d0 + np.clip(d1 - d0, -reach, reach))
        return d0 + 0.0, d1 + 0.0

    def _held(self, numbers: Floats) -> Floats:
        """Round numbers to the fineness, and clip them to the bounds."""
        fine = min(self.step, self.high - self.low) / FINENESS
        rounded = self.low + np.round((numbers - self.low) / fine) * fine
        return np.clip(rounded, self.low, self.high)


def _key(pair: Any) -> frozenset[bytes]:
    return frozenset(np.asarray(data, np.float64).tobytes() for data in (pair.d0, pair.d1))


@hookimpl
def dpframe_neighbourhoods() -> list[type[Neighbourhood]]:
    """Return the search along gradients."""
    return [Ascent]
