"""`dpframe score --one-run`: bounds that hold together, ceilings and verdicts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.command_line import dpframe as dpframe_command
from support.known_truths import KNOWN

import dpframe
from dpframe import ApproxDP, DpframeError, Estimate, GaussianDP, PureDP, Query
from dpframe.builtin.one_run import Guesses, OneRun
from dpframe.errors import PluginError, ScoresError
from dpframe.results.store import dumps

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(3)
MEMBERS = RNG.random(1000) < 0.5
SCORES = 2.0 * MEMBERS + RNG.normal(size=1000)


def rows(**arguments: Any) -> dict[str, dict[str, Any]]:
    asked = {"every": True, "lower_is_member": False} | arguments
    found = dpframe.score_one_run(SCORES, MEMBERS, **asked)
    return {row["estimator"]["label"]: row for row in found["rows"]}


def test_bounds_at_every_delta_beside_what_could_be_shown() -> None:
    found = rows(delta=[1e-5, 1e-6, 0.0])
    assert set(found) == {"one-run", "one-shot"}
    bounds = found["one-run"]["bounds"]
    assert [each["delta"] for each in bounds] == [1e-5, 1e-6, 0.0]
    lower = [each["epsilon_lower"] for each in bounds]
    assert 2.8 < lower[0] <= lower[1] <= lower[2]
    assert all(each["epsilon_lower"] < each["ceiling"] < 6 for each in bounds)
    assert found["one-run"]["verdict"] is None
    assert found["one-shot"]["bounds"][0]["epsilon_lower"] is None
    assert found["one-shot"]["bounds"][0]["epsilon"] == pytest.approx(10, abs=4)


class Second(Guesses, name="second"):
    """Another estimator of canaries."""

    theorem = "one-run"
    lower, level = OneRun.lower, OneRun.level


def test_estimators_share_the_error() -> None:
    together, alone = rows(plugins=[Second]), rows()
    assert together["one-run"]["estimate"]["confidence"] == pytest.approx(0.975)
    assert alone["one-run"]["estimate"]["confidence"] == 0.95
    bounds = [one["one-run"]["bounds"][0]["epsilon_lower"] for one in (together, alone)]
    assert bounds[0] < bounds[1]


def test_verdicts() -> None:
    wrong = rows(claim=PureDP(1.0), plugins=[Second])
    assert wrong["one-run"]["verdict"] == wrong["second"]["verdict"] == "violated"
    assert wrong["one-run"]["p_adjusted"] == pytest.approx(2 * wrong["one-run"]["p_value"], rel=1)
    assert wrong["one-shot"]["verdict"] is wrong["one-shot"]["p_value"] is None
    right = rows(claim=GaussianDP(2.0))["one-run"]
    assert right["verdict"] == "inconclusive"
    assert "even if every guess were right, 1,000 canaries would not reject" in right["reason"]
    found = rows(claim=PureDP(4.2), estimators=["one-run"])["one-run"]
    assert found["verdict"] == "consistent"
    assert "others may show more" in found["reason"]
    json.loads(dumps(dpframe.score_one_run(SCORES, MEMBERS, claim=PureDP(1.0))))


@pytest.mark.parametrize("wrong", [2.0, float("nan")])
def test_a_wrong_answer_about_the_ceiling_ends_no_other_answer(
    wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimator whose p-value of the most extreme counts is none has no ceiling."""
    estimate = OneRun.estimate

    def faulty(self: OneRun, layout: Any, counts: Any, query: Query) -> Estimate:
        found = estimate(self, layout, counts, query)
        return found if found.p_value > 1e-50 else found._replace(p_value=wrong)

    monkeypatch.setattr(OneRun, "estimate", faulty)
    found = rows(claim=PureDP(1.0))
    assert found["one-run"]["bounds"][0]["ceiling"] is None
    assert found["one-run"]["verdict"] == "violated"


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_equal_scores_test_nothing(value: float) -> None:
    given = {"claim": PureDP(0.1), "lower_is_member": False, "every": True}
    found = dpframe.score_one_run(np.full(1000, value), MEMBERS, **given)
    decided = [row for row in found["rows"] if row["verdict"]]
    assert {row["verdict"] for row in decided} == {"inconclusive"}
    assert all("equal, so nothing was tested" in row["reason"] for row in decided)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"members": np.ones(1000)}, DpframeError, "canaries are members: each canary must be in"),
        ({"members": None}, DpframeError, "members: give the memberships"),
        ({"members": MEMBERS[:10]}, ScoresError, "1,000 scores and 10 memberships"),
        ({"delta": [1e-5, 1.0]}, DpframeError, "delta: 1.0"),
        ({"delta": []}, DpframeError, "delta: give at least one number"),
        ({"confidence": 0.0}, DpframeError, "confidence: 0.0"),
        ({"estimators": ["one-rum"]}, PluginError, "did you mean 'one-run'"),
        ({"estimators": ["one-run"], "parameters": {"guesses": [0]}}, PluginError, "guesses"),
    ],
)
def test_mistakes(arguments: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        dpframe.score_one_run(SCORES, **{"members": MEMBERS, **arguments})


def test_estimators_of_pairs_say_why_not() -> None:
    found = dpframe.score_one_run(SCORES, MEMBERS, estimators=["order-statistics", "one-run"])
    (skip,) = found["skipped"]
    assert skip == {
        "estimator": "order-statistics",
        "reason": "takes a score of each run, not many canaries of one",
    }
    pairs = dpframe.score(SCORES[MEMBERS], SCORES[~MEMBERS], estimators=["one-run", "one-shot"])
    assert [row["estimator"]["label"] for row in pairs["rows"]] == ["one-shot"]
    assert "--one-run" in pairs["skipped"][0]["reason"]
    assert not dpframe.score_one_run(SCORES, MEMBERS, plugins=KNOWN)["skipped"]


def test_the_command(tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", scores=SCORES, members=MEMBERS)

    def called(*words: str) -> tuple[int, str, str]:
        done = dpframe_command("score", *words, cwd=tmp_path)
        return done.returncode, " ".join(done.stdout.split()), " ".join(done.stderr.split())

    given = ("--one-run", "run.npz")
    code, shown, _ = called(
        *given, "--claim", "epsilon=1", "--delta", "1e-5", "--delta", "0", "--all"
    )
    assert code == 1
    for text in ("1,000 canaries of one run", "✗ violated", "can show", "≤", "no bound"):
        assert text in shown
    assert "No number here says that a mechanism is private" in shown
    code, shown, _ = called(*given, "--json", "--estimator", "one-run")
    assert code == 0
    printed = json.loads(shown)
    assert printed["kind"] == "score-one-run"
    assert printed["rows"][0]["bounds"][0]["ceiling"] > 4
    assert called(*given, "--in", "run.npz")[::2] == (
        2,
        "give one of: TABLE, --scores1 FILE --scores0 FILE, --one-run FILE",
    )
    assert "--one-run FILE" in called("--in", "run.npz")[2]
    assert called(*given, "--claim", "epsilon=4")[0] == 0
    assert called(*given, "--claim", "epsilon=50")[0] == 3  # too large for so few canaries
    untested = called(*given, "--claim", "epsilon=50", "--estimator", "one-shot", "--all")
    assert untested[0] == 3
    assert "The claim was not tested" in untested[1]


def test_reversed_canaries_are_noticed_by_canaries_that_no_bound_uses() -> None:
    found = dpframe.score_one_run(-SCORES, MEMBERS)
    seen = found["scores"]["direction"]
    assert seen["reversed"] is True
    assert seen["drawn_reversed"] is False
    assert 30 < sum(seen["set_aside"]) < 70
    assert {row["estimator"]["label"] for row in found["rows"]} == {"one-run"}
    assert found["rows"][0]["estimate"]["epsilon_lower"] == 0.0
    told = dpframe.score_one_run(-SCORES, MEMBERS, lower_is_member=True)
    assert told["rows"][0]["estimate"]["epsilon_lower"] > 2
    assert told["scores"]["direction"]["set_aside"] == seen["set_aside"]


def test_independence_is_used_for_verdicts_only_on_request() -> None:
    claim = GaussianDP(1.5)
    asked = {"delta": 1e-5, "claim": claim, "lower_is_member": False}
    found = dpframe.score_one_run(SCORES, MEMBERS, **asked)
    assert "one-run-independent" not in {row["estimator"]["label"] for row in found["rows"]}
    own, bounds = found["independent"], [row["bounds"][0] for row in found["rows"]]
    assert own["refuted"]
    assert 1.5 < own["mu_lower"] < 2.2
    assert found["refuted"] is not True
    assert max(each["epsilon_lower"] for each in bounds) < own["epsilon"][0]["epsilon"]
    assert "by itself, which refutes the claim" in " ".join(str(found).split())

    assumed = dpframe.score_one_run(SCORES, MEMBERS, assume="independent", **asked)
    (row,) = assumed["rows"]
    assert row["estimator"]["label"] == "one-run-independent"
    assert row["verdict"] == "violated"
    assert str(assumed).startswith("This result assumes that canaries are drawn alike")
    assert assumed["audit"]["assume"] == "independent"
    # A Gaussian mechanism has no ε at δ = 0.
    pure = " ".join(str(dpframe.score_one_run(SCORES, MEMBERS, lower_is_member=False)).split())
    assert re.search(r"that the mechanism is Gaussian: μ ≥ [\d.]+, 95 % by itself", pure)


def test_the_bound_under_independence_is_where_its_verdict_changes() -> None:
    asked = {"assume": "independent", "lower_is_member": False}
    (row,) = dpframe.score_one_run(SCORES, MEMBERS, delta=1e-5, **asked)["rows"]
    bound = row["bounds"][0]["epsilon_lower"]
    for epsilon, refuted in ((bound - 0.01, True), (bound + 0.01, False)):
        claim = ApproxDP(epsilon, 1e-5)
        assert dpframe.score_one_run(SCORES, MEMBERS, claim=claim, **asked)["refuted"] is refuted


def test_a_doubt_about_scores_leaves_nothing_that_assumes_independence() -> None:
    twice = np.repeat(SCORES, 2), np.repeat(MEMBERS, 2)
    assert dpframe.score_one_run(*twice, lower_is_member=False)["independent"] is None
    some = np.where(MEMBERS & (SCORES > 3), np.nan, SCORES)
    assert dpframe.score_one_run(some, MEMBERS, lower_is_member=False)["independent"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"assume": "gaussian"}, "assume: 'gaussian' is not 'independent'"),
        ({"assume": "independent", "estimators": ["one-run"]}, "none of the named estimators"),
    ],
)
def test_assumptions_that_do_not_exist(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DpframeError, match=message):
        rows(**arguments)
