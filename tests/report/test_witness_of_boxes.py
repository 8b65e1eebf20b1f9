"""The witness against a black box asks it as the search did: else it would not show what it saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tomli
from support.searches import spec

from dpframe import HostMechanism, Neighbourhood, Pair, PureDP, Values
from dpframe.commands import audit as auditing
from dpframe.draw.pool import Workers
from dpframe.report import witness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from dpframe import Claim, Earned
    from dpframe.results.model import Record


class OneOrTwo(Neighbourhood, name="one-or-two"):
    """A single pair."""

    adjacency = "replace one record"

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        return () if history else [Values(d0=(1.0,), d1=(2.0,))]


class Shows(HostMechanism, name="shows"):
    """Answers noise; something else than its numbers shows which dataset it had."""

    what: str
    """A neighbourhood that proposes it."""

    def claim(self, pair: Pair) -> Claim | None:
        return PureDP(1.0)

    def release(self, rng: np.random.Generator, data: Any) -> float:
        second, noise = data[0] == 2.0, float(rng.integers(1 << 20))
        if self.what == "time" and second:
            sum(range(50_000))
        if self.what == "limit":
            while second:
                pass
        if self.what == "raises" and second:
            raise ValueError("no")
        return noise + (2.0**-30 if self.what == "bits" and second else 0.0)


@pytest.fixture(scope="module")
def source(coarse_bounds_of_module: None) -> Iterator[Workers]:
    with Workers(1) as workers:
        yield workers


SLOW = ("time", "bits", "limit")
WAYS: dict[str, dict[str, Any]] = {
    "time": {"outputs": {"time": True}},
    "bits": {"outputs": {"bits": True}},
    "limit": {"limit": 0.01},
    "raises": {},
}


def ran(document: dict[str, Any], source: Workers) -> Record:
    loaded = auditing.load(document, plugins=[OneOrTwo, Shows])
    return auditing.recorded(loaded, source=source)


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=pytest.mark.slow) if w in SLOW else w for w in WAYS]
)
def test_a_witness_asks_its_box_as_the_search_did(what: str, source: Workers) -> None:
    asked = WAYS[what]
    document = spec({"use": "shows", "params": {"what": what}, **asked}, trials=3_000)
    del document["attack"]
    document |= {"search": {"use": "one-or-two"}, "run": {"stop": "decided", "chunk": 16}}
    record = ran(document, source)
    cell = witness.witness_of(record)
    tables = tomli.loads(witness.as_toml(cell, record))
    (mechanism,) = tables["mechanism"]
    assert {key: mechanism[key] for key in ("raises", *asked)} == {"raises": "answer", **asked}
    assert tables["audit"]["confidence"] == 0.99
    assert tables["run"]["chunk"] == 16
    (again,) = ran(tables, source).cells
    assert (again.verdict, again.expected) == ("violated", "violated"), again.reason


@pytest.mark.slow
def test_a_box_that_may_not_raise_keeps_that(source: Workers) -> None:
    table = {
        "use": "shows",
        "params": {"what": "bits"},
        "raises": "fail",
        "outputs": {"bits": True},
    }
    document = spec(table, trials=3_000) | {"search": {"use": "one-or-two"}}
    del document["attack"]
    record = ran(document | {"run": {"stop": "decided"}}, source)
    cell = witness.witness_of(record)
    assert "'raises': 'fail'" in witness.as_test(cell, record)
    # No spec can name a class that a program has handed over.
    for text in (witness.as_toml(cell, record), witness.as_test(cell, record)):
        assert "It needs objects that a program passed in (mechanism 'shows'" in text
