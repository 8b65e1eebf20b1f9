"""Verdicts: Holm, resolution, and what trials could have shown."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpframe.results.model import Basis, CellRecord, ContrastRecord, EstimateRecord
from dpframe.results.verdict import at_delta, judged, rounded_down


def at(p: float, **changes: Any) -> CellRecord:
    """A cell with what a verdict is made of."""
    numbers: dict[str, Any] = {
        "p_resolved": p, "p_extreme": 1e-9, "p_extreme_resolved": 1e-9, "delta": 0.0, "upper": 1.2,
        "contrast": (0.0, 0.5, 1.0), "look": 1, "level": 0.0, "upper_of": None, **changes,
    }  # fmt: skip
    delta, lower, claimed = numbers["contrast"]
    basis = Basis(
        confidence=0.95,
        look=numbers["look"],
        p_resolved=numbers["p_resolved"],
        p_extreme=numbers["p_extreme"],
        p_extreme_resolved=numbers["p_extreme_resolved"],
        contrast=ContrastRecord(delta=delta, lower=lower, claimed=claimed),
    )
    estimate = EstimateRecord.model_construct(
        delta=numbers["delta"],
        confidence=1 - numbers["level"],
        epsilon_lower=0.5,
        epsilon_upper=numbers["upper"],
        epsilon_upper_of=numbers["upper_of"],
    )
    return CellRecord.model_construct(
        trials=[1000, 1000], p_value=p, estimate=estimate, basis=basis, counts=None, statistic={}
    )


def verdicts(cells: list[CellRecord], m: int | None = None, how: str = "holm") -> list[Any]:
    return [cell.verdict for cell in judged(cells, m or len(cells), how)]


def test_holm_adds_what_bonferroni_misses() -> None:
    cells = [at(0.001), at(0.02), at(0.03)]
    assert verdicts(cells) == ["violated", "violated", "violated"]
    assert verdicts(cells, how="bonferroni") == ["violated", "consistent", "consistent"]
    assert verdicts([at(0.04), at(0.04)], how="none") == ["violated", "violated"]
    assert verdicts([at(0.04), at(0.04)]) == ["consistent", "consistent"]


def test_failed_cells_stay_in_m() -> None:
    assert verdicts([at(0.02)], m=1) == ["violated"]
    assert verdicts([at(0.02)], m=3) == ["consistent"]


def test_the_reason_says_when_holm_adds_a_cell() -> None:
    plain = judged([at(0.001, contrast=(0.0, 1.3, 1.0))], 1, "holm")[0].reason
    added = judged([at(0.001, contrast=(0.0, 0.9, 1.0))], 1, "holm")[0].reason
    assert "certified above 1.3" in plain
    assert "step-down" in added


@pytest.mark.parametrize(
    ("bound", "text"), [(0.0, "0"), (1.23456, "1.234"), (5e-324, "4.941e-324"), (math.inf, "inf")]
)
def test_bounds_of_every_size_are_written(bound: float, text: str) -> None:
    assert rounded_down(bound) == text


def test_a_certified_bound_is_never_rounded_up() -> None:
    reason = judged([at(0.001, contrast=(0.0, 1.92885, 1.0))], 1, "holm")[0].reason
    assert reason.startswith("loss certified above 1.928 at")


def test_a_curve_names_the_delta_where_it_failed() -> None:
    reason = judged([at(0.001, delta=1e-5, contrast=(0.01, 1.3, 1.0))], 1, "holm")[0].reason
    assert reason == "loss certified above 1.3 at δ = 0.01, claimed 1"


def test_a_curve_rejected_as_a_whole_is_not_blamed_on_the_joint_test() -> None:
    """At the bound's own level, here 0.025, the step-down test has added nothing."""
    missed = {"delta": 1e-5, "contrast": (0.01, 0.9, 1.0), "level": 0.025}
    whole, added = judged([at(0.02, **missed), at(0.03, **missed)], 2, "holm")
    assert "curve as a whole" in whole.reason
    assert "δ = 0.01" in whole.reason
    assert "step-down" not in whole.reason
    assert "step-down" in added.reason


def test_consistent_never_reads_as_private_and_shows_the_interval() -> None:
    reason = judged([at(0.5)], 1, "holm")[0].reason
    assert reason.startswith("no violation found")
    assert "at least 0.5" in reason
    assert "at most 1.2" in reason
    assert "private" not in reason
    assert "without an upper limit" in judged([at(0.5, upper=math.inf)], 1, "holm")[0].reason


def test_the_reason_says_what_an_upper_limit_is_of() -> None:
    def reason(of: str | None) -> str:
        (judgement,) = judged([at(0.5, upper_of=of)], 1, "holm")
        return judgement.reason.removeprefix("no violation found; ")

    least = "this attack shows a loss of at least 0.5"
    assert reason("every event") == (
        f"{least} and at most 1.2 at δ = 0; another attack may show more"
    )
    assert reason("every cut") == (
        f"{least} at δ = 0, and no cut of its scores shows more than 1.2; another attack may show "
        "more"
    )
    assert reason("chosen thresholds") == (
        f"{least} at δ = 0, and at the chosen thresholds at most 1.2; another threshold or attack "
        "may show more"
    )
    assert reason(None) == reason("chosen thresholds")


def test_too_few_trials_are_inconclusive() -> None:
    judgement = judged([at(0.5, p_extreme=0.06, p_extreme_resolved=0.06)], 1, "holm")[0]
    assert judgement.verdict == "inconclusive"
    assert "1,000 trials" in judgement.reason
    assert "more trials" in judgement.reason


def test_trials_cannot_make_up_for_a_coarse_sampler() -> None:
    judgement = judged([at(0.5, p_extreme=1e-9, p_extreme_resolved=1.0)], 1, "holm")[0]
    assert judgement.verdict == "inconclusive"
    assert "float64" in judgement.reason


def test_a_second_look_pays() -> None:
    assert verdicts([at(0.02)]) == ["violated"]
    assert verdicts([at(0.02, look=2)]) == ["consistent"]
    assert judged([at(0.002, look=2)], 1, "holm")[0].p_adjusted == pytest.approx(0.012)


def test_the_extreme_is_tested_against_what_holm_leaves() -> None:
    """With one of two claims rejected, the other would have been tested at 0.05, not 0.025."""
    assert verdicts([at(0.001), at(0.5, p_extreme_resolved=0.04)]) == ["violated", "consistent"]
    assert verdicts([at(0.5), at(0.5, p_extreme_resolved=0.04)]) == ["consistent", "inconclusive"]


def test_events_below_the_sampler_decide_nothing() -> None:
    judgement = judged([at(0.001, p_resolved=0.3)], 1, "holm")[0]
    assert judgement.verdict == "inconclusive"
    assert "float64" in judgement.reason


def test_no_cells() -> None:
    assert judged([], 0, "holm") == []


def test_a_small_delta_is_named_as_in_reports():
    assert [at_delta(delta) for delta in (0.0, 0.01, 1e-5, 1.5e-10)] == [
        *("at δ = 0", "at δ = 0.01", "at δ = 1e-5", "at δ = 1.5e-10")
    ]
