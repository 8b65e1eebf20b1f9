"""The report of the real audit: 252 cells, and what a reader must be able to see in it."""

import re

import pytest
from support.tiers import mostly_slow

from dpframe.report import phrases
from dpframe.results.verdict import saw_nothing


@pytest.mark.parametrize("width", mostly_slow([80, 120, 160], (0,)))
def test_figure_2_looks_as_reviewed(records, show, golden, width):
    golden(f"figure-2-numbers-{width}.txt", show(records.figure_2(), width))


@pytest.mark.parametrize("width", mostly_slow([80, 120, 160], (0,)))
def test_no_line_is_wider_than_the_console(records, show, width):
    assert max(map(len, show(records.figure_2(), width).splitlines())) <= width


def test_a_cell_shows_claim_value_verdict_and_bound(records, show):
    lines = show(records.figure_2(), 160).splitlines()
    adept = lines.index(next(line for line in lines if line.startswith("adept ·")))
    assert lines[adept + 1].split()[:4] == ["claimed", "ε", "dim", "1"]
    assert "✗  0.195  ≥  0.190" in lines[adept + 3]
    assert lines[adept + 3].split()[0] == "0.1"


def test_infinite_point_value_with_a_finite_bound(records, show):
    text = show(records.figure_2())
    assert "✗  ∞" in text
    assert not re.search(r"[≥>]=? *∞", text)


def test_summary_says_what_how_sure_and_at_what_cost(records, show):
    text = " ".join(show(records.figure_2(), 120).split())
    assert (
        "119 of 252 claims violated, no violation found for the other 133; with 95 % confidence "
        "that none of the 119 is a false alarm (Holm over 252 claims), from 720 million draws in "
        "41.2 s." in text
    )
    assert "All certified bounds hold together with 95 % confidence" in text
    assert "Expectations: 252 of 252 met." in text


def test_nothing_reads_as_private(records, show):
    text = show(records.figure_2()).lower()
    assert "private" not in text
    assert "consistent" not in text
    assert "no violation found" in text


def test_limit_of_the_attack_is_explained_once(records, show):
    assert show(records.figure_2()).count("limits the attack, not the mechanism") == 1


def test_plain_text_has_no_escapes(records, show):
    assert "\x1b" not in show(records.figure_2())


def test_colours_avoid_white_yellow_and_backgrounds(records, show):
    text = show(records.figure_2(), colour=True)
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", text))
    assert codes <= {"0", "1", "2", "31", "1;31", "38;5;67", "1;38;5;67", "1;35", "35"}


def test_ascii_console(records, show, golden):
    text = show(records.figure_2(), encoding="ascii")
    assert max(map(len, text.splitlines())) <= 80
    golden("figure-2-numbers-ascii.txt", text)


def test_one_swept_key_is_a_list_with_bars(records, show, golden):
    cells = [
        records.cell(use, epsilon, 2, m=18, trials=1_000_000)
        for use in records.LABELS
        for epsilon in (0.1, 1.0, 10.0)
    ]
    record = records.record(cells, name="quick")
    for width in (80, 120):
        golden(f"quick-{width}.txt", show(record, width))


def test_the_verdict_is_said_first_and_last_and_quick_fits_forty_lines(records, show):
    cells = [
        records.cell(use, epsilon, dim, m=18, trials=200_000)
        for use in ("laplace", "adept", "dptext")
        for epsilon in (0.5, 1.0, 2.0)
        for dim in (2, 8)
    ]
    lines = show(records.record(cells, name="quick"), 80, numbers=False).splitlines()
    assert len(lines) <= 40
    assert lines[1] == "12 of 18 claims violated, no violation found for the other 6."
    assert re.match(r"Worst: DPText, NaN to zero · ε 0.5, dim \d: certified 10\.\d of cl", lines[2])
    assert lines[-3].startswith(
        "12 of 18 claims violated, no violation found for the other 6; with"
    )


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
def test_an_attack_that_saw_nothing_is_said_to_and_has_no_limits(
    records, show, statistic, counts, blind
):
    cell = records.cell() | {"statistic": statistic, "counts": counts, "swept": {}}
    cell["estimate"] |= {"epsilon": 0.0, "epsilon_lower": 0.0, "epsilon_upper": "inf"}
    text = show(records.record([cell]), 160)
    assert ("this attack saw nothing: every score was equal" in text) == blind
    assert ("saw nothing  every score of this attack was equal" in text) == blind
    assert ("≤ ∞" in text) != blind
    typed = records.typed(cell).model_copy(update={"basis": None})
    assert saw_nothing(typed) == blind
    shown = phrases.numbers(typed)
    assert ("saw nothing" in shown) == ("∞" not in shown) == blind


def test_nothing_swept_is_one_list(records, show):
    cells = [records.cell(use, 1.0, 2, m=6) for use in records.LABELS]
    text = show(records.record(cells))
    assert text.count("empirical  certified") == 1
    assert re.search(r"adept +1\.00 +1\.66 +≥ +1\.65 .* ✗$", text, re.MULTILINE)
    wide = show(records.record(cells), 120)
    assert re.search(r"adept +1\.00 +1\.66 +≥ +1\.65 .* ✗ violated$", wide, re.MULTILINE)


def test_three_swept_keys_give_a_table_for_each_value_of_the_third(records, show):
    cells = []
    for scale in (1.0, 2.0):
        for epsilon in (0.1, 1.0):
            for dim in (1, 2):
                cell = records.cell("laplace", epsilon, dim)
                cell["swept"]["mechanism.scale"] = scale
                cells.append(cell)
    text = show(records.record(cells))
    assert len(re.findall(r"^claimed ε +dim 1", text, re.MULTILINE)) == 2
    assert "scale 1" in text
    assert "scale 2" in text


def test_swept_keys_of_the_record_are_taken_as_they_are(records, show):
    cells = [records.cell("laplace", 1.0, 1, swept={"audit.seed": seed}) for seed in (1, 2)]
    text = show(records.record(cells))
    assert re.search(r"^seed +claimed", text, re.MULTILINE)


def test_claim_that_differs_from_the_parameter_has_its_own_column(records, show):
    cells = [
        records.cell("laplace", e, d, claim=records.pure_claim(2 * e))
        for e in (0.1, 1.0)
        for d in (1, 2)
    ]
    lines = show(records.record(cells)).splitlines()
    assert any(re.match(r" +ε +claimed ε +dim 1", line) for line in lines)
    assert any(re.match(r" *0\.1 +0\.200 +○", line) for line in lines)


def test_claim_that_differs_within_a_row_is_in_the_cells(records, show):
    cells = [
        records.cell("laplace", e, d, claim=records.pure_claim(e * d))
        for e in (0.1, 1.0)
        for d in (1, 2)
    ]
    assert "= 0.200" in show(records.record(cells))


def test_repeats_are_a_mean_a_deviation_and_a_tally(records, show):
    cells = [records.cell("adept", 0.1, 2, m=10, repeat=i, shift=700 * (i - 5)) for i in range(10)]
    text = show(records.record(cells))
    assert re.search(r"adept +0\.100 +0\.1\d+ ± 0\.00\d\d +⌀ 0\.19\d .*✗ violated 10/10", text)
    assert "mean of the repeats' certified bounds" in text
    assert "10 of 10 claims violated" in text


@pytest.mark.parametrize("dims", [(1,), (1, 2)])
@pytest.mark.parametrize("width", [60, 160])
def test_a_mean_of_bounds_is_never_called_a_bound(records, show, dims, width):
    def report(repeats):
        cells = [
            records.cell("laplace", e, d, repeat=i, shift=700 * i)
            for e in (0.1, 1.0)
            for d in dims
            for i in range(repeats)
        ]
        return show(records.record(cells), width)

    assert "≥" in report(1)
    assert "≤" in report(1)
    assert "⌀" not in report(1)
    assert "⌀" in report(3)
    assert not re.search("[≥≤]", report(3))


def test_of_repeats_of_which_one_ran_the_bound_is_one(records, show):
    cells = [records.cell("adept", 0.1, 2), records.failed_cell(use="adept", repeat=1, dim=2)]
    cells[1]["swept"] = cells[0]["swept"]
    text = show(records.record(cells))
    assert "≥ 0.19" in text
    assert "⌀" not in text


def test_repeats_in_a_grid(records, show):
    cells = [
        records.cell("adept", e, d, repeat=i, shift=700 * i)
        for e in (0.1, 1.0)
        for d in (1, 2)
        for i in range(3)
    ]
    lines = show(records.record(cells)).splitlines()
    assert any("±" in line for line in lines)
    assert any(line.split()[-1:] == ["3/3"] for line in lines)


LIMITS = {
    "every event": "the most this attack can show: limits the attack, not the mechanism",
    "every cut": "the most that cuts of its scores can show: limits the attack, not the mechanism",
    "chosen thresholds": "the most at the thresholds that were chosen: others may show more",
}


@pytest.mark.parametrize("of", [*LIMITS, None])
def test_the_legend_says_what_an_upper_limit_is_of(records, show, of):
    record = records.record([records.cell(epsilon=epsilon) for epsilon in (0.5, 1.0, 2.0)])
    for cell in record["cells"]:
        cell["estimate"]["epsilon_upper_of"] = of
    text = " ".join(show(record, 120).split())
    shown = [meaning for meaning in LIMITS.values() if meaning in text]
    assert shown == [LIMITS[of or "chosen thresholds"]]


def test_where_limits_are_of_different_things_the_legend_names_the_estimators(records, show):
    record = records.record([records.cell(epsilon=epsilon) for epsilon in (0.5, 1.0, 2.0)])
    kept = record["cells"]
    for cell, of in zip(kept, ("every cut", "chosen thresholds"), strict=False):
        cell["estimate"]["epsilon_upper_of"] = of
        cell["estimator"]["label"] = of.replace(" ", "-")
    for cell in kept[2:]:
        cell["estimate"]["epsilon_upper_of"] = "every event"
    text = " ".join(show(record, 160).split())
    assert f"{LIMITS['every cut']} (every-cut)" in text
    assert f"{LIMITS['chosen thresholds']} (chosen-thresholds)" in text
