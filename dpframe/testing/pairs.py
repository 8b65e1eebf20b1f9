"""What a pair must do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cloudpickle
import jax
import numpy as np

from dpframe.alike import same
from dpframe.pair import EQUAL, equal, unplayable, untraceable
from dpframe.testing import plugins
from dpframe.testing.findings import LeftOut

if TYPE_CHECKING:
    from dpframe.pair import Pair
    from dpframe.testing.findings import Trial


def _playable(pair: Pair) -> None:
    problem = unplayable(pair)
    assert problem is None, problem
    made = pair.d0, pair.d1
    try:
        back = cloudpickle.loads(cloudpickle.dumps(made))
    except Exception as error:
        raise AssertionError(f"D or D′ cannot be sent to a worker process: {error}") from None
    for name, sent, got in zip(("D", "D′"), made, back, strict=True):
        assert same(sent, got), f"{name} is not the same after it was sent to a worker process"


def _different(pair: Pair) -> None:
    assert not equal(pair), EQUAL


def _repeatable(pair: Pair) -> None:
    again = type(pair).from_params(pair.params())
    for name in ("d0", "d1"):
        assert same(getattr(pair, name), getattr(again, name)), (
            f"{name} differs from one time to the next; it may depend on the parameters only"
        )


def _neighbours(pair: Pair) -> None:
    assert pair.adjacency.strip(), "adjacency says under which relation D and D′ are neighbours"
    assert isinstance(pair.description, str), f"description is {pair.description!r}, no text"


def _apart(pair: Pair) -> None:
    if (problem := untraceable(pair)) is not None:
        raise LeftOut(problem)
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(data)] for data in (pair.d0, pair.d1)]
    if shapes[0] != shapes[1]:
        raise LeftOut("D and D′ differ in size")
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((pair.d0, pair.d1))):
        raise LeftOut("D or D′ holds what is no number")
    for p in (1.0, 2.0, math.inf):
        found = pair.distance(p)
        assert 0 < found < math.inf, f"distance({p:g}) is {found}"


TRIALS: tuple[Trial, ...] = (
    *plugins.TRIALS,
    ("D and D′ are data that a mechanism can be given", _playable),
    ("D and D′ differ", _different),
    ("the data depend on the parameters alone", _repeatable),
    ("says under which relation they are neighbours", _neighbours),
    ("has a finite distance", _apart),
)
