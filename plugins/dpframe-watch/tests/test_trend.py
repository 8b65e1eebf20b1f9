"""Charts of certified ε by version: heights are right, and gaps stay gaps."""

from xml.etree import ElementTree

import made
import pytest
from dpframe_watch.trend import BOTTOM, LEFT, MOST, RIGHT, TOP, Audited, trend
from test_watch import REPORT, page, watch


def audited(number, certified=0.5, claim=1.0, state="consistent"):
    return Audited(f"1.{number}", claim, certified, state, f"ε ≥ {certified}")


def test_heights_are_proportional_to_values():
    chart = trend("sum", [audited(0, 0.0), audited(1, 0.5), audited(2, 2.0, state="violated")])
    heights = [BOTTOM - mark.y for mark in chart.marks]
    assert heights[0] == 0
    assert heights[2] == pytest.approx(4 * heights[1], abs=0.5)
    ((*_, claim), *_) = chart.claims
    assert BOTTOM - claim == pytest.approx(2 * heights[1], abs=0.5)
    assert all(TOP <= mark.y <= BOTTOM and LEFT < mark.x < RIGHT for mark in chart.marks)
    assert chart.claim == (claim, "1")


def test_a_version_without_a_number_breaks_the_line():
    numbers = [0.1, 0.2, None, 0.3, None, 0.4, 0.5]
    chart = trend("sum", [audited(at, each) for at, each in enumerate(numbers)])
    assert [mark.y is None for mark in chart.marks] == [each is None for each in numbers]
    assert [len(points.split()) for points in chart.curves] == [2, 2]


def test_a_claim_that_changes_is_a_step():
    chart = trend("sum", [audited(0), audited(1, claim=None), audited(2, claim=2.0)])
    (first, end, high), (start, last, low) = chart.claims
    assert first < end < start < last
    assert high > low  # pixels are counted from above


@pytest.mark.parametrize("numbers", [[], [0.5], [None, 0.5, None], [float("inf"), 0.5]])
def test_fewer_than_two_numbers_have_no_chart(numbers):
    assert trend("sum", [audited(at, each) for at, each in enumerate(numbers)]) is None


def test_zeros_alone_have_a_chart():
    chart = trend("sum", [audited(0, 0.0, None), audited(1, 0.0, None)])
    assert [mark.y for mark in chart.marks] == [BOTTOM, BOTTOM]
    assert chart.claim is None


def test_only_the_newest_versions_are_drawn():
    chart = trend("sum", [audited(at) for at in range(MOST + 3)])
    assert (len(chart.marks), chart.left_out) == (MOST, 3)
    assert [text for *_, text in chart.labels] == ["1.3", f"1.{MOST + 2}"]


def charts_of(registry, out="site"):
    """Return the texts of the charts of a page, each of which is well-formed."""
    text = page(registry, out)
    found = [part.partition("</svg>")[0] + "</svg>" for part in text.split("<svg ")[1:]]
    for one in found:
        ElementTree.fromstring(f"<svg {one}")
    return found


def test_the_site_shows_a_trend_but_no_withheld_violation(tmp_path, pretended):
    versions = '["1.0", "2.0", "3.0"]'
    pretended.says["2.0"] = "no wheel"
    registry = made.write_registry(tmp_path, versions, more=REPORT)
    watch(registry)
    (chart,) = charts_of(registry)
    assert chart.count('class="cross"') == chart.count('class="dot"') == 1
    assert chart.count('class="gap"') == 1
    assert "2.0: could not be audited" in chart
    registry.write_text(registry.read_text().replace(REPORT, ""))
    watch(registry, "withheld")
    assert not charts_of(registry, "withheld")  # one number is left
    watch(registry, "private", "--private")
    assert len(charts_of(registry, "private")) == 1
