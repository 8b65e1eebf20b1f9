"""Tables that have no room: no word is broken, nothing is left out."""

import io

import pytest
from rich.console import Console

from dpframe.report.terminal.elements import Ink, fitted

ROWS = [
    ("subsampled-gaussian · identity", "≥ 4.87", "12.1 (9.93 to 15.3)"),
    ("漢字表記", "≥ 0.001", "∞"),
]


def drawn(width):
    console = Console(file=io.StringIO(), width=width, _environ={})
    ink = Ink.of(console)
    table = ink.table(2)
    table.add_column(ink.text("mechanism · attack"), overflow="fold")
    table.add_column(ink.text("bound"), no_wrap=True)
    table.add_column(ink.text("estimate"), overflow="fold", ratio=1)
    for row in ROWS:
        table.add_row(*map(ink.text, row))
    for part in fitted(table, width):
        console.print(part)
    return console.file.getvalue()


@pytest.mark.parametrize("width", range(20, 100))
def test_at_any_width_every_word_is_there(width):
    text = drawn(width)
    assert max(map(len, text.splitlines())) <= width
    words = [word for row in ROWS for cell in row for word in cell.split()]
    assert all(word in text for word in words)
    assert "≥ 4.87" in text  # a number stays with its sign


def test_a_table_where_there_is_room_and_lines_where_there_is_none():
    assert drawn(80).splitlines()[2].split("  ")[0] == ROWS[0][0]
    assert drawn(24).splitlines()[:4] == [
        "subsampled-gaussian ·",
        "identity",
        "  bound ≥ 4.87",
        "  estimate 12.1 (9.93 to",
    ]
