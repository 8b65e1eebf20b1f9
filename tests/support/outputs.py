"""Outputs of mechanisms for tests, without the engine."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from dpframe import HostMechanism, Pair, Target
from dpframe.builtin.pairs import ZerosOnes
from dpframe.draw import threefry
from dpframe.interfaces import registry

BUILT_IN = [e for e in registry.load([]).entries if e.distribution == registry.BUILTIN]
MECHANISMS = {
    entry.name: entry.cls
    for entry in BUILT_IN
    if entry.kind == "mechanism" and entry.name != "program"
}
"""Those that are not somebody else's."""
ATTACKS = {
    entry.name: entry.cls
    for entry in BUILT_IN
    if entry.kind == "attack" and entry.cls.gives != "canaries" and entry.name != "answers"
}
"""Those on a single draw that is an array."""


class Steps(Pair, name="steps"):
    """D = 0, and D′ = `by` in the first `moved` of `dim` coordinates."""

    adjacency = "replace one record"
    by: float = 1.0
    moved: int = 1
    dim: int = 3
    start: float = 0.0

    @property
    def d0(self) -> Any:
        return np.full(self.dim, self.start, np.float32)

    @property
    def d1(self) -> Any:
        return self.d0 + np.float32(self.by) * (np.arange(self.dim) < self.moved)


def resolved(use: str, params: dict[str, Any], dim: int = 1) -> tuple[Any, ZerosOnes]:
    """A built-in mechanism as it meets the pair."""
    pair = ZerosOnes(dim=dim)
    return MECHANISMS[use].from_params(params).resolve(pair), pair


def outputs(mechanism: Any, pair: Any, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Outputs on D and on D′, each [n, *dims], in float32."""
    found = []
    for index, data in enumerate((pair.d0, pair.d1)):
        if isinstance(mechanism, HostMechanism):
            rng = np.random.default_rng([seed, index])
            found.append(np.asarray(mechanism.sample(rng, data, n), np.float32))
        else:
            key = jax.random.fold_in(jax.random.key(seed, impl=threefry.implementation()), index)
            found.append(np.asarray(_sample(jax.tree.map(np.float32, mechanism), key, data, n)))
    return found[0], found[1]


def fitted(attack: Any, mechanism: Any, pair: Any, train: tuple[np.ndarray, np.ndarray]) -> Any:
    """The attack's state, as the engine makes it."""
    target = Target(mechanism, pair, train[0].shape[1:])
    if not attack.learns():
        train = (train[0][:0], train[1][:0])
    return jax.tree.map(np.asarray, attack.fit(jax.random.key(0), target, train))


# One program each: what is not traced is compiled operation by operation.
_sample = jax.jit(lambda mechanism, key, data, n: mechanism.sample(key, data, n), static_argnums=3)
_score = jax.jit(lambda attack, state, points: attack.score(state, points))


def score(attack: Any, state: Any, points: Any) -> np.ndarray:
    """Scores of given outputs."""
    return np.asarray(_score(attack, state, points))
