"""Estimators that return nonsense fail their own cell, with the reason, and no other."""

from __future__ import annotations

import json
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.small_audits import PLUGINS, ROWS, document, load

import dpframe
from dpframe.commands.audit import make_plan, make_record
from dpframe.engine.run import run
from dpframe.errors import CellError
from dpframe.plugins import Estimate, Estimator, Evidence, Mechanism, PureDP
from dpframe.results.estimate_checks import MOST_NOTES, checked
from dpframe.results.store import disagreement, dumps, exit_code
from dpframe.results.strict_json import profile_problem

GOOD: dict[str, Any] = {
    "epsilon": 1.0, "epsilon_lower": 0.5, "epsilon_upper": 2.0, "p_value": 0.5, "p_resolved": 0.5,
}  # fmt: skip


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


NONSENSE: list[tuple[Any, str]] = [
    (None, "estimate returned None; it must return an Estimate"),
    (1.5, "estimate returned 1.5"),
    ((1.0, 0.5), "must return an Estimate"),
    ({"epsilon_lower": "x"}, "gave 'x' for epsilon_lower; it must be a number"),
    ({"epsilon_lower": True}, "gave True for epsilon_lower"),
    ({"epsilon_lower": math.nan}, "gave nan for epsilon_lower"),
    ({"epsilon_lower": -5}, "gave -5.0 for epsilon_lower; a loss is at least 0"),
    ({"epsilon_lower": math.inf, "epsilon_upper": math.inf}, "the bound inf; a certifying"),
    ({"epsilon_lower": None}, "the bound None; a certifying"),
    ({"epsilon_lower": 2.1}, "the bound 2.1, which is above the limit 2.0"),
    ({"epsilon_lower": np.array([0.5, 0.6])}, "gave array.* for epsilon_lower"),
    ({"epsilon_lower": np.array(0.5)}, "gave array.* for epsilon_lower"),
    ({"epsilon_lower": 1j}, "gave 1j for epsilon_lower"),
    ({"epsilon_lower": 10**400}, "for epsilon_lower; it is too large for a float"),
    ({"epsilon_lower": Unprintable()}, "gave a Unprintable for epsilon_lower"),
    ({"epsilon_lower": "y" * 10**6}, "gave 'yyy"),
    ({"epsilon_upper": math.nan}, "gave nan for epsilon_upper"),
    ({"epsilon_upper": -1.0}, "gave -1.0 for epsilon_upper"),
    ({"epsilon": "much"}, "gave 'much' for epsilon"),
    ({"epsilon": None}, "gave None for epsilon"),
    ({"epsilon": -0.5}, "gave -0.5 for epsilon"),
    ({"p_value": 0.0}, "gave 0.0 for p_value; it must be in"),
    ({"p_value": 1.5}, "gave 1.5 for p_value"),
    ({"p_value": math.nan}, "gave nan for p_value"),
    ({"p_value": None}, "gave the p-values None and 0.5"),
    ({"p_resolved": None}, "gave the p-values 0.5 and None"),
    ({"p_resolved": 0.1}, "gave p_resolved 0.1, which is below p_value 0.5"),
    ({"interval": 3.0}, "gave 3.0 for interval; it must be a tuple"),
    ({"interval": (2.0, 1.0)}, "gave .2.0, 1.0. for interval; it must ascend"),
    ({"interval": (1.0,)}, "gave .1.0,. for interval; 2 numbers are required"),
    ({"contrast": (0.0, 1.0)}, "for contrast; 3 numbers are required"),
    ({"contrast": (0.0, math.nan, 1.0)}, "for contrast"),
    ({"tradeoff": 0.5}, "gave 0.5 for tradeoff; it must be a tuple"),
    ({"tradeoff": ((0.1,),)}, "for a point of tradeoff; 2 numbers are required"),
    ({"tradeoff": (("a", "b"),)}, "gave 'a' for a point of tradeoff"),
    ({"tradeoff": "ab"}, "gave 'ab' for tradeoff"),
    ({"profile": range(10**8)}, "gave 100,000,000 values for profile"),
    ({"notes": "one note"}, "gave 'one note' for notes; it must be a tuple"),
    ({"notes": (1,)}, "gave 1 among its notes"),
    ({"evidence": "counts"}, "gave 'counts' for evidence; it must be an Evidence"),
    ({"evidence": Evidence("joint", ((1, math.nan),))}, "gave nan in its evidence"),
    ({"evidence": Evidence("joint", ((1, "2"),))}, "gave '2' for evidence; it must be a number"),
    ({"evidence": Evidence("joint", 3)}, "gave 3 for evidence; it must be a tuple"),  # type: ignore[arg-type]
    ({"notes": ("a",) * (MOST_NOTES + 1)}, "values for notes"),
]


def answer(nonsense: Any) -> Any:
    return Estimate(**{**GOOD, **nonsense}) if isinstance(nonsense, dict) else nonsense


@pytest.mark.parametrize("number", range(len(NONSENSE)))
def test_nonsense_is_refused_with_the_reason(number: int) -> None:
    nonsense, message = NONSENSE[number]
    with pytest.raises(CellError, match=message) as error:
        checked(answer(nonsense), certified=True, tested=True)
    assert len(str(error.value)) < 500


def test_numbers_become_those_of_python() -> None:
    found = checked(
        Estimate(
            epsilon=np.float32(1.5),  # type: ignore[arg-type]
            epsilon_lower=np.int64(1),  # type: ignore[arg-type]
            epsilon_upper=math.inf,
            tradeoff=((np.float64(0.1), 0),),
            notes=("half a pair \ud800",),
        ),
        certified=True,
        tested=False,
    )
    assert [type(value) for value in found[:3]] == [float] * 3
    assert found[:3] == (1.5, 1.0, math.inf)
    assert found.tradeoff == ((0.1, 0.0),)
    assert found.notes == (r"half a pair \ud800",)


def test_what_no_verdict_needs_is_not_asked_for() -> None:
    assert checked(Estimate(math.nan), certified=False, tested=False).p_value is None
    bound = Estimate(math.inf, epsilon_lower=1.0)
    assert checked(bound, certified=True, tested=False).epsilon_lower == 1.0


def test_rounding_of_a_limit_or_a_p_value_is_no_nonsense() -> None:
    estimate = Estimate(**{**GOOD, "epsilon_lower": 2.0 + 1e-9, "p_resolved": 0.5 - 1e-9})
    found = checked(estimate, certified=True, tested=True)
    assert found.p_resolved == found.p_value == 0.5


class Oracle(Estimator, name="oracle"):
    """Says one of the answers above."""

    certifies = True
    assumption = "nothing"

    says: int = 0

    def statistic(self) -> Any:
        return dpframe.DecisionCounts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Any:
        counts[:] = -1  # no other cell's counts either
        return answer(NONSENSE[self.says][0])

    def extreme(self, layout: Any, trials: Any) -> Any:
        return np.zeros((2, 2))


def test_only_its_own_cells_fail() -> None:
    """All answers in one audit, on the same counts."""
    says = list(range(len(NONSENSE)))
    whole = {"trials": 8 * ROWS}  # without a tail the totals are the very arrays that are kept
    sweep = {"estimator.says": says}
    spec = document(audit=whole, estimator=[{"use": "oracle"}], sweep=sweep)
    plan = make_plan(load(spec, plugins=[*PLUGINS, Oracle]))
    record = make_record(plan, run(plan), 0.0)
    reasons = [cell.reason or "" for cell in record.cells]
    assert all(reason.startswith("estimate ") for reason in reasons)
    assert {cell.verdict for cell in record.cells} == {None}
    assert len({str(cell.counts) for cell in record.cells}) == 1
    assert min(min(row) for row in record.cells[0].counts) >= 0
    assert exit_code(record) == 3
    dumps(record)


class Sound(Estimator, name="sound"):
    """Every question but one is answered well."""

    certifies = True
    assumption = "nothing"

    spoilt: str = ""

    def statistic(self) -> Any:
        if self.spoilt == "statistic":
            raise RuntimeError("no statistic")
        return {"describe": Loud, "wordy": Wordy, "endless": Endless}.get(
            self.spoilt, dpframe.DecisionCounts
        )()

    def certifies_against(self, claim: Any) -> bool:
        if self.spoilt == "certifies_against":
            raise RuntimeError("who knows")
        return True

    def estimate(self, layout: Any, counts: Any, query: Any) -> Any:
        good: dict[str, Any] = dict(GOOD)
        return Estimate(**good)

    def extreme(self, layout: Any, trials: Any) -> Any:
        if self.spoilt == "extreme":
            raise RuntimeError("what is extreme?")
        return jnp.zeros((2, 2))


class Loud(dpframe.DecisionCounts):
    def describe(self, layout: Any) -> Any:
        raise RuntimeError("no words")


class Wordy(dpframe.DecisionCounts):
    def describe(self, layout: Any) -> Any:
        return ["no", "table"]


class Endless(dpframe.DecisionCounts):
    def describe(self, layout: Any) -> Any:
        found: dict[Any, Any] = {"name": "\ud800", 1: Unprintable(), "edges": np.ones((2, 2))}
        found["itself"] = found
        return found


def test_every_other_question_fails_its_own_cell_too() -> None:
    spoilt = ["", "statistic", "certifies_against", "describe", "extreme"]
    spec = document(estimator=[{"use": "sound"}], sweep={"estimator.spoilt": spoilt})
    plan = make_plan(load(spec, plugins=[*PLUGINS, Sound]))
    record = make_record(plan, run(plan), 0.0)
    assert [cell.status for cell in record.cells] == ["ok", *["failed"] * 4]
    assert record.cells[0].verdict == "inconclusive"
    for cell in record.cells[1:]:
        assert (cell.reason or "").startswith(f"{cell.swept['estimator.spoilt']} raised Runtime")
    dumps(record)


def test_a_statistic_is_described_as_well_as_can_be() -> None:
    spec = document(estimator=[{"use": "sound"}], sweep={"estimator.spoilt": ["wordy", "endless"]})
    plan = make_plan(load(spec, plugins=[*PLUGINS, Sound]))
    wordy, endless = (record := make_record(plan, run(plan), 0.0)).cells
    assert wordy.reason == "describe returned ['no', 'table']; it must return a dictionary"
    assert endless.status == "ok"
    assert endless.statistic["name"] == r"\ud800"
    assert endless.statistic["1"] == "a Unprintable"
    assert endless.statistic["edges"] == [[1.0, 1.0], [1.0, 1.0]]
    assert disagreement(record, json.loads(dumps(record))) is None


class Boast(PureDP):
    """A claim that breaks down when it is written down."""

    @property
    def kind(self) -> str:  # type: ignore[override]
        raise RuntimeError("speechless")


class Vague(PureDP):
    """A claim without a number."""

    def epsilon_at(self, delta: float) -> float:
        return math.nan


class Boaster(Mechanism, name="boaster"):
    vague: bool = False

    def claim(self, pair: Any) -> Any:
        return Vague(1.0) if self.vague else Boast(1.0)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return jax.random.uniform(key, (n, *data.shape))


def test_a_claim_that_raises_fails_its_own_cell() -> None:
    vague = {"use": "boaster", "label": "vague", "params": {"vague": True}}
    mechanisms = [{"use": "boaster"}, vague, {"use": "flip"}]
    plan = make_plan(load(document(mechanism=mechanisms), plugins=[*PLUGINS, Boaster]))
    boaster, nan, flip = (record := make_record(plan, run(plan), 0.0)).cells
    assert (boaster.status, nan.status, flip.status) == ("failed", "failed", "ok")
    assert nan.reason == "the claim has an ε or a δ that is NaN or negative; ε = nan at δ = 0"
    assert boaster.reason.startswith(
        "claim raised RuntimeError: speechless (test_estimate_checks.py:"
    )
    assert disagreement(record, json.loads(dumps(record))) is None


def test_scores_are_estimated_by_the_same_rules() -> None:
    rng = np.random.default_rng(0)
    decisions = rng.random(200) < 0.5, rng.random(200) < 0.5
    found = dpframe.score(*decisions, estimators=[Oracle(says=5)], plugins=[Oracle])
    (row,) = found["rows"]
    assert row["status"] == "failed"
    assert row["reason"] == "estimate gave nan for epsilon_lower; a loss is at least 0"


WRONG = [
    ([(0.0, 0.5), (1.0, 0.6)], "does not fall"),
    ([(1.0, 0.5), (0.0, 0.4)], "does not fall"),
    ([(0.0, 1.5)], "has δ ≥ 1.5"),
    ([(-1.0, 0.5)], "has δ ≥ 0.5 at ε = -1.0"),
    ([(float("inf"), 0.5)], "at ε = inf"),
    ([(0.0, float("nan"))], "has δ ≥ nan"),
]


def test_a_falling_profile_is_one():
    assert profile_problem([(0.0, 0.5), (1.0, 0.5), (2.0, 0.0)]) is None
    assert profile_problem([]) is None


@pytest.mark.parametrize(("points", "said"), WRONG)
def test_anything_else_is_refused(points, said):
    assert said in profile_problem(points)
    with pytest.raises(CellError, match="estimate gave a profile_lower that"):
        checked(Estimate(1.0, 0.5, profile_lower=points), certified=True, tested=False)
