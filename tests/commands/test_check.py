"""Expectations that nothing can meet are mistakes of the spec."""

from __future__ import annotations

from typing import Any

import pytest
from support.small_audits import PLUGINS, document

from dpframe import Mechanism
from dpframe.commands.audit import load
from dpframe.commands.check import check
from dpframe.errors import SpecError


class Silent(Mechanism, name="silent"):
    """Claims nothing."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> None:
        return None

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return Flip().sample(key, data, n)


class Untraceable(Mechanism, name="untraceable"):
    """Cannot be run."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> Any:
        return Flip().claim(pair)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        raise RuntimeError("never")


Flip = PLUGINS[0]


def spec(verdict: str | None = "violated", **tables: Any) -> dict[str, Any]:
    expect = [{"verdict": verdict}] if verdict else []
    return document(expect=expect, **tables)


def mistakes(document: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as error:
        check(load(document, plugins=[*PLUGINS, Silent, Untraceable]))
    found: list[str] = error.value.problems
    return found


def test_what_can_be_met_is_no_mistake() -> None:
    check(load(spec(), plugins=PLUGINS))


def test_what_is_skipped_cannot_be_met() -> None:
    (found,) = mistakes(spec(attack=[{"use": "above"}, {"use": "identity"}]))
    assert found == (
        "expect: flip · identity · precision: expected violated, but left out: identity gives a "
        "score, precision takes a decision"
    )


def test_what_gets_no_verdict_cannot_be_met() -> None:
    (found,) = mistakes(spec(mechanism=[{"use": "silent"}]))
    assert found.endswith("expected violated, but gets no verdict: nothing is claimed")
    (found,) = mistakes(spec(estimator=[{"use": "totals"}]))
    assert found.endswith("but gets no verdict: totals certifies nothing here")


def test_what_cannot_be_run_cannot_be_met() -> None:
    (found,) = mistakes(spec(mechanism=[{"use": "untraceable"}]))
    assert "untraceable · above · precision: expected violated, but cannot be run: sample" in found


def test_alike_ones_are_said_once() -> None:
    sweep = {"mechanism.epsilon": [0.5, 1.0, 2.0]}
    (found,) = mistakes(spec(estimator=[{"use": "totals"}], sweep=sweep))
    assert found.endswith("(3 cells)")


def test_where_nothing_is_expected_it_says_what_a_run_takes() -> None:
    assert check(load(spec(None, estimator=[{"use": "totals"}]), plugins=PLUGINS)) > 0
