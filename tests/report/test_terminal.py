"""The report in the terminal: what a reader must see in it, at any width and in any encoding."""

import io
import re

import pytest
from rich.console import Console

from dpframe.report.group import short
from dpframe.report.tables import numbers
from dpframe.report.terminal.render import render_notes
from dpframe.results.store import as_record
from dpframe.results.verdict import saw_nothing

SHADES = "·░▒▓█"


@pytest.mark.parametrize("width", [60, 80, 160])
def test_figure_2_looks_as_reviewed(records, show, golden, width):
    text = show(records.figure_2(), width, numbers=False)
    golden(f"figure-2-{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width
    signs = re.findall(f"[✗○][{SHADES}]", text)
    assert (len(signs), sum(sign[0] == "✗" for sign in signs)) == (252, 119)


@pytest.mark.parametrize("width", [60, 120])
def test_the_numbers_of_quick_look_as_reviewed(records, show, golden, width):
    cells = [
        records.cell(use, epsilon, 2, m=18, trials=1_000_000)
        for use in records.LABELS
        for epsilon in (0.1, 1.0, 10.0)
    ]
    golden(f"quick-{width}.txt", show(records.record(cells, name="quick"), width))


def test_the_answer_comes_first_and_once(records, show):
    text = show(records.figure_2(), numbers=False)
    assert text.startswith("119 of 252 claims violated, all expected; no violation found for")
    assert text.count("of 252 claims violated") == 1
    assert len(text.splitlines()) <= 60
    assert "private" not in text
    assert "consistent" not in text


def test_ascii_shows_all_signs_by_others(records, show, golden):
    text = show(records.figure_2(), encoding="ascii", numbers=False)
    assert "?" not in text
    golden("figure-2-ascii.txt", text)


def test_colours_avoid_white_yellow_and_backgrounds(records, show):
    assert "\x1b" not in show(records.figure_2())
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", show(records.figure_2(), colour=True)))
    assert codes <= {"0", "1", "2", "31", "1;31", "38;5;67", "1;38;5;67", "1;35", "35", "1;2"}


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("numbers", [False, True])
def test_nothing_is_lost_on_a_narrow_terminal(records, show, width, numbers):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in (1, 2, 128)]
    cells += [records.failed_cell(use="adept", dim=d) for d in (1, 2)]
    record = records.record(cells)
    text = show(record, width, numbers=numbers)
    assert max(map(len, text.splitlines())) <= width
    words = set(show(record, 200, numbers=numbers).split()) - {"mechanism"}  # a title
    missing = {word for word in words if word not in text and "─" not in word}
    assert missing == set()


@pytest.mark.parametrize(
    "label",
    ["[red]x[/red]", "[/]", "[bold", "long " * 60, "漢字🎲 ε·δ", "a\n✗ b\tc", "\x1b[31mred", ""],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("sweep", [True, False])
def test_labels_are_text_and_nothing_else(records, show, label, encoding, sweep):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in (1, 2)]
    for cell in cells:
        cell["mechanism"]["label"] = label
    text = show(records.record(cells if sweep else cells[:1]), 160, encoding=encoding)
    assert "\x1b" not in text
    assert not any(line.startswith("✗ b") for line in text.splitlines())
    if label.startswith("["):
        assert label in text
    assert "o violation found" in text


def test_a_query_as_a_label_is_read_in_lines(records, show):
    cells = [records.cell("laplace"), records.cell("dptext")]
    cells[0]["mechanism"]["label"] = "SELECT city, SUM(amount) FROM orders JOIN users GROUP BY city"
    assert "GROUP BY city · claimed" in " ".join(show(records.record(cells), 80).split())


def test_records_without_cells_or_with_failed_ones(records, show):
    assert "No claim was tested" in show(records.record([], m=0))
    failed = [records.failed_cell(dim=d) for d in (1, 2)]
    text = show(records.record(failed))
    assert "! laplace · majority-vote · precision: failed: CellError" in text
    assert "empirical" not in text
    different = [records.failed_cell(f"reason {n}", dim=n) for n in range(1, 21)]
    assert "… and 8 more such cells" in show(records.record(different))


def test_numbers_are_shown_on_demand_and_if_there_is_no_map(records, show):
    swept = [records.cell("laplace", e, d) for e in (0.5, 1.0) for d in (1, 2)]
    text = show(records.record(swept), numbers=False)
    assert "empirical" not in text
    assert "The numbers of every cell: --numbers" in text
    text = show(records.record(swept), numbers=True)
    assert "empirical" in text
    assert "--numbers" not in text
    alone = show(records.record([records.estimate_only(epsilon=1.0)], m=0), numbers=False)
    assert "empirical" in alone
    wide = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in range(1, 41)]
    assert "Certified ε ÷" not in show(records.record(wide), 60, numbers=False)


@pytest.mark.parametrize(
    ("lower", "claimed", "shade"),
    [
        *((0.0, 1.0, "·"), (0.5, 1.0, "░"), (0.51, 1.0, "▒"), (1.0, 1.0, "▒"), (1.01, 1.0, "▓")),
        *((10.0, 1.0, "▓"), (10.1, 1.0, "█"), (3.0, "inf", "·"), (0.1, 0.0, "█")),
        (0.0, 0.0, "·"),
    ],
)
def test_a_shade_is_certified_over_claimed(records, show, lower, claimed, shade):
    cells = [records.cell("laplace", 1.0, d) for d in (1, 2)]
    for cell in cells:
        cell["estimate"]["epsilon_lower"] = lower
        cell["claim"]["epsilon"] = claimed
    text = show(records.record(cells), numbers=False)
    assert f"○{shade} ○{shade}" in text
    assert {sign for sign in SHADES[1:] if f"{sign} " in text.split("across")[1]} <= {shade}


def test_the_map_marks_failures_surprises_and_the_worst_repeat(records, show):
    cells = [records.cell("laplace", e, d) for e in (0.5, 1.0) for d in (1, 2)]
    cells[1] = records.failed_cell(epsilon=0.5, dim=2)
    cells[2]["expected"] = "violated"
    text = show(records.record(cells), numbers=False)
    assert re.search(r"0\.5 ○▒ +! *\n1 +▶○▒ ○▒", text)
    assert "▶ not as expected" in text
    cells = [records.cell("laplace", 1.0, d, repeat=i) for d in (1, 2) for i in range(3)]
    cells[4]["estimate"]["epsilon_lower"] = 20.0
    cells[4]["verdict"] = "violated"
    text = show(records.record(cells), 160, numbers=False)
    assert "○▒ ▶✗█" in text
    assert "of repeats the worst" in text
    assert "certified 20.0 of claimed 1, at dim 2, repeat 1" in text


def test_repeats_are_a_mean_a_deviation_and_a_tally(records, show):
    cells = [records.cell("adept", 0.1, 2, m=10, repeat=i, shift=700 * (i - 5)) for i in range(10)]
    text = show(records.record(cells), 120)
    assert re.search(r"0\.1\d+ ± 0\.00\d\d +⌀ 0\.19\d .*✗ violated in 10 of 10 repeats", text)
    assert "itself not a bound" in text
    assert not re.search("[≥≤] [0-9]", text)
    one = [records.cell("adept", 0.1, 2), records.failed_cell(use="adept", repeat=1, dim=2)]
    one[1]["swept"] = one[0]["swept"]
    text = show(records.record(one), 120)
    assert "≥ 0.19" in text
    assert "⌀" not in text


def test_numbers_that_are_not_finite(records, show):
    cells = [records.cell("laplace", 1.0, d) for d in (1, 2, 3)]
    cells[0]["estimate"] |= {"epsilon": "nan", "epsilon_upper": "inf"}
    cells[1]["estimate"] |= {"epsilon": "inf", "epsilon_upper": "inf"}
    cells[2]["estimate"] |= {"epsilon": "-inf"}
    text = show(records.record(cells), 120)
    assert not re.search(r"≥ *∞", text)
    assert "nan" in text
    assert show(records.record([records.cell("copy-input", 1.0, 1)]), 120).count("∞") == 1


@pytest.mark.parametrize(
    ("statistic", "counts", "blind"),
    [
        ({"name": "DecisionCounts"}, [[0, 100], [0, 100]], True),
        ({"name": "DecisionCounts"}, [[0, 100], [1, 99]], False),
        ({"name": "DecisionCounts"}, [[0, 100], [100, 0]], False),
        ({"name": "PilotGrid", "edges": [0.5, "inf", "inf"]}, [[0, 0, 9, 0], [0, 0, 9, 0]], True),
        ({"name": "PilotGrid", "edges": [0.5, 0.7, "inf"]}, [[0, 0, 9, 0], [0, 0, 9, 0]], False),
        (
            {"name": "Cuts", "edges": [0, 3.7, 3.7000000000000006, 9.0]},
            [[0, 0, 0, 9, 0, 0]] * 2,
            True,
        ),
        ({"name": "Cuts", "edges": [0.0, 3.7, 3.7000003, 9.0]}, [[0, 0, 0, 9, 0, 0]] * 2, True),
        ({"name": "Cuts", "edges": [0.0, 3.7, 3.7000005, 9.0]}, [[0, 0, 0, 9, 0, 0]] * 2, False),
        ({"name": "Cuts", "edges": [0.0, 3.7, 3.7000003, 9.0]}, [[0, 0, 9, 0, 0, 0]] * 2, False),
        ({"name": "Cuts", "edges": [0.5, "inf", 1e300]}, [[0, 0, 0, 9, 0]] * 2, False),
        ({"name": "ThresholdCounts", "threshold": 1.0}, [[0, 9], [0, 9]], False),
    ],
)
def test_an_attack_that_saw_nothing_has_no_limits(records, show, statistic, counts, blind):
    cell = records.cell() | {"statistic": statistic, "counts": counts, "swept": {}}
    cell["estimate"] |= {"epsilon": 0.0, "epsilon_lower": 0.0, "epsilon_upper": "inf"}
    text = show(records.record([cell]), 160)
    assert ("this attack saw nothing: every score was equal" in text) == blind
    assert ("Saw nothing: every score" in text) == blind
    assert ("≤ ∞" in text) != blind
    typed = records.typed(cell).model_copy(update={"basis": None})
    assert saw_nothing(typed) == blind
    assert ("saw nothing" in numbers(typed)) == ("∞" not in numbers(typed)) == blind


def test_an_interval_stands_in_parentheses_and_notes_are_shown_on_demand(records, show):
    swept = {"mechanism.q": 0.5, "estimator.q": 0.25}
    cell = records.estimate_only(swept=swept, trials=100)
    cell["estimate"] |= {"epsilon": 3.5, "interval": [3.25, "inf"], "notes": ["assumes a lot"]}
    text = show(records.record([cell], m=0), 120)
    assert "(3.25 – ∞)" in text
    assert "nothing is certified" in text
    assert "≥" not in text
    assert "assumes a lot" not in text
    out = io.StringIO()
    found = as_record(records.record([cell], m=0))
    render_notes(found, Console(file=out, width=120, color_system=None))
    assert "assumes a lot" in out.getvalue()
    assert "Attacks: majority-vote. A stronger one may show more." in out.getvalue()
    assert "mechanism.q 0.5 · estimator.q 0.25" in out.getvalue()
    assert short("mechanism.q", ["mechanism.q", "pair.dim"]) == "q"


def test_slack_is_a_table_of_the_cells_that_are_not_violated(records, show):
    cells = [records.cell("laplace", 1.0, d) for d in (1, 2)]
    cells.append(records.cell("adept", 0.1, 2))
    parts = dict.fromkeys(("pair", "attack", "confidence", "cells", "looks", "resolution"), 0.0)
    for cell in cells:
        cell["slack"] = parts | {"limit": "exact", "attack": 0.05, "sampling": 0.125}
    text = show(records.record(cells), 120, slack=True)
    table = text[text.index("Slack:") :].split("\n\n")[0]
    assert re.search(r"cell +attack +sampling +ratio\n", table)
    assert table.count("0.125") == 2
    assert "adept" not in table
    assert "sampling: " in table


def test_a_title_with_three_swept_keys_names_the_third(records, show):
    cells = [records.cell("laplace", e, d) for _ in range(2) for e in (0.1, 1.0) for d in (1, 2)]
    for index, cell in enumerate(cells):
        cell["swept"]["mechanism.scale"] = index // 4
    text = show(records.record(cells), numbers=False)
    assert "laplace, scale 0" in text
    assert "laplace, scale 1" in text


def test_a_table_has_no_column_of_dashes_and_breaks_no_title(records, show):
    violated = show(records.record([records.cell("copy-input", 1.0, 2)]), 80)
    assert "violated" in violated
    assert "at most" not in violated
    cell = records.cell("laplace", 1.0, 2)
    cell["mechanism"]["label"] = "a" * 21
    assert "at most" in show(records.record([cell]), 80)


def test_only_cells_with_notes_have_a_heading(records):
    cells = [records.cell("laplace", 1.0, 2), records.cell("copy-input", 1.0, 2)]
    cells[0]["estimate"]["notes"] = ["a note"]
    console = Console(file=io.StringIO(), width=80)
    render_notes(as_record(records.record(cells)), console)
    assert "copy-input" not in console.file.getvalue()


def test_a_cell_that_tested_nothing_is_listed_once(records, show):
    cell = records.cell("random-output", 1.0, 2, counts=[[100, 0], [100, 0]], trials=100)
    why = "box returned None in all 200 runs, so nothing was tested"
    cell |= {"verdict": "inconclusive", "reason": why, "expected": None}
    cell["statistic"] = {"name": "DecisionCounts"}
    other = records.cell("laplace", 1.0, 2, trials=100)
    text = show(records.record([cell, other]), 200)
    assert "so nothing was tested" in text
    assert "– random-output · majority-vote · precision: this attack saw nothing" not in text
