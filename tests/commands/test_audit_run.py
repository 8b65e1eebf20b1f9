"""One run is judged by its canaries, and a doubt about it is never overruled."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpframe import ApproxDP, Doubt, RunAudit, audit_run, score_one_run
from dpframe.common.types import Bools, Floats
from dpframe.stats.step_bets import StepBets

CLAIM = ApproxDP(1.0, 1e-5)


def canaries(seed: int, shift: float, number: int = 300) -> tuple[Floats, Bools]:
    rng = np.random.default_rng(seed)
    members = rng.random(number) < 0.5
    return rng.normal(size=number) + shift * members, members


def judged(shift: float = 0.0, **options: object) -> RunAudit:
    scores, members = canaries(0, shift)
    return audit_run(scores, members, **{"claim": CLAIM, "delta": 1e-5, **options})  # type: ignore[arg-type]


def test_a_leak_violates_the_claim_and_noise_does_not() -> None:
    assert judged(6.0).verdict == "violated"
    assert judged(6.0).epsilon_lower > 1
    assert judged().verdict == "consistent"
    assert judged(claim=None).verdict is None


def test_a_doubt_makes_a_consistent_verdict_inconclusive_and_no_other() -> None:
    assert judged(warnings=["batches are small"]).verdict == "consistent"
    doubted = judged(warnings=[Doubt("the noise was not seen")])
    assert doubted.verdict == "inconclusive"
    assert doubted.warnings == ["the noise was not seen"]
    assert "the noise was not seen" in doubted["rows"][0]["reason"]
    assert judged(6.0, warnings=[Doubt("the noise was not seen")]).verdict == "violated"


def test_equal_scores_and_nan_are_doubted() -> None:
    members = canaries(0, 0.0)[1]
    same = audit_run(np.zeros(300), members, claim=CLAIM, delta=1e-5)
    assert same.verdict == "inconclusive"
    diverged = audit_run(np.full(300, np.nan), members, claim=CLAIM, delta=1e-5)
    assert diverged.verdict == "inconclusive"
    assert "300 scores are NaN" in diverged.warnings[0]


def test_bets_on_steps_stand_in_the_record_and_the_report() -> None:
    bets = StepBets()
    bets.update(np.zeros(9), np.zeros(9, bool), 1.0, 0.5)
    audit = judged(step_bets=bets.described(0.02))
    assert audit["step_bets"]["steps"] == 1
    assert "Bets on 1 step do not refute the stated noise" in " ".join(str(audit).split())
    assert judged()["step_bets"] is None


def test_the_record_says_if_independence_is_supported() -> None:
    assert judged(independent=True)["independent"]["supported"] is True
    assert judged()["independent"]["supported"] is False


def test_scores_with_ids_and_coins_are_judged_again_at_another_delta() -> None:
    """The bound at the old δ stays as it was, because bounds at several δ hold together."""
    scores, members = canaries(0, 6.0)
    audit = judged(6.0)
    assert audit.scores["canary"].tolist() == list(range(300))
    assert set(audit.scores["record"]) == {-1}
    np.testing.assert_array_equal(audit.scores["included"], members)
    np.testing.assert_array_equal(audit.scores["score"], scores)
    again = score_one_run(
        audit.scores["score"],
        audit.scores["included"],
        delta=[1e-5, 1e-7],
        estimators=["one-run"],
        lower_is_member=False,
    )
    old, new = (bound["epsilon_lower"] for bound in again["rows"][0]["bounds"])
    assert old == audit.epsilon_lower
    assert new >= old


def test_a_folder_keeps_record_and_scores(tmp_path: Path) -> None:
    audit = judged(6.0, name="run 1", training={"steps": 3, "spread": float("nan")}, limits=["x"])
    audit.scores = np.zeros(2, audit.scores.dtype)
    audit.save(tmp_path)
    kept = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert kept["training"] == {"steps": 3, "spread": "nan"}
    assert (kept["scores"]["name"], kept["limits"]) == ("run 1", ["x"])
    lines = (tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["canary,record,included,score", *["0,0,False,0.0"] * 2]
    assert "run 1" in str(audit)
    assert repr(audit).startswith("RunAudit(verdict='violated'")


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_the_bound_is_below_its_ceiling(shift: float) -> None:
    audit = judged(shift)
    assert 0 <= audit.epsilon_lower <= audit.ceiling
