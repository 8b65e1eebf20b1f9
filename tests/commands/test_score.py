"""`dpframe.score`: every estimator on the same scores, nothing claimed that does not hold."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.console import Console
from support.known_truths import KNOWN, Greedy, Guess

import dpframe
from dpframe import ApproxDP, DpframeError, GaussianDP, PureDP
from dpframe.builtin.order_statistics import Precision
from dpframe.claims.accounted import read_claim
from dpframe.commands.score import _refuted
from dpframe.draw.streams import PILOT, Stream, host_generator
from dpframe.errors import PluginError, ScoresError
from dpframe.interfaces.estimator import Query
from dpframe.report.delivery import scores_document
from dpframe.report.scores import larger, parts, reversal, sources
from dpframe.report.terminal.text import show_parts
from dpframe.results.store import answer_at, dumps
from dpframe.scores.sides import (
    FALSE_REVERSAL,
    FEWEST_KEPT,
    MOST_SET_ASIDE,
    ScoreDirection,
    reversed_p_value,
)

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(3)
IN, OUT = RNG.normal(1.0, 1.0, 3000), RNG.normal(0.0, 1.0, 2500)


def rows(**arguments: Any) -> dict[str, dict[str, Any]]:
    found = dpframe.score(IN, OUT, plugins=KNOWN, **arguments)
    return {row["estimator"]["label"]: row for row in found["rows"]}


def test_decisions_give_what_the_estimator_gives() -> None:
    inside, outside = IN > 0.5, OUT > 0.5
    asked = {"estimators": ["precision"], "lower_is_member": False}
    found = dpframe.score(inside, outside, delta=0.01, confidence=0.9, **asked)
    counts = np.array([[(~s).sum(), s.sum()] for s in (outside, inside)])
    expected = Precision().estimate((), counts, Query((2500, 3000), 0.01, 0.9, None))
    (row,) = found["rows"]
    assert row["estimate"]["epsilon_lower"] == expected.epsilon_lower
    assert row["estimate"]["epsilon"] == expected.epsilon
    assert row["estimate"]["confidence"] == 0.9
    assert found["audit"] == {"delta": 0.01, "confidence": 0.9, "multiplicity": "none"}


def test_in_is_d_prime() -> None:
    """One-sided scores tell which way round they are read."""
    (row,) = dpframe.score(
        np.ones(500), np.zeros(500), estimators=["order-statistics"],
        parameters={"direction": "up"},
    )["rows"]  # fmt: skip
    assert row["estimate"]["epsilon_lower"] > 3
    (row,) = dpframe.score(
        np.zeros(500), np.ones(500), estimators=["order-statistics"],
        parameters={"direction": "up"},
    )["rows"]  # fmt: skip
    assert row["estimate"]["epsilon_lower"] < 0.5


@pytest.mark.usefixtures("coarse_bounds")
def test_all_estimators_answer_and_the_others_say_why_not() -> None:
    found = dpframe.score(IN, OUT, plugins=KNOWN, every=True)
    status = {row["estimator"]["label"]: row["status"] for row in found["rows"]}
    assert status["order-statistics"] == status["greedy"] == status["guess"] == "ok"
    assert status["breaks"] == status["infinite"] == "failed"
    skipped = {skip["estimator"]: skip["reason"] for skip in found["skipped"]}
    assert skipped["precision"] == "takes a decision, was given a score"
    assert "'level'" in skipped["needy"]
    assert {plugin["name"] for plugin in found["plugins"]} >= {"order-statistics", "guess"}
    assert json.loads(dumps(found))["kind"] == "score"
    sources = {plugin["name"]: plugin["reference"] for plugin in found["plugins"]}
    assert sources["order-statistics"].startswith("[Kairouz2015, theorem 2.1]")
    assert sources["guess"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("coarse_bounds")
def test_what_certifies_nothing_is_asked_only_on_demand() -> None:
    found = dpframe.score(IN, OUT, plugins=KNOWN)
    assert all(row["status"] == "failed" or row["estimate"]["certified"] for row in found["rows"])
    skipped = {skip["estimator"]: skip["reason"] for skip in found["skipped"]}
    assert skipped["guess"] == skipped["pld-composition"] == "certifies no bound; run it with --all"
    assert "pld-composition" not in {plugin["name"] for plugin in found["plugins"]}


def test_what_does_not_certify_has_no_bound_and_no_p_value() -> None:
    found = rows(
        claim=PureDP(0.1), estimators=["guess", "order-statistics", "infinite"]
    )  # fmt: skip
    guess, sound = found["guess"], found["order-statistics"]
    assert guess["estimate"]["certified"] is False
    assert guess["estimate"]["epsilon_lower"] is guess["p_value"] is None
    assert guess["estimate"]["interval"] == [0.5, 2.0]
    assert sound["estimate"]["epsilon_lower"] > 0.1
    assert 0 < sound["p_value"] < 1e-10
    assert found["infinite"]["estimate"] is None
    assert "inf" in found["infinite"]["reason"]


def test_one_score_is_not_written_as_several() -> None:
    found = dpframe.score([1.0], [0.0, 2.0], estimators=["order-statistics"], plugins=KNOWN)
    assert [line.split(": ")[1] for line in sources(found)][:2] == [
        "1 score (D′, with the record)",
        "2 scores (D, without the record)",
    ]


def test_no_estimator_disturbs_another() -> None:
    together = rows(estimators=["threshold", "greedy", "order-statistics"])["greedy"]
    alone = rows(estimators=["greedy"])["greedy"]
    assert together["estimate"] == alone["estimate"]
    assert rows(seed=1, estimators=["greedy"])["greedy"]["estimate"] != alone["estimate"]
    assert any("random 10 %" in note for note in alone["estimate"]["notes"])


def test_parameters_and_instances() -> None:
    named = rows(estimators=["greedy"], parameters={"pays": True})["greedy"]
    given = rows(estimators=[Greedy(pays=True)])["greedy"]
    assert named["estimate"] == given["estimate"]
    assert named["estimator"]["params"] == {"pays": True}
    plain = rows(estimators=["greedy"])["greedy"]
    assert named["estimate"]["epsilon_lower"] < plain["estimate"]["epsilon_lower"]
    assert (
        rows(parameters={"level": 2.0}, estimators=["needy"])["needy"]["estimate"]["epsilon"] == 2.0
    )


def test_delta_is_that_of_the_claim_unless_it_is_given() -> None:
    assert dpframe.score(IN, OUT, claim=ApproxDP(1.0, 1e-3), estimators=[Guess()])["audit"][
        "delta"
    ] == pytest.approx(1e-3)
    found = dpframe.score(IN, OUT, claim=GaussianDP(1.0), delta=1e-4, estimators=[Guess()])
    claim = found["claim"]
    assert (claim["kind"], claim["parameters"], claim["delta"]) == (
        "gaussian-dp",
        {"mu": 1.0},
        1e-4,
    )
    assert claim["epsilon"] == GaussianDP(1.0).epsilon_at(1e-4)
    assert claim["tradeoff"][0] == [0.0, 1.0]
    assert dpframe.score(IN, OUT, estimators=[Guess()])["audit"]["delta"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"confidence": 1.0}, DpframeError, "confidence: 1.0"),
        ({"confidence": float("nan")}, DpframeError, "confidence"),
        ({"delta": 1.0}, DpframeError, "delta: 1.0"),
        ({"delta": -0.1}, DpframeError, "delta"),
        ({"estimators": ["order-statistic"]}, PluginError, "did you mean 'order-statistics'?"),
        ({"estimators": ["needy"]}, PluginError, "'level'"),
        ({"parameters": {"pay": True}}, PluginError, "'pay'"),
        ({"estimators": ["greedy"], "parameters": {"pays": "yes"}}, PluginError, "'pays'"),
        ({"plugins": [int]}, PluginError, "plugins:"),
    ],
)
def test_mistakes(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        dpframe.score(IN, OUT, **{"plugins": KNOWN, **arguments})


def test_scores_of_two_kinds(tmp_path: Path) -> None:
    with pytest.raises(DpframeError, match="decisions on one side"):
        dpframe.score(IN > 0, OUT)
    with pytest.raises(ScoresError, match="scores in: "):
        dpframe.score([[1.0, 2.0]], OUT)
    with pytest.raises(ScoresError, match="no such file"):
        dpframe.score(tmp_path / "gone.npy", OUT)


def test_odd_scores_are_scores() -> None:
    inside = np.concatenate([IN, np.full(200, np.nan), [np.inf, -np.inf]])
    found = dpframe.score(inside, OUT.astype(np.float32), estimators=["order-statistics"])
    assert found["scores"]["in"] == {
        "name": "scores in", "scores": 3202, "nan": 200, "type": "float64",
    }  # fmt: skip
    assert found["scores"]["out"]["type"] == "float32"
    assert found["rows"][0]["status"] == "ok"


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("epsilon=1", PureDP(1.0)),
        ("delta=1e-5, epsilon = 2", ApproxDP(2.0, 1e-5)),
        ("mu=0.5", GaussianDP(0.5)),
        ("rho=0.5", dpframe.ZeroConcentratedDP(0.5)),
        ("order=8,epsilon=1", dpframe.RenyiDP(order=8, epsilon=1.0)),
    ],
)
def test_claims_in_words(text: str, claim: Any) -> None:
    assert read_claim(text) == claim


@pytest.mark.parametrize("text", ["eps=1", "epsilon", "epsilon=x", "", "epsilon=-1", "mu=nan"])
def test_words_that_are_no_claim(text: str) -> None:
    with pytest.raises(DpframeError, match="--claim"):
        read_claim(text)


@pytest.mark.parametrize(
    ("p_values", "failed", "refuted"),
    [
        ([0.05], 0, True),
        ([0.051], 0, False),
        ([0.02, 0.5, None], 0, True),
        ([0.02, 0.5, 0.5], 0, False),
        ([0.02, 0.5], 1, False),
        ([None], 0, None),
        ([], 1, None),
    ],
)
def test_a_claim_is_refuted_only_by_all_lines_together(p_values, failed, refuted):
    rows = [{"p_value": p, "status": "ok"} for p in p_values]
    rows += [{"p_value": None, "status": "failed"}] * failed
    assert _refuted(rows, 0.95) is refuted


def test_a_table_is_both_sides(tmp_path: Path) -> None:
    members = np.arange(len(IN) + len(OUT)) < len(IN)
    np.savez(tmp_path / "t.npz", score=np.concatenate([IN, OUT]), member=members, more=members)
    asked = {"estimators": ["order-statistics"], "seed": 3}
    apart = dpframe.score(IN, OUT, **asked)["rows"][0]["estimate"]
    assert dpframe.score(tmp_path / "t.npz", **asked)["rows"][0]["estimate"] == apart
    named = dpframe.score(tmp_path / "t.npz", column="score", member="more", **asked)
    assert named["rows"][0]["estimate"] == apart
    assert named["scores"]["in"]["name"].endswith("t.npz, in")
    with pytest.raises(DpframeError, match="must be missing if one file contains"):
        dpframe.score(IN)
    with pytest.raises(DpframeError, match="two files need no memberships"):
        dpframe.score(IN, OUT, member="x")
    np.savez(tmp_path / "all.npz", score=IN, member=np.ones(len(IN)))
    with pytest.raises(ScoresError, match="nothing is out"):
        dpframe.score(tmp_path / "all.npz")


def direction(inside: Any, outside: Any, **asked: Any) -> dict[str, Any]:
    found = dpframe.score(inside, outside, estimators=["order-statistics"], **asked)
    return found["scores"]["direction"]


def test_reversed_scores_are_noticed_by_scores_that_no_bound_uses() -> None:
    found = dpframe.score(-IN, -OUT, estimators=["order-statistics"])
    seen = found["scores"]["direction"]
    assert seen["reversed"] is seen["drawn_reversed"] is True
    assert 90 < seen["set_aside"][0] < 160
    assert 110 < seen["set_aside"][1] < 190
    assert "add --lower-is-member" in reversal(found)
    right = dpframe.score(IN, OUT, estimators=["order-statistics"])
    assert right["scores"]["direction"]["reversed"] is False
    assert right["scores"]["roc"] == found["scores"]["roc"]
    assert not reversal(right)
    assert not direction(OUT, OUT[::-1])["reversed"]
    assert direction(-IN, -OUT, parameters={"direction": "up"})["drawn_reversed"] is False


def test_warnings_of_the_tool_that_made_the_scores_are_in_every_report(tmp_path: Path) -> None:
    found = dpframe.score(IN, OUT, estimators=["order-statistics"])
    path = tmp_path / "record.json"
    path.write_text(dumps({**found, "warnings": ["the noise is off"]}), encoding="utf-8")
    console = Console(record=True, file=io.StringIO())
    show_parts(console, parts(dict(answer_at(tmp_path) or {})))
    for suffix in (".html", ".md"):
        dpframe.report(path, tmp_path / f"report{suffix}")
        assert "the noise is off" in (tmp_path / f"report{suffix}").read_text(encoding="utf-8")
    assert "! the noise is off" in console.export_text()


def direction_generator() -> np.random.Generator:
    """Return the generator that chooses the scores with the record to set aside."""
    return host_generator(Stream(0, "direction", 1, PILOT))


def test_the_remedy_bounds_what_the_test_did_not_see() -> None:
    """The scores that the test saw stay aside: altering them alters no bound."""
    asked = {"estimators": ["order-statistics"], "lower_is_member": True}
    told = dpframe.score(-IN, -OUT, **asked)
    assert told["scores"]["direction"]["reversed"] is None
    mask = ScoreDirection(True, False).set_aside(len(IN), direction_generator())
    altered = dpframe.score(np.where(mask, 99.0, -IN), -OUT, **asked)
    assert altered["rows"][0]["estimate"] == told["rows"][0]["estimate"]
    same = dpframe.score(IN, OUT, estimators=["order-statistics"])
    assert same["rows"][0]["estimate"] == told["rows"][0]["estimate"]
    assert direction(IN, OUT, lower_is_member=False)["set_aside"] == [0, 0]


def test_a_file_that_grows_keeps_what_is_set_aside() -> None:
    short, long = (
        ScoreDirection(None, False).set_aside(n, direction_generator()) for n in (500, 50_000)
    )
    assert (long[:500] == short).all()
    assert long.sum() == MOST_SET_ASIDE
    assert not long[:FEWEST_KEPT].any()
    assert short.any()


def test_the_headline_names_a_larger_bound_and_its_condition() -> None:
    def row(label: str, lower: float) -> dict[str, Any]:
        estimate = {"certified": True, "epsilon_lower": lower}
        return {"status": "ok", "estimator": {"use": label, "label": label}, "estimate": estimate}

    rows = [row("betting", 2.5), row("order-statistics", 2.0), row("threshold", 1.0)]
    found = {"kind": "score", "rows": rows}
    assert larger(found).startswith("betting alone certifies more, ε ≥ 2.50; that holds only if")
    assert larger(found | {"rows": rows[1:]}) == ""
    assert larger(found | {"rows": [rows[0], rows[2]]}) == ""  # the headline has the largest


def test_a_loss_is_lower_for_members(tmp_path: Path) -> None:
    members = np.arange(len(IN) + len(OUT)) < len(IN)
    np.savez(tmp_path / "t.npz", loss=-np.concatenate([IN, OUT]), label=np.where(members, 1, -1))
    found = dpframe.score(tmp_path / "t.npz", estimators=["order-statistics"])
    assert found["scores"]["direction"]["lower_is_member"] is True
    assert found["scores"]["direction"]["set_aside"] == [0, 0]
    plain = dpframe.score(IN, OUT, estimators=["order-statistics"], lower_is_member=False)
    assert found["rows"][0]["estimate"] == plain["rows"][0]["estimate"]
    assert "lower scores indicate the record" in "".join(sources(found))


@pytest.mark.parametrize("sides", [(8, 8), (20, 9), (50, 50), (53, 47)])
def test_the_direction_is_misjudged_at_most_as_often_as_promised(sides: tuple[int, int]) -> None:
    """Exact null distribution of the rank sum, by its recursion [Mann1947]."""
    n, m = sides
    ways = np.zeros((m + 1, n * m + 1))
    ways[0, 0] = 1.0
    for rank in range(1, n + m + 1):  # the lowest so many ranks: who of them is inside
        for taken in range(min(rank, m), 0, -1):
            shift = rank - taken
            if shift <= n:
                ways[taken, shift:] += ways[taken - 1, : n * m + 1 - shift]
    chance = ways[m].cumsum() / ways[m].sum()
    wrong = 0.0
    for below in range(n * m // 2):  # the smallest sums: is the next one still called reversed?
        inside = np.repeat(below // m, m) + (np.arange(m) >= m - below % m)
        inside = inside + np.arange(m) / 1000  # without ties
        if reversed_p_value(np.arange(n) + 0.5, inside) > FALSE_REVERSAL:
            break
        wrong = chance[below]
    assert FALSE_REVERSAL / 20 < wrong <= FALSE_REVERSAL


def test_ties_and_nothing_say_nothing_of_the_direction() -> None:
    assert reversed_p_value(np.zeros(50), np.zeros(40)) is None
    assert reversed_p_value(np.zeros(0), np.zeros(40)) is None
    assert reversed_p_value(np.full(40, np.nan), np.full(40, -np.inf)) is None
    assert reversed_p_value(np.ones(40), np.zeros(40)) < 1e-6
    rng = np.random.default_rng(0)  # expected: 4 at level .001; 17 or more with probability 2e-6
    draws = rng.integers(0, 2, (4000, 2, 60)).astype(float)
    assert sum(reversed_p_value(a, b) <= FALSE_REVERSAL for a, b in draws) <= 16


@pytest.mark.parametrize("inside", [np.ones(10), np.arange(10.0), np.full(10, np.inf)])
def test_ten_rows_and_ties_are_bounded_by_little(inside: Any) -> None:
    found = dpframe.score(inside, np.ones(10))
    assert all(row["status"] == "ok" for row in found["rows"])
    assert max(row["estimate"]["epsilon_lower"] for row in found["rows"]) < 3


HOSTILE = "<script>alert(1)</script>\x1b[31m"


@pytest.mark.slow
@pytest.mark.usefixtures("coarse_bounds")
def test_reports_of_scores_escape_everything(tmp_path: Path) -> None:
    found = dpframe.score(IN, OUT, claim=PureDP(0.1), plugins=KNOWN)
    found["rows"][0]["estimator"]["label"] = found["scores"]["in"]["name"] = HOSTILE
    found["rows"][0]["estimate"]["notes"] = [HOSTILE]
    found["rows"][-1]["reason"] = found["skipped"][0]["reason"] = HOSTILE
    for text in (
        found._repr_html_(),
        scores_document(found, ".html"),
        scores_document(found, ".md"),
    ):
        assert "<script" not in text
        assert "\x1b" not in text
        assert "≥" in text
    assert found._repr_html_().startswith("<div>")
    assert "refuted at 95 %" in repr(found)
    assert "\x1b" not in repr(found)
    dpframe.report(found, tmp_path / "r.csv")
    lines = (tmp_path / "r.csv").read_text().splitlines()
    assert lines[0].startswith("estimator,status,delta,epsilon_lower")
    assert len(lines) > len(found["rows"])
    with pytest.raises(DpframeError, match=r"\.xml: its format must be \.html"):
        dpframe.report(found, tmp_path / "r.xml")
    with pytest.raises(DpframeError, match="not a complete output of dpframe score"):
        scores_document({**found, "rows": 7}, ".html")
