"""The built-ins keep what the suite for authors demands; the whole of it in the slow tier."""

from __future__ import annotations

from typing import Any

import pytest

from dpframe.interfaces import registry
from dpframe.testing import Finding, attacks, examined

PARAMS: dict[str, dict[str, Any]] = {
    "gaussian": {"sigma": 1.0},
    "values": {"d0": [0, 0], "d1": [1, 0]},
    "pair records": {"table": [[0.0, 1.0], [0.5, 2.0]], "edit": {"replace": 1, "by": [0.5, 3.0]}},
    "neighbourhood records": {"table": [0.1, 0.4, 0.9], "adjacency": "either"},
}
ENTRIES = {
    f"{entry.kind} {entry.name}": entry
    for entry in registry.load().entries
    if entry.distribution == registry.BUILTIN and entry.name != "program"  # it runs a user's file
}
EXAMPLES = ("mechanism laplace", "mechanism laplace-numpy", "pair zeros-ones", "attack logistic")
MAY_BE_LEFT_OUT = {
    "does not change its input",
    "same results compiled and uncompiled",
    "one trace for all values of its floats",
    "its density matches its outputs",
    "its distribution function matches its outputs",
    "its query has a sensitivity and no noise",
    "its outputs have the distribution that it states",
    "binds the same from the same pilot",
}
ANYTIME = {
    "is valid at every number of trials at once, if declared",
    "its bets are fair whatever came before, by exact sums",
}
EXACT = "bounds hold at every confidence, by exact sums"


OF_COUNTS = {
    "counts add, and masked scores are not counted",
    "binds the same from the same pilot",
    "answers whatever the counts are: none, all, NaN, no draws",
    "extreme is most extreme",
}
CERTIFIED = {
    "more confidence, smaller bound",
    "bound and p-value agree",
    "bounds hold as often as they promise",
    "finds a large loss",
}
LEFT_OUT = {
    "neighbourhood records": {"all pairs have one shape and type, if declared"},
    "attack categories": {"larger scores mean D′"},  # no output of the leak comes twice
    "attack canaries": {promise for promise, _ in attacks.TRIALS},
    "attack answers": {promise for promise, _ in attacks.TRIALS},
    "estimator one-run": OF_COUNTS | {EXACT},
    "estimator one-run-independent": OF_COUNTS | {EXACT},
    "estimator one-shot": OF_COUNTS | CERTIFIED | {EXACT},
}
"""Promises that cannot be tried, mostly of mechanisms that take whole runs."""


def findings(name: str) -> list[Finding]:
    cls = ENTRIES[name].cls
    params = PARAMS.get(name, PARAMS.get(cls.name))
    return examined(cls if params is None else cls.from_params(params))


@pytest.mark.parametrize("name", EXAMPLES)
def test_some_built_ins_keep_every_promise(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ENTRIES.keys() - {*EXAMPLES}))
def test_every_built_in_keeps_every_promise(name: str) -> None:
    check(name)


def check(name: str) -> None:
    found = findings(name)
    assert [one for one in found if one.result == "broken"] == []
    left = {one.promise for one in found if one.result == "left out"}
    if ENTRIES[name].kind == "estimator":
        assert (left & ANYTIME) == (set() if ENTRIES[name].cls.anytime else ANYTIME)
        left -= ANYTIME
        if ENTRIES[name].cls.anytime:
            left.remove(EXACT)
    if name in LEFT_OUT:
        assert left == LEFT_OUT[name]
    elif getattr(ENTRIES[name].cls, "certifies", True) and name != "estimator gdp":
        assert left <= MAY_BE_LEFT_OUT  # gdp certifies against claims in terms of μ only
