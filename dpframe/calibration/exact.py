"""Cells whose p-value is exactly what a p-value should be, to try what the engine does with them.

A coin says D′ with probability c on D and 1 − c on D′, and its estimator knows the latter. Then the
claim ε = ln((1 − c)/c) is at a test of one binomial number, and how often it is rejected at any
level is a sum of binomial probabilities. Nothing is given away, so no mistake can hide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import jax
import numpy as np
from annotated_types import Gt

from dpframe.attack import Attack
from dpframe.boxes import estimate_from_boxes
from dpframe.claims import PureDP
from dpframe.estimator import Estimator
from dpframe.mechanism import Mechanism
from dpframe.statistic import DecisionCounts
from dpframe.stats.binomial import clopper_pearson_upper

if TYPE_CHECKING:
    from dpframe.estimator import Estimate, Query
    from dpframe.pair import Pair
    from dpframe.statistic import Statistic
    from dpframe.types import Array, Floats, Ints, Key, Tree


class Coin(Mechanism, name="coin"):
    """Decides between two outputs; its counts are made up, so it draws none."""

    epsilon: Annotated[float, Gt(0)]
    """The truth."""
    claimed: float | None = None
    """The claim; default: none."""

    def claim(self, pair: Pair) -> PureDP | None:
        return None if self.claimed is None else PureDP(self.claimed)

    def truth(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        drawn: Array = jax.random.uniform(key, (n, *data.shape), data.dtype)
        return drawn


class Side(Attack, name="side"):
    """Which side the coin shows."""

    gives: ClassVar[Literal["decision", "score"]] = "decision"

    def score(self, state: Tree, outputs: Array) -> Array:
        return outputs[:, 0] > 0.5


class OneLimit(Estimator, name="one-limit"):
    """Puts a limit on the false positives; the false negatives are known."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "the false-negative rate is known"

    rate: Annotated[float, Gt(0)]
    """The false-negative rate."""

    def statistic(self) -> Statistic:
        return DecisionCounts()

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        said, trials = int(counts[0, 1]), int(counts[0].sum())

        def boxes(error: float) -> Floats:
            limit = float(clopper_pearson_upper(said, trials, error))
            return np.array([[limit, self.rate]])

        point = math.log((1 - self.rate) * trials / max(said, 1))
        return estimate_from_boxes(boxes, query, epsilon=max(0.0, point))

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return np.array([[trials[0], 0], [0, trials[1]]], np.int64)


PLUGINS: list[Any] = [Coin, Side, OneLimit]
