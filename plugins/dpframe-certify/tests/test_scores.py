"""Certificates of scores that were made elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certify_support.certificates import certify, checked, written
from dpframe_certify import certificate

import dpframe
from dpframe import ApproxDP, PureDP
from dpframe.plugins import DpframeError
from dpframe.results.store import dumps

MEMBERS = np.random.default_rng(3).random(1000) < 0.5
SCORES = 2.0 * MEMBERS + np.random.default_rng(4).normal(size=1000)


def answer(claim: Any = None, **more: Any) -> Any:
    """Return the JSON values of an answer about the canaries of one run, or about two sides."""
    given = {"claim": claim, "lower_is_member": False, **more}
    if given.pop("one_run", True):
        return json.loads(dumps(dpframe.score_one_run(SCORES, MEMBERS, **given)))
    return json.loads(dumps(dpframe.score(SCORES[MEMBERS], SCORES[~MEMBERS], **given)))


@pytest.mark.parametrize(
    ("claim", "verdicts"),
    [
        (None, {None}),
        (PureDP(1.0), {"violated"}),
        (ApproxDP(4.0, 1e-5), {"consistent"}),
        (PureDP(50.0), {"inconclusive"}),
    ],
)
def test_scores_of_canaries_have_certificates(claim: Any, verdicts: Any, tmp_path: Path) -> None:
    told = answer(claim)
    contents = certificate(told)
    assert {one["verdict"] for one in contents["conclusions"]} == verdicts
    assert contents["audit"]["m"] == (1 if claim else 0)
    bounds = {row["estimator"]["label"]: row["estimate"]["epsilon_lower"] for row in told["rows"]}
    for one in contents["conclusions"]:
        assert one["estimate"]["epsilon_lower"] == bounds[one["id"]] > 2
    assert checked(contents) == {}
    (tmp_path / "scores.json").write_text(json.dumps(told))
    assert certify(tmp_path / "scores.json", tmp_path / "cert.json").exit_code == 0
    assert (tmp_path / "cert.json").read_text() == written(contents)
    for one in contents["conclusions"]:
        one["estimate"]["epsilon_lower"] *= 1.01
    with pytest.raises(ValueError, match="its bound is wrong"):
        checked(contents)


def test_scores_of_two_sides_have_certificates_of_bounds() -> None:
    """Each bound holds by itself at the confidence, so together they decide nothing."""
    names = ["threshold", "order-statistics", "histogram", "betting"]
    contents = certificate(answer(PureDP(1.0), one_run=False, estimators=names))
    assert [one["verdict"] for one in contents["conclusions"]] == [None] * 4
    assert checked(contents) == {3: "its theorem is unknown to this program"}
    contents["conclusions"][1]["trials"] = [400, 400]
    with pytest.raises(ValueError, match="odd terms"):
        checked(contents)


def test_events_of_a_part_of_the_scores_are_not_checked() -> None:
    decided = dpframe.score(
        SCORES[MEMBERS] > 1, SCORES[~MEMBERS] > 1, estimators=["order-statistics"]
    )
    assert checked(certificate(json.loads(dumps(decided)))) == {
        0: "its theorem is unknown to this program"
    }


def test_scores_that_have_no_certificate(tmp_path: Path) -> None:
    told = answer(ApproxDP(3.5, 1e-5))
    reason = "the training was not observed"
    for row in told["rows"]:
        row.update(verdict="inconclusive", reason=f"no violation found, but {reason}")
    with pytest.raises(DpframeError, match=f"does not follow from counts.*{reason}"):
        certificate({**told, "warnings": [reason]})
    equal = dpframe.score_one_run(0 * SCORES, MEMBERS, claim=PureDP(0.1), lower_is_member=False)
    with pytest.raises(DpframeError, match=r"counts.*all scores are equal"):
        certificate(json.loads(dumps(equal)))
    with pytest.raises(DpframeError, match="certifies nothing"):
        certificate(answer(estimators=["one-shot"]))
    for lacking in ("audit", "rows", "claim"):
        with pytest.raises(DpframeError, match="not a complete answer"):
            certificate({key: value for key, value in told.items() if key != lacking})
    (tmp_path / "scores.json").write_text(json.dumps(told))
    done = certify(tmp_path / "scores.json", tmp_path / "cert.json", "--bets")
    assert "these scores were made elsewhere" in str(done.exception)
