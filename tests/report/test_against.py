"""Empirical against claimed ε, as a small plot."""

import re

import pytest
from support.tiers import mostly_slow

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def plot(text, name):
    """The rows of one plot from the top, without its axes."""
    lines = text.partition("Empirical ε, up")[2].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(name))
    return [line[8:40] for line in lines[start + 1 : start + 9]], lines[start + 1 : start + 9]


def record_of(records, values):
    cells = [records.cell("laplace", epsilon, 1) for epsilon in EPSILONS]
    for cell, value in zip(cells, values, strict=True):
        cell["swept"] = {"mechanism.epsilon": cell["claim"]["epsilon"]}
        cell["estimate"]["epsilon"] = value
    return records.record(cells)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_more_than_claimed_is_above_the_dots(records, show, factor):
    drawn, _ = plot(show(record_of(records, [factor * e for e in EPSILONS])), "laplace")
    signs = {m.start(): row for row, line in enumerate(drawn) for m in re.finditer("○", line)}
    dots = {m.start(): row for row, line in enumerate(drawn) for m in re.finditer("·", line)}
    near = {place: dots.get(place + 1, dots.get(place - 1)) for place in signs}
    compared = [(signs[place], dot) for place, dot in near.items() if dot is not None]
    assert len(compared) >= 4
    assert all(sign < dot if factor > 1 else sign > dot for sign, dot in compared)


def test_what_has_no_place_on_the_axis_has_a_row_of_its_own(records, show):
    values = ["inf", 0.2, 0.5, 1.0, 2.0, 5.0, 0.0]
    drawn, lines = plot(show(record_of(records, values)), "laplace")
    assert "∞ │○" in lines[0]
    assert drawn[0].count("○") == 1
    assert "less │" in lines[-1]
    assert drawn[-1].count("○") == 1
    text = show(record_of(records, EPSILONS))
    assert "less" not in text
    assert "∞" not in text


def test_one_or_two_claims_make_no_curve(records, show):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in (1, 2, 8)]
    assert "Empirical ε, up" not in show(records.record(cells))
    cells += [records.cell("laplace", 10.0, d) for d in (1, 2, 8)]
    assert "Empirical ε, up" in show(records.record(cells))
    assert "Empirical ε, up" not in show(records.record(cells), numbers=False)


def test_without_claims_or_estimates_nothing_is_drawn(records, show):
    cells = [records.cell("laplace", e, 1, claim=None, verdict=None) for e in EPSILONS]
    assert "Empirical ε, up" not in show(records.record(cells, m=0))
    cells = [records.failed_cell(epsilon=e) for e in EPSILONS]
    assert "Empirical ε, up" not in show(records.record(cells))


@pytest.mark.parametrize("width", mostly_slow([20, 23, 24, 53, 80, 160], (0, 2, 4)))
def test_plots_stand_beside_each_other_where_there_is_room(records, show, width):
    text = show(records.figure_2(), width)
    assert max(map(len, text.splitlines())) <= width
    assert ("Empirical ε, up" in " ".join(text.split())) == (width >= 24)
