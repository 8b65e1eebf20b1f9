"""The page: whole and self-contained, readable without eyes or colours, proof against labels."""

from __future__ import annotations

import itertools
import re
from base64 import b64encode
from hashlib import sha256
from importlib import resources
from xml.etree import ElementTree

import pytest
from support import made_records
from support.html_pages import Page

from dpframe.errors import DpframeError
from dpframe.report import delivery, markdown
from dpframe.report.figures.drawing import DARK_SHADES, SHADE_COLORS, dark, named, ordered
from dpframe.report.html import document, harmless, pictures, summary
from dpframe.results.store import as_record


def page(cells, **changes):
    return document(as_record(made_records.record(cells, **changes)))


SCRIPT = (resources.files("dpframe.report") / "templates" / "cells.js").read_text("utf-8")
FIGURE_2 = as_record(made_records.figure_2())


@pytest.fixture(scope="module")
def figure_2():
    return document(FIGURE_2)


@pytest.fixture
def plain(monkeypatch):
    """Without figures, which take a second."""
    monkeypatch.setattr("dpframe.report.html.pictures", lambda record: ([], []))


def checked(html):
    found = Page(html)
    assert found.problems == []
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    for before, after in itertools.pairwise(found.headings):
        assert after <= before + 1
    for link in found.values("href") + found.values("xlink:href"):
        assert link.startswith("#")
        assert link[1:] in found.ids
    for name in found.values("aria-labelledby"):
        assert set(name.split()) <= found.ids
    assert found.tags["table"] == found.tags["caption"]
    assert all(a.get("scope") in ("col", "row") for tag, a in found.attributes if tag == "th")
    assert {"iframe", "object", "embed", "form", "img", "base"}.isdisjoint(found.tags)
    assert re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL) == [SCRIPT]
    assert found.tags["script"] == html.count("<script") == 1
    assert not [a for _, attributes in found.attributes for a in attributes if a[:2] == "on"]
    assert "private" not in found.text
    return found


def test_the_page_is_whole_and_gives_the_answer_first(figure_2):
    found = checked(figure_2)
    assert re.search(r"Audit dptext 119 of 252 claims violated, all expected; no viol", found.text)
    assert found.tags["main"] == found.tags["header"] == 1
    assert found.values("lang") == ["en"]
    assert found.tags["details"] == 252 + 8  # the cells, and the parts of the page
    assert figure_2.count("<details open") == 0
    assert len(figure_2.encode()) < 1_000_000
    shared = "Certified ε ÷ claimed ε (attack majority-vote, estimator precision)"
    for heading in (shared, "All cells", "Figures", "Methods", "Limits", "Spec"):
        assert heading in found.text


def test_what_is_not_folded_is_short(figure_2):
    page = re.sub(r"<script>.*</script>|<style>.*?</style>", "", figure_2, flags=re.DOTALL)
    assert len(Page(page.split("<details>")[0] + "</main></body></html>").text.split()) <= 1_600
    without_maps = re.sub(
        r'<div class="maps">.*?</div>', "", page.split("<details>")[0], flags=re.S
    )
    assert len(Page(without_maps).text.split()) <= 250


SOURCE = {
    "kind": "estimator",
    "name": "precision",
    "distribution": "dpframe",
    "version": "1",
    "code": "0",
    "reference": "[Key2020, theorem 4]",
}


@pytest.mark.usefixtures("plain")
def test_what_an_estimator_rests_on_is_named_and_old_records_name_nothing():
    named = made_records.record([made_records.cell()]) | {"plugins": [SOURCE]}
    assert "[Key2020, theorem 4]" in document(as_record(named))
    assert "rests on [Key2020, theorem 4]" in markdown.document(as_record(named)).replace("\\", "")
    old = {key: value for key, value in SOURCE.items() if key != "reference"}
    for plugins in ([old], [], [SOURCE | {"kind": "attack"}]):
        found = as_record(named | {"plugins": plugins})
        assert "[Key2020" not in document(found)
        assert "rests on" not in markdown.document(found)


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(figure_2):
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', figure_2)
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not re.search(r"@import|url\((?!#)|src=|http-equiv=\"refresh", figure_2)
    fetched = re.findall(r"https?://[^\s\"'<]+", figure_2)
    assert {link for link in fetched if not link.startswith("http://www.w3.org/")} == set()


def test_the_script_is_small_and_makes_no_markup_of_text():
    assert len(SCRIPT.encode()) <= 10_000
    ways = "innerHTML|insertAdjacent|document.write|eval|fetch|XMLHttp|import"
    assert not re.search(ways, SCRIPT)


def test_the_answer_comes_before_all_explanations(figure_2):
    text = Page(figure_2).text
    parts = ("claims violated", "Worst: ", "Certified ε ÷", "> 10 ×", "No violation")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert re.search(r"Worst: [^:]+: certified \S+ of claimed 0\.1\. Claim: pure-dp", text)
    assert "expectation" in text


def test_the_legend_has_the_swatches_that_occur(figure_2):
    drawn = set(re.findall(r'<td class="relative (\S+)">', figure_2))
    (key,) = re.findall(r'<ul class="key">(.*?)</ul>', figure_2, flags=re.DOTALL)
    assert set(re.findall(r'<span class="(\S+)">', key)) - {"sign"} == drawn
    assert 3 < len(drawn) < 8


def test_the_map_says_verdict_and_ratio_without_colours(figure_2):
    text = Page(figure_2).text
    assert "✗ violated" in text
    assert (
        "ε \\ dim 1 2 8 32 64 128 0.1 ○ no violation found 0.95 ○ no violation found 0.94" in text
    )
    assert figure_2.count('<table class="map">') == 6


HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=y>]]>{{7*7}}\x1b\u202e"


@pytest.mark.usefixtures("plain")
def test_no_text_gets_out_of_its_place():
    cell, failed = made_records.cell("dptext"), made_records.failed_cell(HOSTILE)
    for part in ("mechanism", "attack", "estimator"):
        cell[part] = {
            "use": HOSTILE,
            "label": f"javascript:{HOSTILE}",
            "params": {HOSTILE: HOSTILE},
        }
    cell["swept"] = {HOSTILE: HOSTILE}
    cell["estimate"] |= {"notes": [HOSTILE], "assumption": HOSTILE}
    found = made_records.record([cell, failed], name=HOSTILE)
    found["spec"] |= {"text": HOSTILE, "path": HOSTILE, "overrides": [HOSTILE]}
    found["environment"] |= {"platform": HOSTILE, "devices": [HOSTILE]}
    found["plugins"] = [
        {
            **dict.fromkeys(("name", "distribution", "version", "code", "reference"), HOSTILE),
            "kind": "estimator",
        }
    ]
    skip = dict.fromkeys(("mechanism", "pair", "attack", "estimator", "reason"), HOSTILE)
    found["skipped"] = [{**skip, "swept": {HOSTILE: 1}}]
    record = as_record(found)
    for html in (document(record), summary(record)):
        assert html.count("<script") == (html.startswith("<!DOCTYPE"))
        assert "<img" not in html
        assert "49" not in html.replace("0.49", "")[:2000]
        assert "\x1b" not in html
        assert "\u202e" not in html
        assert Page(html).problems == []
        assert not [a for _, given in Page(html).attributes for a in given if a[:2] == "on"]
    checked(document(record))
    assert "<script>alert(1)" in Page(document(record)).text


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("number", [2_500, 10_000])
def test_many_cells(number):
    cell = made_records.cell()
    places = [{"a": i % 100, "b": i // 100} for i in range(number)]
    cells = [cell | {"id": f"{i}", "swept": place} for i, place in enumerate(places)]
    cells[-1] |= {"verdict": "violated", "expected": None}
    html = page(cells)
    found = checked(html)
    assert len(html.encode()) < 5_000_000
    assert f"{number - 2_000} more cells are left out of this table" in found.text
    assert f"{number - 300} more cells are left out here" in found.text
    assert f'id="cell-{number - 1}"' in html  # mechanisms that need attention are kept
    assert f"1 of {number} claims violated" in found.text


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    "cells",
    [
        [],
        [made_records.failed_cell()],
        [made_records.estimate_only()],
        [made_records.cell() | {"claim": None, "verdict": None, "expected": None, "swept": {}}],
        [made_records.cell(repeat=repeat, shift=repeat) for repeat in (0, 1)],
        [made_records.cell() | {"swept": {"one": value}} for value in (1, "x", [2, 3], None)],
    ],
)
def test_odd_records(cells):
    found = checked(page(cells))
    assert "claim" in found.text


@pytest.mark.usefixtures("plain")
def test_what_is_not_as_expected_is_named():
    skip = dict.fromkeys(("mechanism", "pair", "attack", "estimator"), "s")
    skip |= {"swept": {}, "reason": "a decision is no score", "expected": "violated"}
    unmet = made_records.cell() | {"verdict": "inconclusive", "reason": "too few"}
    text = checked(page([unmet, made_records.failed_cell()], skipped=[skip])).text
    assert "Not as expected (1)" in text
    assert "expected violated, but skipped: a decision is no score" in text
    assert "Could not be run (1)" in text
    assert "▶ ? inconclusive" in text


def test_figures_are_drawings_and_are_missed_with_a_note(figure_2, monkeypatch):
    assert Page(figure_2).tags["svg"] > 0
    assert "No figures" not in figure_2

    def missing(record):
        raise DpframeError("figures need matplotlib")

    monkeypatch.setattr("dpframe.report.figures.kinds", missing)
    assert pictures(FIGURE_2) == ([], ["No figures: figures need matplotlib"])


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ('<path d="M0 0" style="fill: url(#a)"/><use href="#b"/>', True),
        ("<script>1</script>", False),
        ("<foreignObject/>", False),
        ('<path onclick="x"/>', False),
        ('<use href="https://a.b/c"/>', False),
        ('<path style="fill: url(http://a)"/>', False),
        ('<image href="#a"/>', False),
        ("<path", False),
        ("<style>@import 'x'</style>", False),
    ],
)
def test_a_drawing_that_could_do_something_is_left_out(inside, expected):
    assert harmless(f'<svg xmlns="http://www.w3.org/2000/svg">{inside}</svg>') == expected


def test_the_summary_for_notebooks():
    html = summary(as_record(made_records.figure_2()))
    assert Page(html).problems == []
    assert len(html) < 5_000
    assert "of 252 claims violated" in html
    assert "Meaning and limits" in html
    assert ElementTree.fromstring(html) is not None


def luminance(colour):
    levels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in levels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_enough_in_light_and_in_dark(figure_2):
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    schemes = re.findall(r":root \{(.*?)\}", figure_2, flags=re.DOTALL)[:4]
    shades = re.findall(r"background: var\(--([\w-]+)\); color: var\(--([\w-]+)\)", figure_2)
    assert len(shades) >= 6
    for mode in (0, 1):  # light and dark: those of shades and those of the page
        colours = dict(re.findall(r"--([\w-]+): (#\w{6})", schemes[mode] + schemes[mode + 2]))
        plain = itertools.product(
            ("page", "soft"), ("text", "faint", "link", "bad", "quiet", "open")
        )
        for ground, letters in [*shades, *plain]:
            assert contrast(colours[ground], colours[letters]) >= 4.5, (mode, ground, letters)


def test_every_line_of_a_figure_stands_out_in_the_dark():
    for style in (*map(named, range(6)), *(ordered(i, 6) for i in range(6))):
        assert contrast(dark(style.color), dark("#ffffff")) >= 4.2, style.color
    shown = [luminance(dark(ordered(i, 6).color)) for i in range(6)]
    assert shown == sorted(shown, reverse=True)  # the first is the strongest on either page


def test_the_map_has_the_colours_of_the_figure(figure_2):
    names = ("consistent-0", "consistent-1", "consistent-2", "violated-2", "violated-3")
    for part, colours in zip(figure_2.split("@media"), (SHADE_COLORS, DARK_SHADES), strict=False):
        found = dict(re.findall(r"--([\w-]+): (#\w{6})", part))
        assert tuple(map(found.get, names)) == colours
    assert tuple(map(dark, SHADE_COLORS)) == DARK_SHADES


def test_figures_follow_the_dark_page(figure_2):
    assert "@media screen and (prefers-color-scheme:dark){svg{fill:" in figure_2
    assert re.search('<path[^>]*style="fill: #ffffff"/>', figure_2) is None


def test_no_violation_found_is_never_green_which_is_read_as_fine(figure_2):
    found = re.findall(r"--quiet: (#\w{6})", figure_2)
    found += re.findall(r"--consistent-[12]: (#\w{6})", figure_2)
    assert len(found) == 6
    for colour in found:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        assert blue > green
        assert abs(red - green) < 32  # nor cyan


def test_every_word_of_the_tables_is_explained_and_counts_say_what_they_count(figure_2):
    text = Page(figure_2).text
    for word in ("claimed ε", "δ", "certified ε", "adjusted p", "Holm", "expectation"):
        assert f"<dt>{word}</dt>" in figure_2
    assert "make a cell, named mechanism · attack · estimator · setting" in " ".join(text.split())
    assert "by any event of its decisions" in text
    assert "nothing certified in any cell" in text
    plain = made_records.cell() | {"expected": None, "statistic": {"name": "DecisionCounts"}}
    alone = document(as_record(made_records.record([plain], multiplicity="none")))
    assert "<dt>expectation</dt>" not in alone
    assert "<dt>Holm</dt>" not in alone
    (zeros, ones), _ = plain["counts"]
    assert f"the attack guessed D {zeros:,} times, and D′ {ones:,} times" in Page(alone).text


def test_bounds_are_rounded_down_wherever_they_are_shown(figure_2):
    cells = made_records.figure_2()["cells"]
    body = figure_2.split('aria-label="Table of all cells"')[1].split("</table>")[0]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in body.split("<tr>")[2:]]
    junit = re.findall(r"Certified: ε ≥ (\S+) with", delivery.report_as(".xml", FIGURE_2))
    lines = delivery.report_as(".md", FIGURE_2).split("All 252 cells")[1].splitlines()
    markdown = [line.split(" | ")[6] for line in lines if re.match(r"\| [✗○]", line)]
    assert len(rows) == len(junit) == len(markdown) == len(cells)
    for cell, row, *others in zip(cells, rows, junit, markdown, strict=True):
        for shown in (row[6], *others):
            exact = cell["estimate"]["epsilon_lower"]
            assert 0.99 * exact <= float(shown) <= exact


@pytest.mark.usefixtures("plain")
def test_an_estimator_that_certifies_only_some_cells_is_not_said_to_certify_all():
    text = checked(page([made_records.cell(), made_records.estimate_only(epsilon=2.0)])).text
    assert "certifies a lower bound, valid at this number of draws in 1 of 2 cells" in text


def test_figures_that_would_make_the_page_too_large_are_left_out(monkeypatch):
    monkeypatch.setattr("dpframe.report.html.MOST_BYTES", 1_000)
    shown, notes = pictures(as_record(made_records.record([made_records.cell()])))
    assert shown == []
    assert all("for the page's size" in note for note in notes)
