"""Plots along the claimed curve: what they show, where they fit, and when there are none."""

import re

import numpy as np
import pytest
from support.tiers import mostly_slow

from dpframe import GaussianDP, LaplaceDP, SubsampledGaussianDP
from dpframe.report.terminal.plots import Curve, evidence
from dpframe.results.build import claim_record
from dpframe.stats.gaussian import gaussian_tradeoff

FPR = np.array([1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5])
"""Places of the certified bounds."""

BRAILLE = "[⠁-⣿]"


def curve_cell(records, use="laplace", *, mu=1.0, shown=1.2, claim=None, **place):
    """A cell that certifies points a little above the curve of `shown`-Gaussian DP."""
    claim = GaussianDP(mu) if claim is None else claim
    found = records.cell(use, trials=1_000_000, m=4, **place)
    points = [[float(x), float(y)] for x, y in zip(FPR, gaussian_tradeoff(FPR, shown), strict=True)]
    # Beyond them what another direction certified, which says nothing.
    points += [[0.1, 1.0], [1.0, 1.0]]
    found["claim"] = claim_record(claim, 1e-5).model_dump()
    loss = GaussianDP(shown).epsilon_at(1e-5)
    bounds = {"epsilon_lower": 0.97 * loss, "epsilon_upper": 1.03 * loss}
    found["estimate"] |= {"tradeoff": points, "delta": 1e-5, "epsilon": loss, **bounds}
    found["verdict"] = found["expected"] = "violated" if shown > mu else "consistent"
    return found


@pytest.fixture
def record(records):
    """A violation, and a subsampled Gaussian that is not one."""
    sampled = SubsampledGaussianDP(0.25, 0.3)
    good = curve_cell(records, "adept", mu=9, shown=0.2, claim=sampled)
    return records.record([curve_cell(records), good])


@pytest.mark.parametrize("width", [80, 160])
def test_plots_look_as_reviewed(record, show, golden, width):
    golden(f"curves-{width}.txt", show(record, width))


def test_plots_in_ascii_look_as_reviewed(record, show, golden):
    text = show(record, encoding="ascii")
    assert text.isascii()
    assert "?" not in text
    golden("curves-ascii.txt", text)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp437"])
@pytest.mark.parametrize("width", mostly_slow([80, 100, 103, 120, 160, 240], (0, 3)))
def test_no_line_is_wider_than_the_console(record, show, width, encoding):
    text = show(record, width, encoding=encoding)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("FPR  ") == (2 if width < 103 else 4)


def test_colours_are_those_of_the_rest(record, show):
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", show(record, colour=True)))
    assert codes <= {"0", "1", "2", "31", "1;31", "38;5;67", "1;38;5;67", "1;35", "35"}


def heights(lines, sign):
    """Rows from the top at which a panel has a sign, with the columns."""
    return [
        (row, match.start()) for row, line in enumerate(lines) for match in re.finditer(sign, line)
    ]


def panel(text, name):
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if f" {name} · " in line and "─" not in line)
    start = next(i for i in range(first, len(lines)) if lines[i].startswith("  1 │"))
    return [line[5:] for line in lines[start : start + 12]]


def test_points_of_a_violation_are_below_the_curve(records, show):
    """In its column each sign is lower than the curve, but for what one character spans."""
    text = show(records.record([curve_cell(records, shown=2.0)]))
    drawn = panel(text[text.index("Along") :], "laplace")
    signs = heights(drawn, "✗")
    assert len(signs) >= 5
    curve = {column: row for row, column in heights(drawn, BRAILLE)}
    below = [row > curve[column - 1] for row, column in signs if column - 1 in curve]
    assert any(below)
    assert all(row >= curve[column - 1] for row, column in signs if column - 1 in curve)


def test_points_that_keep_the_claim_are_not_below_it(records, show):
    text = show(records.record([curve_cell(records, shown=0.5)]))
    drawn = panel(text[text.index("Along") :], "laplace")
    curve = {column: row for row, column in reversed(heights(drawn, BRAILLE))}
    signs = [(row, column) for row, column in heights(drawn, "○") if column + 1 in curve]
    assert len(signs) >= 4
    assert all(row <= curve[column + 1] for row, column in signs)


def test_of_many_cells_those_with_most_against_their_claim(records, show):
    cells = [
        curve_cell(records, use, mu=1.0, shown=shown, epsilon=1.0, dim=1)
        for use, shown in zip(records.LABELS, (0.1, 0.9, 0.5, 1.5, 0.8, 1.2), strict=True)
    ]
    text = show(records.record(cells))
    drawn = text[text.index("Along the claimed curve") :].split("─" * 80)[0]
    assert "4 of 6 cells" in drawn
    named = re.findall(r"^[✗○] (.+?) · majority", drawn, re.MULTILINE)
    assert named == [list(records.LABELS.values())[i] for i in (1, 3, 4, 5)]


def test_of_repeats_one_is_drawn(records, show):
    cells = [curve_cell(records, shown=1 + i / 10, repeat=i) for i in range(5)]
    drawn = show(records.record(cells))
    assert drawn.count("claim gaussian-dp") == 1
    assert "repeat 4" in drawn


def test_the_title_says_at_which_delta(records, show):
    at = [curve_cell(records, epsilon=e, swept={"mechanism.epsilon": e}) for e in (0.5, 2.0)]
    assert "ε in nats at δ = 1e-5\n" in show(records.record(at), 120)
    at[0]["estimate"]["delta"] = 0.0
    assert "ε in nats at each cell's δ\n" in show(records.record(at), 120)
    assert " at δ" not in show(records.figure_2(), 120)


def test_swept_values_are_named(records, show):
    cells = [curve_cell(records, epsilon=e, swept={"mechanism.epsilon": e}) for e in (0.5, 2.0)]
    assert re.findall(r"precision · ε (\S+)", show(records.record(cells))) == ["0.5", "2"]


@pytest.mark.parametrize(
    "change",
    [
        lambda cell: cell["claim"].pop("tradeoff"),
        lambda cell: cell["claim"].update(tradeoff=None),
        lambda cell: cell.update(claim=None),
        lambda cell: cell["estimate"].update(tradeoff=[]),
        lambda cell: cell["estimate"].update(tradeoff=[[0.5, 0.6], [1.0, 1.0]]),
        lambda cell: cell["estimate"].update(certified=False),
        lambda cell: cell.update(status="failed", estimate=None, verdict=None),
    ],
)
def test_without_a_curve_or_points_there_is_no_plot(records, show, change):
    cell = curve_cell(records)
    change(cell)
    assert "Along the claimed curve" not in show(records.record([cell]))


def test_a_record_from_before_curves_looks_as_before(records, show):
    """Bounds, not the record's version, decide: nothing of a plot without claimed points."""
    assert "FPR" not in show(records.figure_2())


@pytest.mark.parametrize(
    "claim",
    [*map(GaussianDP, (0.05, 1.0, 6.0)), LaplaceDP(1.0), SubsampledGaussianDP(0.25, 0.3)],
)
def test_between_recorded_points_the_curve_is_the_claimed_one(claim):
    curve = Curve(tuple(map(tuple, claim_record(claim, 1e-5).tradeoff)))
    x = np.concatenate([[0.0], np.geomspace(1e-11, 0.1, 200), np.linspace(0.1, 1, 200)])
    drawn = np.array([curve.at(float(place)) for place in x])
    assert np.max(np.abs(drawn - claim.tradeoff(x))) < 0.01  # a quarter of a braille dot is 0.005
    assert np.all(np.diff(drawn) <= 1e-12)


def test_only_the_hull_of_the_points_is_kept(records):
    cell = curve_cell(records, shown=1.0)
    hull = evidence(records.typed(cell)).certified
    assert [x for x, _ in hull] == pytest.approx(list(FPR))
    cell["estimate"]["tradeoff"].append([0.2, 0.0])
    lower = evidence(records.typed(cell)).certified
    assert lower[-1] == (0.2, 0.0)
    assert all(x <= 0.2 for x, _ in lower)


def test_gap_counts_standard_deviations(records):
    """Points of μ′ against a claim of μ lie μ′ − μ below it, wherever they are."""
    above, below = (records.typed(curve_cell(records, mu=1.0, shown=mu)) for mu in (1.2, 0.7))
    assert evidence(above).gap == pytest.approx(0.2, abs=1e-3)
    assert evidence(below).gap == pytest.approx(-0.3, abs=1e-3)
