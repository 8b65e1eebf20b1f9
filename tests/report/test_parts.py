"""Parts of a report: the terminal, a page and Markdown lay out the same lines and cells."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from support.html_pages import Page

from dpframe.report.html import page_of
from dpframe.report.markdown import document_of
from dpframe.report.tables import Assumptions, Line, Part, ReportTable, Row
from dpframe.report.terminal.text import show_parts

HOSTILE = "<b>a</b> [red] | \x1b[31m"
ROWS = [Row(["one", "1", Line("bad", "violated")]), Row([HOSTILE, "2", "–"], "dim")]
PARTS: list[Part] = [
    Line("Answer", "bold"),
    Line("Warned", "failed"),
    ReportTable(("name", "n", "verdict"), ROWS, right=("n",)),
    Line("A note", "note"),
]


def terminal(parts: list[Part], width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, _environ={})
    show_parts(console, parts)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def page(parts: list[Part]) -> str:
    return page_of("Title", parts, [("", "no matplotlib")], "1.0")


@pytest.mark.parametrize("layout", [terminal, document_of, page])
def test_every_layout_has_all_lines_and_cells_and_escapes_them(layout) -> None:
    text = layout(PARTS)
    for said in ("Answer", "Warned", "name", "verdict", "one", "bad", "A note"):
        assert said in text
    assert "\x1b" not in text
    assert layout is terminal or "<b>" not in text


def test_a_sign_stays_with_its_word_in_a_table_written_in_lines() -> None:
    table = ReportTable(("name", "verdict"), [Row(["word " * 30, Line("✗ violated", "violated")])])
    lines = [line for width in range(20, 40) for line in terminal([table], width).splitlines()]
    assert not [line for line in lines if line.endswith("✗")]


def test_tables_stand_between_blank_lines_on_the_terminal() -> None:
    lines = terminal([Line("above"), PARTS[2], PARTS[2], Line("below")]).splitlines()
    assert [n for n, line in enumerate(lines) if not line] == [1, 6, 11]
    titled = terminal([ReportTable(("a",), [Row(["1"])], title="Title", explanation="Why")])
    assert titled.splitlines()[:3] == ["Title", "Why", "a"]


def test_markdown_and_pages_mark_the_first_line_and_warnings() -> None:
    assert document_of(PARTS).startswith("## Answer\n\n**Warned**\n\n| name | n | verdict |\n")
    found = Page(page(PARTS))
    assert found.problems == []
    assert found.text.index("verdict") < found.text.index("Notes of the estimators")
    assert '<p class="warning">Warned</p>' in page(PARTS)
    assert '<span class="word-violated">bad</span>' in page(PARTS)


def test_each_assumption_is_explained_once() -> None:
    assumptions = Assumptions()
    assert [assumptions.mark(text) for text in ("x", "y", "x")] == ["[1]", "[2]", "[1]"]
    assert [line.text for line in assumptions.lines()] == ["[1] assumes x", "[2] assumes y"]
