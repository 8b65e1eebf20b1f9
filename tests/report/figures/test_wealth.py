"""The growth of evidence, as a figure: read from the record, and from nothing else."""

import math

import numpy as np
import pytest
from support import made_records

import dpframe
from dpframe.report import figures, html
from dpframe.report.figures import comparison
from dpframe.results.store import as_record


def bet(use, *earned, look=1, verdict="consistent", **place):
    """A cell that bet in rounds of 64, 128, 256, … draws."""
    cell = made_records.cell(use, m=7, **place)
    cell["estimate"] |= {"wealth": [[64 << n, y] for n, y in enumerate(earned)], "anytime": True}
    zeros = dict.fromkeys(("p_resolved", "p_extreme", "p_extreme_resolved"), 1.0)
    contrast = {"delta": 0.0, "lower": 0.0, "claimed": 1.0}
    basis = {"confidence": 0.95, "look": look, "contrast": contrast, **zeros}
    return cell | {"looks": None, "verdict": verdict, "basis": basis}


def drawn(cells, **of):
    record = as_record(made_records.record(cells, m=7, **of))
    picture = figures.draw(record, "wealth")
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    return picture, said


def test_lines_are_the_wealth_and_the_level_is_the_share_of_the_error():
    cells = [bet("laplace", 0.0, -1.0, 0.5), bet("adept", 0.0, 3.0, 11.0, verdict="violated")]
    picture, said = drawn(cells)
    level = math.log(7 / 0.05)
    assert said == [
        "laplace: consistent",
        "adept: violated",
        f"where the claim is refuted: {level:.3g}",
    ]
    (ax,) = picture.axes
    assert ax.get_xscale() == "log"
    lines = [line for line in ax.lines if len(line.get_xdata()) == 3]
    assert [list(line.get_xdata()) for line in lines] == [[64, 128, 256]] * 2
    assert [list(line.get_ydata()) for line in lines] == [[0.0, -1.0, 0.5], [0.0, 3.0, 11.0]]
    (dotted,) = [line for line in ax.lines if list(line.get_ydata()) == [level] * 2]
    assert dotted.get_xdata()[0] == 0
    assert "another attack may show more" in picture.caption


def test_a_further_look_needs_more():
    _, said = drawn([bet("laplace", 0.0, 1.0), bet("adept", 0.0, 1.0, look=2)])
    assert said[-1] == f"where the claim is refuted: {math.log(140):.3g} or {math.log(840):.3g}"


def test_of_many_lines_those_that_earned_most():
    cells = [bet("laplace", 0.0, float(n), epsilon=float(n + 1)) for n in range(41)]
    picture, said = drawn(cells)
    kept = [float(name.split(":")[0].split()[-1]) for name in said[:-1]]
    assert kept == [36.0, 37.0, 38.0, 39.0, 40.0, 41.0]
    assert "35 more cells are left out" in picture.caption


def test_what_is_far_below_does_not_hide_what_is_above():
    picture, _ = drawn([bet("laplace", 0.0, -4000.0), bet("adept", 0.0, 9.0)])
    low, high = picture.axes[0].get_ylim()
    assert -11 < low < 0
    assert high > 9


def test_what_did_not_bet_is_not_drawn(small):
    assert "no cell has bets" in figures.kinds(small)["wealth"]
    lone = as_record(made_records.record([bet("laplace", 0.0)], m=7))
    assert "no cell has bets" in figures.kinds(lone)["wealth"]
    assert comparison.needed(small) > 0


@pytest.mark.parametrize("count", [1, 6])
def test_lines_differ_by_more_than_colour(count):
    picture, _ = drawn([bet("laplace", 0.0, float(n), dim=n + 1) for n in range(count)])
    lines = [line for line in picture.axes[0].lines if len(np.atleast_1d(line.get_xdata())) == 2]
    looks = {line.get_linestyle() + str(line._unscaled_dash_pattern) for line in lines[:-1]}
    assert len(looks) == count


@pytest.fixture(scope="module")
def canaries():
    """An answer about canaries without bets on steps."""
    rng = np.random.default_rng(0)
    members = rng.random(60) < 0.5
    return dpframe.score_one_run(members + rng.normal(size=60), members, lower_is_member=False)


def with_bets(found, **changed):
    wealth = [[1, 0.1], [4, 3.2], [7, 2.0]]
    bets = {"steps": 7, "sigma": [1.0, 1.0], "confidence": 0.95, "p_value": math.exp(-3.2)}
    bets |= {"refuted_at": 4, "largest": 3.2, "others": 0.04, "wealth": wealth}
    return type(found)(found | {"step_bets": bets | changed})


def test_bets_on_the_steps_of_a_training_are_drawn_with_the_level_that_refutes(canaries):
    picture = dpframe.plot(with_bets(canaries), "wealth")
    (ax,) = picture.axes
    line = ax.lines[0]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 4, 7], [0.1, 3.2, 2.0])
    assert ax.get_xlabel() == "steps"
    shown = [text.get_text() for text in picture.legends[0].get_texts()]
    assert shown == ["noise of the steps: violated", "where the claim is refuted: 3"]
    assert "after 4 of 7 steps, at 95 % by itself" in picture.caption
    assert figures.score_kinds(with_bets(canaries)) == {"roc": None, "wealth": None}


def test_without_bets_on_steps_no_wealth_is_drawn(canaries):
    assert "no bets on steps" in figures.score_kinds(canaries)["wealth"]
    for found in (canaries, with_bets(canaries, wealth=[[1, 0.0]])):
        with pytest.raises(dpframe.DpframeError, match="no bets on steps"):
            dpframe.plot(found, "wealth")


def test_the_report_states_the_noise_as_refuted_or_not_and_what_hides_faults(canaries):
    refuted = " ".join(str(with_bets(canaries)).split())
    assert "✗ Bets refute the stated noise (σ = 1, in units of" in refuted
    assert "Largest wealth: 24.5. Other records add 0.04 σ in the directions of canaries" in refuted
    kept = with_bets(canaries, refuted_at=None, largest=-0.5, others=0.3, sigma=[0.8, 1.0])
    line = " ".join(str(kept).split())
    assert "Bets on 7 steps do not refute the stated noise (σ = 0.8 to 1, in units of" in line
    assert "largest wealth 0.606; 20 would refute it at 95 %." in line
    assert "Other records add 0.3 σ in the directions of canaries, which can hide faults" in line
    page = html.scores_page(with_bets(canaries))
    assert "Bets refute the stated noise" in page
    assert page.count("<figure>") == 2
    assert html.scores_page(canaries).count("<figure>") == 1
    assert "Other records" not in str(with_bets(canaries, others=None))
    assert "Bets on" not in str(canaries)


def test_what_a_plugin_states_beside_the_bound_follows_the_rates(canaries):
    shown = str(type(canaries)(canaries | {"beside": ["Exposure: 3 bits, no bound."]}))
    assert (
        shown.index("AUC") < shown.index("Exposure: 3 bits, no bound.") < shown.index("Direction")
    )
