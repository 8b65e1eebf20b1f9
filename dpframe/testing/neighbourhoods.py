"""Promises of pairs and neighbourhoods."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

from dpframe.common import trees
from dpframe.draw.value_digest import data_digest
from dpframe.interfaces.pair import (
    EQUAL,
    Earned,
    Neighbourhood,
    Pair,
    equal,
    same,
    untraceable,
    unusable,
)
from dpframe.testing.plugins import LeftOut, Trial


def _playable(pair: Pair) -> None:
    problem = unusable(pair)
    assert problem is None, problem
    sent_pair = pair.d0, pair.d1
    try:
        received = cloudpickle.loads(cloudpickle.dumps(sent_pair))
    except Exception as error:
        raise AssertionError(f"D or D′ cannot be sent to a worker process: {error}") from None
    for name, sent, copy in zip(("D", "D′"), sent_pair, received, strict=True):
        assert same(sent, copy), f"{name} changed when it was sent to a worker process"


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
    assert isinstance(pair.description, str), f"description is {pair.description!r}, not a text"


def _apart(pair: Pair) -> None:
    if (problem := untraceable(pair)) is not None:
        raise LeftOut(problem)
    shapes = [[np.shape(leaf) for leaf in trees.leaves(data)] for data in (pair.d0, pair.d1)]
    if shapes[0] != shapes[1]:
        raise LeftOut("D and D′ differ in size")
    if not all(np.all(np.isfinite(leaf)) for leaf in trees.leaves((pair.d0, pair.d1))):
        raise LeftOut("D or D′ contains something that is not a number")
    for p in (1.0, 2.0, math.inf):
        distance = pair.distance(p)
        assert 0 < distance < math.inf, f"distance({p:g}) is {distance}"


OF_PAIRS: tuple[Trial, ...] = (
    ("D and D′ are data that a mechanism can be given", _playable),
    ("D and D′ differ", _different),
    ("the data depend on the parameters alone", _repeatable),
    ("states the relation of the neighbours", _neighbours),
    ("has a finite distance", _apart),
)


CALLS = 4  # number of calls, each with the evidence of the earlier pairs
SEED = 3
SPENT = 1000  # draws per dataset of each pair in the history


@dataclasses.dataclass(frozen=True)
class ProposedPairs:
    """A neighbourhood and its proposals."""

    neighbourhood: Neighbourhood

    def propose(self, growth: Callable[[int], float]) -> list[tuple[Pair, ...]]:
        """Return the proposals of each call; `growth` maps a pair's number to its evidence."""
        rng = np.random.default_rng(SEED)
        history: list[Earned] = []
        calls = []
        for _ in range(CALLS):
            proposed = self.neighbourhood.propose(rng, tuple(history))
            assert isinstance(proposed, list | tuple), (
                f"propose returns {type(proposed).__name__}; it must be a list or a tuple of pairs"
            )
            assert all(isinstance(pair, Pair) for pair in proposed), (
                "propose returns something that is not a Pair"
            )
            calls.append(tuple(proposed))
            start = len(history)
            # The last pair of each call has no draws, because a search may not get to all pairs.
            draws = [SPENT] * (len(proposed) - 1) + [0]
            history += [
                Earned(pair, spent, growth(start + at) if spent else 0.0)
                for at, (pair, spent) in enumerate(zip(proposed, draws, strict=False))
            ]
        return calls

    @functools.cached_property
    def calls(self) -> list[tuple[Pair, ...]]:
        """The proposals if pairs have different evidence."""
        return self.propose(lambda at: at * 7 % 5 / 1000)

    @property
    def pairs(self) -> list[Pair]:
        """All proposals, in their order."""
        return [pair for call in self.calls for pair in call]


def content(data: Any) -> str:
    """Return a digest of all bits of a dataset."""
    return data_digest((data, None))


def _proposes(subject: ProposedPairs) -> None:
    assert subject.calls[0], "it proposes nothing on its first call"


def _pairs(subject: ProposedPairs) -> None:
    for pair in subject.pairs:
        assert (problem := unusable(pair)) is None, f"{_cut(pair)}: {problem}"
        assert not equal(pair), f"{_cut(pair)}: {EQUAL}"


def _one_shape(subject: ProposedPairs) -> None:
    if not subject.neighbourhood.one_shape:
        raise LeftOut("it says that its pairs differ in shape or type")
    for pair in subject.pairs:
        problem = untraceable(pair)
        assert problem is None, f"{_cut(pair)}: {problem}"
    shapes = {
        (trees.structure(data), *((leaf.dtype, leaf.shape) for leaf in leaves))
        for pair in subject.pairs
        for data in (pair.d0, pair.d1)
        for leaves in [[np.asarray(leaf) for leaf in trees.leaves(data)]]
    }
    assert len(shapes) <= 1, f"its pairs differ in shape or type: {_cut(shapes)}"


def _once(subject: ProposedPairs) -> None:
    seen = set()
    for pair in subject.pairs:
        both = frozenset({content(pair.d0), content(pair.d1)})
        assert both not in seen, (
            f"{_cut(pair)} is proposed a second time, maybe with D and D′ exchanged"
        )
        seen.add(both)


def _written(subject: ProposedPairs) -> None:
    for pair in subject.pairs:
        back = type(pair).from_params(pair.params())
        assert (_key(back), back) == (_key(pair), pair), (
            f"{_cut(pair)}: it differs when it is made again from its parameters, so no spec "
            "can name what was found"
        )


def _adjacency(subject: ProposedPairs) -> None:
    for adjacency in (subject.neighbourhood.adjacency, *(pair.adjacency for pair in subject.pairs)):
        assert isinstance(adjacency, str), f"adjacency is {adjacency!r}, not a text"
        assert adjacency.strip(), "adjacency says under which relation D and D′ are neighbours"


def _again(subject: ProposedPairs) -> None:
    again = subject.propose(lambda at: at * 7 % 5 / 1000)
    assert [list(map(_key, call)) for call in again] == [
        list(map(_key, call)) for call in subject.calls
    ], "the same randomness and history give different pairs; all randomness comes from rng"


def _odd(subject: ProposedPairs) -> None:
    for growth in (0.0, 1e300, float("inf")):
        subject.propose(lambda _: growth)  # noqa: B023  it is called before the next one comes


def _key(pair: Pair) -> Any:
    return (content(pair.d0), content(pair.d1))


def _cut(value: Any) -> str:
    text = str(value)
    return text if len(text) < 200 else f"{text[:200]}…"


TRIALS: tuple[Trial, ...] = (
    ("proposes pairs", _proposes),
    ("D and D′ of every pair are data, and differ", _pairs),
    ("all pairs have one shape and type, if declared", _one_shape),
    ("proposes no pair twice", _once),
    ("its pairs can be written into a spec", _written),
    ("states the relation of the neighbours", _adjacency),
    ("proposes the same pairs for the same randomness and history", _again),
    ("continues whatever its pairs earn", _odd),
)
