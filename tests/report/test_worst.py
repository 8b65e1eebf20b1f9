"""The worst cell of each mechanism, in words."""

import re

import pytest


def told(text):
    """Return the report's sentence about each mechanism, by its name."""
    tail = text[text.rindex("────") :].split("\n\n")
    lines = next(part for part in tail if "worst" in part or "tested" in part).splitlines()
    return " ".join(" ".join(lines).split())


def test_violated_cells_come_first_then_the_largest_ratio(records, show):
    cells = [records.cell("adept", e, d) for e in (0.1, 1.0, 10.0) for d in (1, 2)]
    for cell, lower, verdict in zip(
        cells,
        (0.5, 0.25, 2.0, 3.0, 9.0, 9.5),
        ("consistent", "violated", "violated", "violated", "consistent", "inconclusive"),
        strict=True,
    ):
        cell["estimate"]["epsilon_lower"] = lower
        cell["verdict"] = verdict
    assert "worst: certified 3.00 of claimed 1, at ε 1 dim 2" in told(show(records.record(cells)))
    for cell in cells:
        cell["verdict"] = "consistent"
    assert "worst: certified 0.500 of claimed 0.1, at ε 0.1 dim 1" in told(
        show(records.record(cells))
    )


def test_every_mechanism_is_named_also_one_without_a_violation(records, show):
    text = show(records.figure_2(), 120, numbers=False)
    for line in (
        r"laplace +○ 42 no violation found\n +worst: certified 0\.190 of claimed 0\.2, at ε 0\.2",
        r"adept +✗ 35 violated   ○ 7 no violation found\n +worst: certified 12\.7 of claimed 1, at",
        r"random-output +○ 42 no violation found\n +nothing certified in any cell",
    ):
        assert re.search(line, text)


def test_attack_and_estimator_are_named_where_they_differ(records, show):
    cells = [records.cell("adept", 0.1, d) for d in (1, 2)]
    cells += [records.cell("adept", 0.1, d) for d in (1, 2)]
    for cell in cells[2:]:
        cell["estimator"]["label"] = "another"
        cell["estimate"]["epsilon_lower"] *= 2
    assert "of claimed 0.1, by another, at dim 2" in told(show(records.record(cells)))


def test_of_what_claims_nothing_the_largest_bound(records, show):
    cells = [records.cell(dim=d, claim=None, verdict=None, expected=None) for d in (1, 2, 8)]
    cells[2]["estimate"]["epsilon_lower"] = 3.0
    text = told(show(records.record(cells, m=0)))
    assert "worst: certified 3.00, nothing claimed, at dim 8" in text


def test_of_what_certifies_nothing_the_largest_estimate_which_is_no_bound(records, show):
    cells = [records.estimate_only(dim=d) for d in (1, 2, 8)]
    text = told(show(records.record(cells, m=0)))
    assert "worst: nothing certified; estimated 0.900, at dim 2" in text


def test_claims_of_infinity_and_of_zero(records, show):
    cells = [records.cell("laplace", 1.0, d) for d in (1, 2)]
    cells[0]["claim"]["epsilon"] = "inf"
    assert "worst: certified 0.895 of claimed 1, at dim 2" in told(show(records.record(cells)))
    cells[0]["claim"]["epsilon"] = 0.0
    assert "worst: certified 0.829 of claimed 0, at dim 1" in told(show(records.record(cells)))


def test_mechanisms_that_failed_or_were_skipped_or_undecided_are_called_so(records, show):
    cells = [records.failed_cell(use="adept", dim=d) for d in (1, 2)]
    cells += [records.cell("laplace", 20.0, d, verdict="inconclusive") for d in (1, 2)]
    skips = [
        {"mechanism": "gone", "attack": "a", "estimator": "e", "pair": "p", "swept": {}}
        | {"reason": "no parameter nan"}
    ]
    text = told(show(records.record(cells, skipped=skips)))
    assert re.search("adept ! 2 failed nothing was tested", text)
    assert re.search("laplace . 2 inconclusive worst: .* nothing was decided", text)
    assert "gone – skipped nothing was tested" in text


def test_a_bound_just_above_the_claim_does_not_look_equal_to_it(records, show):
    cells = [records.cell("adept", 1.0, d) for d in (1, 2)]
    for cell in cells:
        cell["estimate"]["epsilon_lower"] = 1.0004
        cell["verdict"] = "violated"
    assert "certified 1.0004 of claimed 1," in told(show(records.record(cells)))
    for cell in cells:
        cell["estimate"]["epsilon_lower"] = 0.9999999
        cell["verdict"] = "consistent"
    assert "certified 0.999 of claimed 1," in told(show(records.record(cells)))


@pytest.mark.parametrize("bound", [0.8, 1.2])
def test_a_curve_refuted_elsewhere_is_weighed_there(records, show, bound):
    cells = [records.cell("adept", 1.0, d) for d in (1, 2)]
    for cell in cells:
        cell["estimate"]["epsilon_lower"] = bound
        cell["verdict"] = "violated"
        shares = dict.fromkeys(("p_resolved", "p_extreme", "p_extreme_resolved"), 1e-9)
        cell["basis"] = shares | {
            "confidence": 0.95,
            "look": 1,
            "contrast": {"delta": 0.25, "lower": 0.5, "claimed": 0.125},
        }
    text = told(show(records.record(cells)))
    assert ("certified 0.500 of claimed 0.125 at δ = 0.25," in text) == (bound < 1)
    assert ("certified 1.20 of claimed 1," in text) == (bound > 1)


def test_one_cell_each_is_not_told_twice(records, show):
    cells = [records.cell(use, 1.0, 2) for use in records.LABELS]
    assert "worst" not in show(records.record(cells))
