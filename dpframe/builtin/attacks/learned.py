"""A score learned from outputs of any shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe import Attack, Ge, Le
from dpframe.builtin.attacks import _columns, _perceptron
from dpframe.builtin.attacks._columns import Columns
from dpframe.builtin.attacks._regression import Linear, best_ridge, ridge_regression

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Ints, Key, Target, Tree

CHOSEN_BY = 2**14
"""Outputs per dataset by which ridge, features and perceptron are chosen."""

ENTRIES = 2**24
"""Of the matrix of features of a dataset, at most; further outputs are left out."""

FEWEST = 16
"""Outputs per dataset; fewer teach nothing."""

BROADEST = 256
"""Features beyond which the perceptron does without ramps."""

BLOCK = 2**14
"""Outputs whose features are computed at a time."""

CLEARLY = 2.0
"""Standard errors by which the perceptron must do better on outputs that are held out."""


class Learned(Attack, name="learned"):
    """Log-odds of D′, learned from what the outputs of any mechanism look like.

    Every coordinate is seen as flags (which of up to eight values that come up again and again it
    is, or NaN), as its value, and by ramps between quantiles that lie close together in the tails.
    Logistic regression on these is a likelihood ratio of coordinates that are independent; its
    ridge, and whether ramps are of use, are chosen by a quarter of the fit stream. A small
    multilayer perceptron learns what is left over, until it does no better on that quarter, and is
    kept only if it clearly helps there. NaN, infinities and markers are outputs like any others.
    """

    gives = "score"

    bits: bool = False
    """Whether to look at the bits of floats too: sign, exponent, how many of the last bits are 0,
    and which power of two the last is that is not."""
    hidden: Annotated[int, Ge(0), Le(256)] = 32
    """Units in each of the two layers of the perceptron; 0: none is tried."""

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        sides = [_columns.host_rows(outputs, self.bits) for outputs in train]
        if min(map(len, sides)) < FEWEST:
            return self.state(_columns.nothing(sides[0].shape[1]))
        columns = _columns.looked_at((sides[0], sides[1]))
        features = Features.of(columns, [part[:CHOSEN_BY] for part in sides])
        if not len(features.varied):
            return self.state(columns)
        chosen_by = [features.rows(part[:CHOSEN_BY], features.varied) for part in sides]
        early, late = _parted(chosen_by)
        ridge, places, base = best_ridge(early, late, features.groups())
        used = features.varied[places]
        most = max(CHOSEN_BY, ENTRIES // len(used))
        d0, d1 = (features.rows(part[:most], used) for part in sides)
        state = self.state(columns, features, used, ridge_regression((d0, d1), ridge))
        if not self.hidden or sides[0].shape[1] == 1:
            return state
        seen = features.narrow()
        layers = _deepened(key, base, places, seen, early, late, self.hidden)
        if layers is not None:
            inputs = features.varied[seen]
            folded = _perceptron.spread_out(
                layers, inputs, features.centre[inputs], features.spread[inputs], features.size
            )
            state |= {"deep": np.bool_(True), "perceptron": folded}
        return state

    def state(
        self,
        columns: Columns,
        features: Features | None = None,
        used: Ints | None = None,
        linear: Linear | None = None,
    ) -> dict[str, Any]:
        """The state: always of the same shapes for outputs of one shape."""
        count = _columns.laid_out(np, _columns.see(np, columns, columns.centre[None])).shape[1]
        weights, intercept = np.zeros(count), np.float64(0)
        if features is not None and used is not None and linear is not None:
            weights[used] = linear.weights / features.spread[used]
            intercept = np.float64(linear.intercept - weights @ features.centre)
        state: dict[str, Any] = {"columns": columns, "weights": weights, "intercept": intercept}
        if self.hidden:
            state["deep"] = np.bool_(False)
            state["perceptron"] = _perceptron.zero(count, self.hidden)
        return state

    def score(self, state: Tree, outputs: Array) -> Array:
        numbers = _columns.rows(outputs, self.bits)
        seen = _columns.see(jnp, state["columns"], numbers)
        scores: Array = state["intercept"].astype(numbers.dtype)
        start = 0
        for part in seen:
            size = math.prod(part.shape[1:])
            weights = state["weights"][start : start + size].astype(numbers.dtype)
            weighted = part * weights.reshape(part.shape[1:])
            scores = scores + weighted.reshape(len(part), -1).sum(axis=1)
            start += size
        if not self.hidden:
            return scores

        def deep() -> Array:
            layers = jax.tree.map(lambda w: w.astype(numbers.dtype), state["perceptron"])
            return _perceptron.added(layers, _columns.laid_out(jnp, seen))

        more: Array = jax.lax.cond(state["deep"], deep, lambda: jnp.zeros_like(scores))
        return scores + more


class Features(NamedTuple):
    """What is seen of outputs as columns of a matrix, and how they are standardised."""

    columns: Columns
    centre: Floats
    """Mean of each feature."""
    spread: Floats
    """Standard deviation of each; where it is next to nothing, the feature is not used."""
    ramps_from: int
    """Number of the first ramp; they come last."""

    @classmethod
    def of(cls, columns: Columns, sides: list[HostArray]) -> Features:
        """From some outputs on D and on D′."""
        both = np.concatenate([_matrix(columns, part) for part in sides])
        ramps = columns.start.size
        return cls(
            columns,
            both.mean(axis=0, dtype=np.float64),
            both.std(axis=0, dtype=np.float64),
            both.shape[1] - ramps,
        )

    @property
    def size(self) -> int:
        """How many there are, unused ones included."""
        return len(self.spread)

    @property
    def varied(self) -> Ints:
        """Those that are not the same everywhere."""
        return np.flatnonzero(self.spread > 1e-4)

    def groups(self) -> list[Ints]:
        """Choices of features, as places among the varied: without ramps, and all."""
        plain = np.flatnonzero(self.varied < self.ramps_from)
        return [group for group in (plain, np.arange(len(self.varied))) if len(group)]

    def narrow(self) -> Ints:
        """Those for the perceptron, as places among the varied."""
        return self.groups()[-1 if len(self.varied) <= BROADEST else 0]

    def rows(self, part: HostArray, used: Ints) -> Any:
        """Some features of outputs, standardised; float32, shape [n, used]."""
        blocks = [
            (_matrix(self.columns, part[at : at + BLOCK])[:, used] - self.centre[used])
            / self.spread[used]
            for at in range(0, len(part), BLOCK)
        ]
        return np.concatenate(blocks).astype("float32")


def _matrix(columns: Columns, part: HostArray) -> Any:
    with np.errstate(over="ignore"):  # far up a steep ramp is at its end
        return _columns.laid_out(np, _columns.see(np, columns, part))


def _parted(sides: list[Any]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Three quarters to learn from, and one to judge by."""
    (a, b), (c, d) = (np.split(part, [len(part) - len(part) // 4]) for part in sides)
    return (a, c), (b, d)


def _deepened(
    key: Key,
    base: Linear,
    places: Ints,
    seen: Ints,
    early: tuple[Any, Any],
    late: tuple[Any, Any],
    hidden: int,
) -> _perceptron.Layers | None:
    """A perceptron that adds to a linear score, if that clearly helps."""
    data = []
    for sides in (early, late):
        rows = np.concatenate(sides)
        signs = np.repeat(np.array([-1, 1], np.float32), [len(side) for side in sides])
        data.append((rows[:, seen], base.margins(rows[:, places]), signs))
    layers = _perceptron.trained(key, data[0], data[1], hidden)
    rows, margins, signs = data[1]
    deeper = margins + np.asarray(_perceptron.added(layers, jnp.asarray(rows)))
    better = np.logaddexp(0, -margins * signs) - np.logaddexp(0, -deeper * signs)
    error = better.std() / np.sqrt(len(better))
    return layers if better.mean() > CLEARLY * error else None
