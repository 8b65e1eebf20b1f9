"""Cells that were searched: whose table they are in, and what they are called."""

from __future__ import annotations

from typing import Any

import pytest
from support import made_records

from dpframe.report import junit, markdown
from dpframe.report.diff import match
from dpframe.report.group import cell_name as called, groups
from dpframe.results.store import as_record


def searched(label: str, attack: str, verdict: str = "violated", **swept: Any) -> Any:
    found = made_records.cell(epsilon=1.0, m=4)
    found["mechanism"] = {"use": "program", "label": label, "params": {"epsilon": 1.0, **swept}}
    found["attack"] = {"use": "answers", "label": attack, "params": {"look": attack}}
    found["swept"] = {f"mechanism.{key}": value for key, value in swept.items()}
    choice = {"use": "records", "label": "records", "params": {}}
    counted = {"hits": [0, 9], "trials": [10, 10], "pair_trials": 10, "more_likely": "D′"}
    found["search"] = {"neighbourhood": choice, "pairs": 3, "event": "is odd", **counted}
    return found | {"verdict": verdict, "expected": None, "id": f"{label}-{swept}"}


def lost(label: str, **swept: Any) -> Any:
    none = dict.fromkeys(("counts", "estimate", "verdict", "p_value", "p_adjusted", "search"))
    more = {"status": "failed", "reason": "it is gone", "searched": True}
    return searched(label, "kinds", **swept) | none | more


OVER_EPSILON = [
    searched("mean", "values", epsilon=0.5),
    searched("mean", "bits", epsilon=1.0),
    searched("mean", "kinds", "consistent", epsilon=2.0),
    lost("mean", epsilon=4.0),
]


def test_one_mechanism_is_one_table_whatever_attack_was_best_where(show: Any) -> None:
    record = made_records.record(OVER_EPSILON)
    (group,) = groups(as_record(record).cells)
    assert group.names == ("mean", "search", "precision")
    assert len(group.spots) == 4
    rows = [line.split() for line in show(record, 100).splitlines()]
    attacks = {"0.5": "values", "1": "bits", "2": "kinds", "4": "–"}
    (head,) = (n for n, row in enumerate(rows) if "found" in row and "verdict" in row)
    for row, (epsilon, attack) in zip(rows[head + 2 :], attacks.items(), strict=False):
        assert row[:2] == ["mean", epsilon]
        assert attack in row


@pytest.mark.parametrize("width", [30, 60, 80, 160])
def test_mechanisms_share_a_table_that_names_the_attack_of_each(show: Any, width: int) -> None:
    record = made_records.record([searched("mean", "values"), searched("sum", "bits")])
    text = show(record, width)
    assert "values" in text
    assert "bits" in text
    assert "mean · values" not in text
    assert max(map(len, text.splitlines())) <= width


def test_its_name_does_not_change_with_what_was_found() -> None:
    old, new = (
        as_record(made_records.record([searched("mean", attack) | {"id": label}])).cells
        for attack, label in (("values", "a"), ("bits", "b"))
    )
    assert called(old[0]) == called(new[0]) == "mean · search · precision"
    (found,) = match(old, new).both
    assert not found.renamed


def test_files_say_search_where_a_name_is_wanted_and_the_attack_where_it_is_not() -> None:
    record = as_record(made_records.record(OVER_EPSILON))
    assert 'name="mean · search · precision · ε 0.5"' in junit.document(record)
    page = markdown.document(record)
    assert "| verdict | mechanism | attack | ε |" in page
    assert "✗ violated | mean | bits | 1 |" in page
    assert "| ! failed | mean | – | 4 |" in page
