"""Certificates of bets, and of extreme counts of another design."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certify_support.certificates import (
    MOST,
    STRONG,
    WEAK,
    Curved,
    checked,
    code_of_bets,
    of_bets,
    scaled,
    spec,
    tangents,
)
from dpframe_certify import certificate

import dpframe
from dpframe import ApproxDP, GaussianDP
from dpframe.stats.output_bets import largest_sum, largest_sum_of_line


def test_bets_by_hand(tmp_path: Path) -> None:
    assert code_of_bets(tmp_path, of_bets("violated", STRONG)) == 0
    assert code_of_bets(tmp_path, of_bets("consistent", STRONG)) == 1
    assert code_of_bets(tmp_path, of_bets("consistent", WEAK)) == 0
    assert code_of_bets(tmp_path, of_bets("violated", WEAK)) == 1


def test_bets_whose_draws_differ_are_refused(tmp_path: Path) -> None:
    """Each of them would be right alone."""
    against_bound = scaled([0, 0, 1, 240, 10, 0.84, 0.16], 1.2)
    more = scaled([0, 0, 1, 250, 10, 0.84, 0.16], 1.2)
    other_way = scaled([2, 1, 1, 190, 0, 0.8, 0.2], 1.0)
    assert code_of_bets(tmp_path, of_bets("violated", STRONG + against_bound, 1.2)) == 0
    for terms, bound in ((STRONG + more, 1.2), (WEAK + other_way, 0.0)):
        verdict = "violated" if bound else "consistent"
        assert code_of_bets(tmp_path, of_bets(verdict, terms, bound)) == 1
    both = STRONG + scaled([2, 1, 2, 60, 0, 0.8, 0.2], 1.0)
    assert code_of_bets(tmp_path, of_bets("violated", both)) == 1  # 310 draws of 300


def test_a_bound_above_the_claim_is_not_consistent(tmp_path: Path) -> None:
    nothing = scaled([2, 0, 1, 240, 10, 0.49, 0.51], 1.0)
    against_bound = scaled([0, 0, 1, 240, 10, 0.84, 0.16], 1.2)
    assert code_of_bets(tmp_path, of_bets("consistent", nothing)) == 0
    assert code_of_bets(tmp_path, of_bets("consistent", nothing + against_bound, 1.2)) == 1


def test_extreme_counts_of_another_theorem_are_refused(tmp_path: Path) -> None:
    few = scaled([2, 0, 1, 2, 0, 0.9, 0.1], 1.0)
    one = of_bets("consistent", few)
    one["basis"]["extreme"]["terms"] = few
    assert code_of_bets(tmp_path, one) == 1
    assert code_of_bets(tmp_path, {**one, "verdict": "inconclusive"}) == 0
    one["basis"]["extreme"] = {"theorem": "one-run", "terms": [[1000, 1000, 1000, 0, 1.0]]}
    assert code_of_bets(tmp_path, one) == 1


@pytest.mark.parametrize(
    ("theorem", "trials", "terms", "most", "more"),
    [
        ("total-variation", 100, [50, 100, 50, 100, 200], [0, 100, 100, 100, 200], (4, 1)),
        ("one-run", 1, [1000, 4, 2, 0, 1.0], [1000, 4, 4, 0, 1.0], (1, 100)),
        ("one-run", 1, [1000, 4, 2, 0, 0.5], [1000, 4, 4, 0, 0.5], (4, 1.0)),
        ("one-run", 1, [1000, 8, 4, 0, 1.0], [1000, 8, 8, 0, 1.0], (0, 8)),
        ("one-run", 1, [1000, 4, 2, 2, 1.0], [1000, 4, 44, 2, 1.0], (3, 4)),
        ("clopper-pearson", 12, [6, 12, 6, 12, 0.5], [0, 12, 0, 12, 0.5], (4, 1.0)),
        ("clopper-pearson", 13, [6, 13, 7, 13, 0.5], [0, 13, 0, 13, 0.5], (4, 1.0)),
        ("joint", 8, [4, 8, 4, 8, 0.7, 0.5], [0, 8, 8, 8, 0.7, 0.5], (5, 1.0)),
        ("joint", 9, [4, 9, 5, 9, 0.98, 1.0], [0, 9, 9, 9, 0.98, 1.0], (4, 0.7)),
    ],
)
def test_extreme_counts_of_another_design_are_refused(
    tmp_path: Path, theorem: str, trials: int, terms: Any, most: Any, more: tuple[int, Any]
) -> None:
    """Fewer bins, more guesses or a larger share could make any audit consistent."""
    parts = {"joint": 1, "total-variation": 1}.get(theorem, round(1 / terms[-1]))
    one = of_bets("inconclusive", [])
    one["trials"] = [trials, trials]
    one["estimate"]["evidence"] = {"theorem": theorem, "terms": [terms] * parts}
    if theorem == "joint":
        one["estimate"]["evidence"]["design"] = [[0, trials, *terms[3:]]]
    one["basis"]["extreme"] = {"theorem": theorem, "terms": [most] * parts}
    assert code_of_bets(tmp_path, one) == 0
    assert code_of_bets(tmp_path, {**one, "verdict": "consistent"}) == 1
    one["basis"]["extreme"]["terms"] = [most := [*most]]
    place, value = more
    most[place] = value
    if theorem.startswith("one-run"):
        most[2] = most[1]
    for verdict in ("inconclusive", "consistent"):
        assert code_of_bets(tmp_path, {**one, "verdict": verdict}) == 1


@pytest.mark.parametrize("share", [0.4, 0.6, 1.0])
def test_extreme_bets_have_the_shares_of_the_run(tmp_path: Path, share: float) -> None:
    one = of_bets("consistent", WEAK + [[*row[:1], 1, *row[2:]] for row in WEAK])
    assert code_of_bets(tmp_path, one) == 0
    one["basis"]["extreme"]["terms"] = [[*row[:-1], share] for row in MOST]
    assert code_of_bets(tmp_path, one) == 1


def test_parts_of_the_error_that_no_event_had_may_be_those_of_extreme_counts(
    tmp_path: Path,
) -> None:
    """Evidence lists the events that say most, and extreme counts have others."""
    one = of_bets("consistent", [])
    one["estimate"]["evidence"] = {
        **{"theorem": "joint", "terms": [[150, 300, 150, 300, 0.7, 0.6]]},
        "design": [[151, 300, 300, 0.7, 0.6], [1, 300, 300, 0.9, 0.4]],
    }
    extreme = one["basis"]["extreme"] = {
        "theorem": "joint",
        "terms": [[0, 300, 300, 300, 0.9, 0.4]],
    }
    assert code_of_bets(tmp_path, one) == 0
    extreme["terms"][0][-1] = 0.41
    assert code_of_bets(tmp_path, one) == 1


def test_a_conclusion_that_is_listed_again_raises_no_level(tmp_path: Path) -> None:
    strong = of_bets("violated", STRONG, confidence=0.975)
    rest = of_bets("consistent", WEAK, name="other", confidence=0.975)
    assert code_of_bets(tmp_path, strong, rest) == 0
    assert code_of_bets(tmp_path, strong, strong, rest) == 1


def test_a_wealth_beyond_all_numbers_is_enough(tmp_path: Path) -> None:
    draws = 10**7
    one = of_bets("violated", scaled([2, 0, 1, draws, 0, 0.99, 0.01], 1.0))
    assert code_of_bets(tmp_path, {**one, "trials": [draws, draws]}) == 0


def test_bets_against_a_curve_are_those_of_its_p_value() -> None:
    said = spec({"use": "certified-betting"}, trials=2000, delta=1e-3)
    said["mechanism"] = [{"use": "curved", "params": {"noise": 0.7}}]
    record = dpframe.audit(said, plugins=[Curved])
    (cell,) = record.cells
    assert cell.verdict == "violated"
    contents = certificate(record)
    assert checked(contents) == {}
    claim = contents["conclusions"][0]["claim"]["parameters"]
    claim["mu"] = 0.9  # a stronger claim: they would bet too little
    with pytest.raises(ValueError, match="not at S = 2"):
        checked(contents)
    claim["mu"] = 1.02  # a weaker one: they could gain under it
    with pytest.raises(ValueError, match="not at S = 2"):
        checked(contents)
    wealth = [0.0, 0.0]
    for against, way, _, k, k_true, g, h, _ in cell.estimate.evidence.terms:
        wealth[way] += (against == 2) * (k * math.log(g) + k_true * math.log(h))
    assert np.logaddexp(*wealth) - math.log(2) == pytest.approx(-math.log(cell.basis.p_resolved))


@pytest.mark.parametrize("raised", [0.0, 0.01])
@pytest.mark.parametrize("claim", [ApproxDP(1.0, 0.01), GaussianDP(1.0)])
def test_bets_that_gain_under_the_claim_are_refused(
    tmp_path: Path, claim: Any, raised: float
) -> None:
    """Random weights at S = 2, by dpframe's arithmetic, and a thousandth more."""
    rng = np.random.default_rng(3)
    for _ in range(3):
        share = np.sort(rng.random(5))
        g, h = share**0.6, (1 - share) ** 0.6
        half = largest_sum(g, h, tangents(claim, raised).pair) / 2
        if isinstance(claim, ApproxDP):
            assert half == pytest.approx(
                largest_sum_of_line(g, h, np.exp(1.0), np.array(0.01 + raised * (1 + math.e))) / 2,
                rel=1e-9,
            )
        for times, right in ((1 - 1e-10, True), (1.001, False)):
            rows = zip(g / half * times, h / half * times, strict=True)
            terms = [[2, 0, 1, 3, 3, float(x), float(y), 0.5] for x, y in rows]
            one = of_bets("inconclusive", terms)
            one["claim"].update(kind=claim.kind, parameters=claim.parameters())
            one["basis"] = {
                **one["basis"],
                "resolution": raised,
                "extreme": one["estimate"]["evidence"],
            }
            assert (code_of_bets(tmp_path, one) == 0) == right


def test_shares_of_the_wealth_are_at_most_all_of_it(tmp_path: Path) -> None:
    terms = STRONG + [[*row[:1], 1, *row[2:]] for row in STRONG]
    assert code_of_bets(tmp_path, of_bets("violated", terms)) == 0
    more = [[*row[:-1], 0.6] if row[1] else row for row in terms]
    assert code_of_bets(tmp_path, of_bets("violated", more)) == 1
    two = [*terms[:1], [*terms[1][:-1], 0.4], *terms[2:]]
    assert code_of_bets(tmp_path, of_bets("violated", two)) == 1
