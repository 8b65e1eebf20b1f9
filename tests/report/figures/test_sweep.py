"""Loss against the swept parameter: what stands where, and how lines are told apart."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
from matplotlib.colors import to_rgb
from support import SPECS, made_records
from support.vote_closed_forms import exact_loss

from dpframe.errors import DpframeError
from dpframe.interfaces import registry
from dpframe.report import figures
from dpframe.report.figures import drawing as style
from dpframe.report.figures.points import Published
from dpframe.report.figures.scales import scale
from dpframe.results.store import as_record
from dpframe.spec import load_audit


def legend(picture):
    return [text.get_text() for text in picture.legends[0].get_texts()]


def grey(color):
    red, green, blue = to_rgb(color)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_lines_differ_in_marker_and_those_in_order_in_grey():
    looks = [style.ordered(i, 6) for i in range(6)]
    shades = [grey(look.color) for look in looks]
    assert all(b - a > 0.06 for a, b in itertools.pairwise(shades))
    assert max(shades) < 0.75  # a thin line on white paper
    for found in (looks, [style.named(i) for i in range(6)]):
        assert len({look.marker for look in found}) == 6
        assert len({str(look.dashes) for look in found}) == 6


def test_infinite_and_tiny_losses_have_bands_of_their_own():
    scaled = scale([math.inf, 0.0, 1e-5, 0.5, 9.0], [0.1, 10.0])
    low, high = scaled.limits
    assert scaled.log
    assert scaled.infinite
    assert scaled.tiny
    assert scaled.high < scaled.place(math.inf) < high
    assert low < scaled.place(0.0) == scaled.place(1e-5) < scaled.low
    assert scaled.place(0.5) == 0.5
    assert not scale([0.5, 1.0]).log
    assert scale([math.nan]).limits


def test_lines_that_hide_each_other_are_named(small):
    def named(record):
        (ax,) = figures.draw(record, "sweep", where={"mechanism": "adept"}).axes
        return [text.get_text() for text in ax.texts]

    assert named(small) == []  # dim 1 and 8 lie apart
    cells = []
    for cell in small.cells:
        at_eight = cell.swept["pair.dim"] == 8
        same = cell.estimate.model_copy(update={"epsilon": 1.005 if at_eight else 1.0})
        cells.append(cell.model_copy(update={"estimate": same}))
    assert named(small.model_copy(update={"cells": cells})) == ["both coincide"]


def test_grey_means_certified_alone(small):
    (ax,) = figures.draw(small, "sweep", where={"mechanism": "adept"}).axes
    filled = [*ax.collections, *ax.patches]
    assert [to_rgb(one.get_facecolor()[0]) for one in filled] == [to_rgb(style.FAINT)]


def test_the_certified_band_ends_at_the_largest_bound(small):
    record = figures.draw(small, "sweep", where={"mechanism": "adept"})
    (ax,) = record.axes
    (band,) = [c for c in ax.collections if c.get_zorder() == 1]
    bounds = [
        max(
            c.estimate.epsilon_lower
            for c in small.cells
            if c.mechanism.label == "adept" and c.swept["mechanism.epsilon"] == e
        )
        for e in (0.1, 1.0, 10.0)
    ]
    tops = sorted({round(y, 9) for y in band.get_paths()[0].vertices[:, 1]})[1:]
    assert tops == pytest.approx(sorted(bounds), rel=1e-6)


def test_estimates_alone_are_never_drawn_as_bounds():
    cells = [made_records.estimate_only(epsilon=e, dim=d) for e in (1.0, 2.0) for d in (1, 2)]
    record = as_record(made_records.record(cells, m=0))
    picture = figures.draw(record, "sweep")
    assert not any("certified" in text for text in legend(picture))
    assert not [c for ax in picture.axes for c in ax.collections if c.get_zorder() == 1]
    assert "Estimates only: nothing here is certified." in picture.caption
    reason = figures.kinds(record)["heat-map"]
    assert reason == "none of its cells has a claim and a certified bound"


def test_the_legend_names_what_is_claimed_certified_and_estimated(small):
    said = legend(figures.draw(small, "sweep"))
    assert "claimed" in said
    assert "largest certified bound" in said
    assert "estimate; no violation found" in said
    assert "estimate; violated" in said


def test_mechanisms_can_share_a_panel(small):
    picture = figures.draw(small, "sweep", panels=[["laplace", "DPText, NaN to zero"], ["adept"]])
    titles = [ax.get_title(loc="left") for ax in picture.axes]
    assert titles == ["laplace, DPText, NaN to zero", "adept"]
    long = [["laplace", "adept", "DPText, NaN to zero"]]
    (ax,) = figures.draw(small, "sweep", panels=long).axes
    assert ax.get_title(loc="left") == "laplace, adept, DPText… zero"


def test_a_claim_of_one_release_is_not_laid_beside_the_loss_of_many():
    cells = []
    for count in (1, 10, 100):
        cell = made_records.estimate_only(epsilon=1.0)
        cell["estimator"] = cell["estimator"] | {"params": {"compositions": count}}
        cell |= {"swept": {"estimator.compositions": count}, "id": str(count)}
        cells.append(cell)
    (ax,) = figures.draw(as_record(made_records.record(cells, m=0)), "sweep").axes
    (claimed,) = [line for line in ax.lines if line.get_linewidth() == 1.6]
    assert list(claimed.get_xdata()) == [1.0]


def test_of_replicates_the_worst_is_shown_as_in_the_map_of_the_page():
    cells = [
        made_records.cell(epsilon=e, repeat=r, shift=40_000 * r) for e in (1.0, 2.0) for r in (0, 1)
    ]
    record = as_record(made_records.record(cells))
    picture = figures.draw(record, "heat-map")
    shown = [text.get_text() for text in picture.axes[0].texts]
    worst = max(c.estimate.epsilon_lower for c in record.cells if c.claim.epsilon == 1.0)
    assert float(shown[0]) == pytest.approx(worst, abs=0.002)
    assert "Of repeats, the worst." in picture.caption
    assert "Means of 2 repeats" in figures.draw(record, "sweep").caption


TABLE = "mechanism,mechanism.epsilon,pair.dim,epsilon\nadept,0.1,1,0.095\nadept,1,8,inf\n"


def test_published_numbers_are_crosses_where_they_belong(small):
    table = Published(TABLE, "table.csv")
    picture = figures.draw(small, "sweep", where={"mechanism": "adept"}, beside=table)
    (ax,) = picture.axes
    (crosses,) = [line for line in ax.lines if line.get_marker() == "+"]
    assert list(crosses.get_xdata()) == [0.1, 1.0]
    at = dict(zip(crosses.get_xdata(), crosses.get_ydata(), strict=True))
    assert at[0.1] == 0.095
    assert at[1.0] > 10
    assert "as table.csv has it" in legend(picture)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mechanism\nadept\n", "no column epsilon"),
        ("", "no column mechanism and no column epsilon"),
        ("# only, words\n", "no column mechanism and no column epsilon"),
        ("# from a paper\nmechanism,epsilon\nadept,x\n", "t.csv:3: epsilon is 'x'"),
        ("mechanism,epsilon\nadept,much\n", r"t.csv:2: epsilon is 'much'"),
        ("mechanism,epsilon\nadept\n", r"t.csv:2: epsilon is None"),
        ("mechanism,epsilon\nadept,-1\n", "must be a loss"),
        ("mechanism,epsilon\nnobody,1\n", "none of its rows belongs to a cell"),
        ("mechanism,dim,epsilon\nadept,1,1\n", "none of its rows belongs to a cell"),
    ],
)
def test_a_table_of_something_else_is_refused(small, text, said):
    with pytest.raises(DpframeError, match=said):
        figures.draw(small, "sweep", beside=Published(text, "t.csv"))


def test_the_published_table_is_about_every_cell_of_the_figure():
    """A copy that mistook a name, a row or a column would be far from the exact losses."""
    table = Published((SPECS / "published" / "dptext-figure-2.csv").read_text("utf-8"), "t.csv")
    cells = load_audit(SPECS / "dptext.toml", registry=registry.load()).cells
    for cell in cells:
        use, epsilon, dim = (
            cell.mechanism.use,
            cell.mechanism.value.epsilon,
            cell.pair.value.dim,
        )
        exact = exact_loss("dptext-zero" if use == "dptext" else use, epsilon, dim)
        found = table.of(SimpleNamespace(mechanism=cell.mechanism, swept=dict(cell.swept)))
        if found == math.inf:  # a zero count, which the table means by it
            assert exact > 12
        else:  # ten million trials, or one million where dim is large
            assert found == pytest.approx(exact, rel=0.05, abs=0.008), cell.id
