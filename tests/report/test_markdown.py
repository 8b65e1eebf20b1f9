"""Markdown, read by a parser that is not ours: the verdict first, nothing that labels could do."""

from __future__ import annotations

import inspect
import re

from markdown_it import MarkdownIt
from support import made_records

from dpframe.report.markdown import MOST_BYTES, document
from dpframe.results.store import as_record

HOSTILE = (
    "<script>alert(1)</script> | ![x](http://a.b) `q` **b** @team #12 www.a.b ]]> \x1b\u202e\n# h"
)


def page(cells, most=MOST_BYTES, **changes):
    return document(as_record(made_records.record(cells, **changes)), most)


def rendered(text):
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)


def test_the_verdict_comes_first_then_each_worst_cell_then_what_is_violated():
    text = page(made_records.figure_2()["cells"])
    title, verdict, *_ = text.split("\n\n")
    assert title == "# dptext"
    assert re.match(
        r"\*\*\d+ of 252 claims violated, all expected; no violation found for", verdict
    )
    assert "a stronger attack may" in text.split("<details>")[0]
    overview, violated, every = (
        part.count("\n| ") for part in re.split("## Viol|<details>", text)[:3]
    )
    assert overview == 2 + len(made_records.LABELS)
    assert 2 < violated < every == 2 + 252
    assert "| DPText, NaN to zero | ✗ 42 violated | certified" in text


def test_the_worst_cell_of_a_mechanism_is_that_with_the_largest_bound_beside_its_claim():
    text = page([made_records.cell("adept", e, 2) for e in (10.0, 0.5, 1.0)])
    (row,) = re.findall(r"^\| adept \|.*$", text, flags=re.MULTILINE)[:1]
    assert "of claimed 0.5, at ε 0.5" in row


def test_tables_are_tables_and_parts_fold():
    html = rendered(page(made_records.figure_2()["cells"]))
    assert html.count("<table>") == 3
    assert html.count("<tr>") == html.count("</tr>") > 252
    assert html.count("<details>") == html.count("</details>") == 4
    assert '<code class="language-toml">' in html


def test_labels_are_shown_and_do_nothing():
    cell = made_records.cell("adept", 1.0, 2)
    cell["mechanism"]["label"] = cell["attack"]["label"] = HOSTILE
    failed = made_records.failed_cell(HOSTILE)
    text = page([cell, failed], name=HOSTILE).split("<summary>The spec")[0]
    html = rendered(text)
    for element in ("<script", "<img", "<a ", "<strong>b", "<code>q"):
        assert element not in html
    assert html.count("<h1>") == 1
    assert "&lt;script&gt;alert(1)" in html
    assert "@team" not in text
    assert "#12" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    head, *body = re.findall(r"^\| .*$", text.split("## Violated")[1].split("##")[0], re.MULTILINE)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in body} == {head.count("|")}


def test_the_spec_cannot_leave_its_block():
    found = made_records.record([made_records.cell()])
    found["spec"]["text"] = "a = '''\n```\n</details>\n````\n<script>\n'''"
    html = rendered(document(as_record(found)))
    assert "<script>" not in html
    assert html.count("</details>") == 4


def test_it_is_never_longer_than_it_may_be_and_says_what_is_left_out():
    record = as_record(made_records.record(made_records.figure_2()["cells"]))
    assert inspect.signature(document).parameters["most"].default == MOST_BYTES
    for most in (MOST_BYTES // 32, 3_000):
        text = document(record, most)
        assert 0 < len(text.encode()) <= most
        assert re.search(r"… and \d+ cells more", text)
        assert text.startswith("# dptext\n\n**")
    assert document(record, 10) == ""


def test_what_was_expected_is_no_alarm_and_what_was_not_is_one():
    skip = dict.fromkeys(("mechanism", "pair", "attack", "estimator"), "s")
    unmet = made_records.cell() | {"verdict": "inconclusive"}
    text = page([unmet, made_records.failed_cell()], skipped=[{**skip, "swept": {}, "reason": "r"}])
    assert "## Not as expected" in text
    assert "## Could not be run" in text
    assert "## Violated" not in text
    assert "1 combination skipped: r (1)" in text
    assert "##" not in page([made_records.cell()])


def test_nothing_was_run():
    text = page([], name="empty")
    assert "**No claim was tested" in text
    assert "private" not in text
