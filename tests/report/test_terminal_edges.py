"""Records that went wrong, or are small, or hold what nobody expects."""

import re

import pytest


def flat(text):
    return " ".join(text.split())


def test_no_cells(records, show):
    text = show(records.record([], m=0))
    assert "No claim tested" in text


@pytest.mark.parametrize("width", [20, 40, 80])
def test_all_failed(records, show, width):
    cells = [records.failed_cell(epsilon=e, dim=d) for e in (0.1, 1.0) for d in (1, 2)]
    text = flat(show(records.record(cells, m=4), width))
    assert "outputs have shape (4,), expected (1,) (4 cells)" in text
    assert "at ε 0.1, 1; dim 1, 2" in text
    assert "Nothing decided of 4 claims: 4 not tested, from 720 million draws" in text
    assert "4 could not be run" in text


def test_many_equal_failures_are_one_line_and_a_count(records, show):
    cells = [
        records.failed_cell("boom", epsilon=e, dim=d) for e in range(1, 11) for d in range(1, 11)
    ]
    text = show(records.record(cells))
    assert text.count("boom") == 1
    assert "(100 cells)" in text
    assert "at ε 1, 2, 3, 4, 5, 6, 7, 8, 9, 10; dim 1, 2, 3, 4, 5, 6, 7, 8, 9, 10" in flat(text)


def test_failures_at_many_scattered_places_end_in_a_count(records, show):
    cells = [records.failed_cell("boom", epsilon=n, dim=n * n) for n in range(1, 31)]
    assert "… and 18 more" in show(records.record(cells))


def test_many_different_failures_end_in_a_count(records, show):
    cells = [records.failed_cell(f"boom {d}", dim=d) for d in range(1, 41)]
    text = show(records.record(cells))
    assert "… and 28 more such cells" in text


def test_one_failed_cell_stays_in_the_table(records, show):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in (1, 2)]
    cells[3] = records.failed_cell(epsilon=1.0, dim=2)
    assert "! failed" in show(records.record(cells))


def test_only_skipped(records, show):
    skip = {"mechanism": "laplace", "attack": "vote", "estimator": "precision", "pair": "p"}
    skips = [skip | {"swept": {"pair.dim": d}, "reason": "no parameter nan"} for d in (1, 2)]
    text = flat(show(records.record([], m=0, skipped=skips)))
    assert "laplace · vote · precision: skipped: no parameter nan (2 cells) at dim 1, 2" in text


def test_without_a_certifying_estimator_there_is_no_verdict(records, show):
    cells = [records.estimate_only(epsilon=e, dim=d) for e in (0.1, 1.0) for d in (1, 2)]
    text = show(records.record(cells, m=0))
    assert "~ 0.900" in text
    assert "estimate, not a bound" in text
    assert "≥" not in text
    assert "violation found" not in text
    assert "No claim tested" in text
    assert "confidence" not in text


def test_without_a_claim(records, show):
    cell = records.cell(claim=None, verdict=None, expected=None)
    text = show(records.record([cell], m=0))
    assert "claimed" not in text.replace("nothing is claimed", "")


def test_unmet_expectations_come_first_in_the_summary(records, show):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in (1, 2)]
    cells[1]["expected"] = "violated"
    text = show(records.record(cells))
    assert "▶○ 0.0988" in text
    tail = flat(text[text.rindex("────") :])
    assert tail.lstrip("─ ").startswith(
        "▶ laplace · majority-vote · precision: expected violated, found: no violation found at "
        "ε 0.1 dim 2"
    )
    assert "Expectations: 3 of 4 met, 1 not met." in tail


def test_multiplicity_none_is_said_twice(records, show):
    cells = [records.cell("laplace", e, 1) for e in (0.1, 1.0)]
    text = flat(show(records.record(cells, multiplicity="none")))
    assert text.count("Not adjusted for testing 2 claims") == 2
    assert "hold together" not in text


def test_multiplicity_none_is_said(records, show):
    record = records.record([records.cell("laplace", e, 1) for e in (0.1, 1.0)])
    record["audit"] |= {"multiplicity": "none", "confidence": 0.9}
    text = flat(show(record))
    assert "Not adjusted for testing 2 claims" in text
    assert "90 %" in text


def test_inconclusive_says_why(records, show):
    reason = "even the most extreme counts would not reject ε = 20; more trials are needed"
    cells = [
        records.cell("laplace", 20.0, d, verdict="inconclusive", reason=reason) for d in (1, 2)
    ]
    text = flat(show(records.record(cells)))
    assert f"? laplace · majority-vote · precision: inconclusive: {reason} (2 cells)" in text


def test_violation_added_by_the_step_down_test_is_explained(records, show):
    cell = records.cell("laplace", 1.0, 1, verdict="violated", reason="the step-down test adds it")
    assert "although its bound alone is not above the claim" in flat(show(records.record([cell])))


def test_one_claim_is_not_called_adjusted(records, show):
    text = flat(show(records.record([records.cell("adept", 0.1, 2, m=1)], m=1)))
    assert "1 of 1 claim violated; with 95 % confidence that it is not a false alarm, from" in text
    assert "Holm" not in text


@pytest.mark.parametrize(
    "label",
    ["[red]x[/red]", "[/]", "[bold", "long " * 60, "漢字🎲 ε·δ", "a\nb\tc", "\x1b[31mred", ""],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("sweep", [True, False])
def test_labels_are_text_and_nothing_else(records, show, label, encoding, sweep):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in (1, 2)]
    for cell in cells:
        cell["mechanism"]["label"] = label
    text = show(records.record(cells if sweep else cells[:1]), encoding=encoding)
    assert "\x1b" not in text
    if label.startswith("["):
        assert label in text
    assert "no violation found" in text


def test_non_finite_numbers(records, show):
    cells = [records.cell("laplace", 1.0, d) for d in (1, 2, 3)]
    cells[0]["estimate"] |= {"epsilon": "nan", "epsilon_upper": "inf"}
    cells[1]["estimate"] |= {"epsilon": "inf", "epsilon_upper": "inf"}
    cells[2]["estimate"] |= {"epsilon": "-inf"}
    text = show(records.record(cells))
    assert not re.search(r"≥ *∞", text)
    assert "nan" in text


def test_infinite_replicates(records, show):
    cells = [records.cell("copy-input", 1.0, 1, repeat=i) for i in range(2)]
    cells.append(records.cell("adept", 1.0, 1, repeat=2))
    cells[2]["mechanism"]["label"] = "copy-input"
    assert re.search(r"∞ +⌀ .* violated 2/3", show(records.record(cells)))


def test_many_columns_go_into_several_tables(records, show):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in range(1, 20)]
    text = show(records.record(cells))
    assert text.count("claimed ε") > 1
    assert max(map(len, text.splitlines())) <= 80
    assert "dim 19" in text


def test_more_than_one_hundred_percent_is_never_said(records, show):
    text = show(records.record([records.cell(m=10**6)], m=10**6))
    assert "99.999995 %" in text


def test_groups_that_sweep_different_keys(records, show):
    cells = [records.cell("laplace", e, 1) for e in (0.1, 1.0)]
    cells += [records.cell("adept", 0.1, d) for d in (1, 2)]
    cells += [records.cell("copy-input", e, d) for e in (0.1, 1.0) for d in (1, 2)]
    text = show(records.record(cells))
    assert re.search(r"^ε +claimed", text, re.MULTILINE)
    assert re.search(r"^dim +claimed", text, re.MULTILINE)
    assert re.search(r"^claimed ε", text, re.MULTILINE)


def test_group_that_failed_throughout_is_not_a_table(records, show):
    cells = [records.cell("laplace", e, 1) for e in (0.1, 1.0)]
    cells += [records.failed_cell(use="adept", epsilon=e) for e in (0.1, 1.0)]
    text = show(records.record(cells))
    assert text.count("empirical  certified") == 1
    assert "! 2 failed" in text
