"""What a pair must do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax
import numpy as np

from dpframe.pair import EQUAL, equal, unplayable
from dpframe.testing import plugins

if TYPE_CHECKING:
    from dpframe.pair import Pair
    from dpframe.testing.findings import Trial


def _alike(pair: Pair) -> None:
    problem = unplayable(pair)
    assert problem is None, problem


def _different(pair: Pair) -> None:
    assert not equal(pair), EQUAL


def _repeatable(pair: Pair) -> None:
    again = type(pair).from_params(pair.params())
    for name in ("d0", "d1"):
        before, after = (jax.tree.leaves(getattr(one, name)) for one in (pair, again))
        for x, y in zip(before, after, strict=True):
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), (
                f"{name} differs from one time to the next; it may depend on the parameters only"
            )


def _neighbours(pair: Pair) -> None:
    assert pair.adjacency.strip(), "adjacency says under which relation D and D′ are neighbours"


def _apart(pair: Pair) -> None:
    for p in (1.0, 2.0, math.inf):
        found = pair.distance(p)
        assert 0 < found < math.inf, f"distance({p:g}) is {found}"


TRIALS: tuple[Trial, ...] = (
    *plugins.TRIALS,
    ("D and D′ are alike in structure, shape and type", _alike),
    ("D and D′ differ", _different),
    ("the data depend on the parameters alone", _repeatable),
    ("says under which relation they are neighbours", _neighbours),
    ("has a finite distance", _apart),
)
