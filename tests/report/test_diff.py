"""The difference between two records: what got worse, and what is no more than noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from support import made_records

from dpframe.report import diff as told
from dpframe.report.diff import LEVEL, Match, changes, differ, match, worse
from dpframe.results.store import as_record


def record(*cells, **changed):
    found = made_records.record(cells, **changed)
    for cell in found["cells"]:
        cell["statistic"] = cell["statistic"] or {"name": "DecisionCounts"}
    return as_record(found)


def compared(old, new):
    return changes(record(*old), record(*new))


def text(old, new):
    before, after = record(*old), record(*new)
    return "\n".join(told.lines(before, after, changes(before, after)))


CONSISTENT = {"verdict": "consistent", "expected": None}
VIOLATED = {"verdict": "violated", "expected": None}
OPEN = {"verdict": "inconclusive", "expected": None}
SILENT = {"verdict": None, "expected": None}
FAILED = {"status": "failed", "verdict": None, "estimate": None, "reason": "no", "expected": None}


@pytest.mark.parametrize(
    ("old", "new", "is_worse"),
    [
        (CONSISTENT, CONSISTENT, False),
        (CONSISTENT, VIOLATED, True),
        (OPEN, VIOLATED, True),
        (SILENT, VIOLATED, True),
        (VIOLATED, CONSISTENT, False),
        (CONSISTENT, OPEN, True),
        (VIOLATED, OPEN, True),
        (CONSISTENT, SILENT, True),
        (OPEN, SILENT, False),
        (OPEN, CONSISTENT, False),
        (SILENT, FAILED, True),
        (VIOLATED, FAILED, True),
        (FAILED, FAILED, False),
        (FAILED, CONSISTENT, False),
        (FAILED, VIOLATED, True),
        (CONSISTENT, VIOLATED | {"expected": "violated"}, False),
        (VIOLATED | {"expected": "violated"}, CONSISTENT | {"expected": "violated"}, True),
        (CONSISTENT | {"expected": "consistent"}, CONSISTENT | {"expected": "violated"}, True),
        (VIOLATED, VIOLATED | {"expected": "consistent"}, False),
    ],
)
def test_what_is_worse(old, new, is_worse):
    found = compared([made_records.cell() | old], [made_records.cell() | new])
    assert bool(found.worse) == is_worse
    assert (worse(found.matches.both[0]) is not None) == is_worse
    if old["verdict"] != new["verdict"]:
        assert len(found.verdicts) == 1


def test_a_cell_that_is_gone_is_worse_if_it_had_a_verdict():
    kept = made_records.cell()
    assert compared([kept, made_records.cell(epsilon=2.0)], [kept]).worse == 1
    assert compared([kept, made_records.estimate_only(epsilon=2.0)], [kept]).worse == 0
    assert compared([kept], [kept, made_records.cell("dptext", 2.0)]).worse == 0
    assert compared([kept], []).worse == 1


def test_cells_are_found_by_id_and_under_other_labels():
    one, two = made_records.cell(epsilon=1.0), made_records.cell(epsilon=2.0)
    other = made_records.cell(epsilon=2.0) | {"id": "another"}
    other["mechanism"] = {**other["mechanism"], "label": "new name"}
    found = match(record(one, two).cells, record(other, one).cells)
    assert [(p.old.id, p.new.id, p.renamed) for p in found.both] == [
        (two["id"], "another", True),
        (one["id"], one["id"], False),
    ]
    assert (found.gone, found.new) == ([], [])
    assert "Cells with other labels (1)" in text([one, two], [other, one])


def test_of_two_that_could_be_meant_neither_is():
    one = made_records.cell()
    twins = [made_records.cell() | {"id": name} for name in ("a", "b")]
    found = match(record(one).cells, record(*twins).cells)
    assert (found.both, len(found.gone), len(found.new)) == ([], 1, 2)


def counted(k0, k1, n, **changed):
    cell = made_records.cell(trials=n)
    return cell | {"counts": [[n - k0, k0], [n - k1, k1]], **changed}


def test_counts_that_differ_by_chance_are_no_change():
    """At LEVEL for all cells together; the rate itself is seen with a false alarm rate of 1e-6."""
    rng, n, cells, repeats = np.random.default_rng(7), 400, 3, 100
    alarms = 0
    for p in (0.002, 0.5):
        for _ in range(repeats):
            draws = rng.binomial(n, p, size=(cells, 2, 2))
            pairs = [
                Match(*(made_records.typed(counted(*map(int, k), n)) for k in old_new))
                for old_new in draws
            ]
            alarms += any(differ(pair, cells) for pair in pairs)
    most = next(k for k in range(2 * repeats) if special.bdtrc(k, 2 * repeats, LEVEL) < 1e-6)
    assert alarms <= most


@pytest.mark.parametrize(("old", "new"), [((200, 200), (270, 200)), ((0, 0), (0, 25))])
def test_counts_that_differ_beyond_chance_are(old, new):
    a, b = (made_records.typed(counted(*k, 400)) for k in (old, new))
    assert differ(Match(a, b), 2)
    assert differ(Match(b, a), 2)
    assert not differ(Match(a, a), 2)


def test_another_number_of_trials_alone_is_no_change():
    found = compared([counted(200, 300, 400)], [counted(2000, 3000, 4000)])
    assert (found.bounds, found.tested) == ([], 1)
    found = compared([counted(200, 300, 400)], [counted(2000, 2000, 4000)])
    assert len(found.bounds) == 1


def test_other_events_are_compared_by_their_limits_only():
    def limited(low, high, of="every cut", **statistic):
        cell = counted(200, 300, 400, statistic={"name": "PilotGrid", **statistic})
        cell["estimate"] |= {"epsilon_lower": low, "epsilon_upper": high, "epsilon_upper_of": of}
        return cell

    old = limited(0.1, 0.5, edges=[1.0])
    assert compared([old], [limited(0.4, 0.9, edges=[2.0])]).bounds == []
    found = compared([old], [limited(0.6, 0.9, edges=[2.0])])
    assert (len(found.bounds), found.tested) == (1, 0)
    assert compared([old], [limited(0.6, 0.9, "chosen thresholds", edges=[2.0])]).bounds == []


@pytest.mark.parametrize("counts", [None, [[1, 2]], [[1, 2], [3]], [[500, 0], [1, 2]], "no"])
def test_counts_that_are_none_are_not_compared(counts):
    odd = counted(200, 300, 400) | {"counts": counts}
    assert compared([odd], [counted(1, 399, 400)]).tested == 0


def test_claims_are_compared_as_numbers():
    old, new = made_records.cell(), made_records.cell()
    new["claim"] = made_records.pure_claim(1.0 + 1e-13)
    assert compared([old], [new]).claims == []
    new["claim"] = made_records.pure_claim(1.1)
    assert len(compared([old], [new]).claims) == 1
    assert "pure-dp ε = 1 → pure-dp ε = 1.1" in text([old], [new])
    new["claim"] = None
    assert "→ nothing claimed" in text([old], [new | {"verdict": None}])
    old["claim"] = {**made_records.pure_claim(1.0), "epsilon": "inf"}
    assert compared([old], [old]).claims == []


def test_what_got_worse_is_said_first_and_nothing_is_called_private():
    calm = made_records.cell(epsilon=2.0)
    said = text([made_records.cell() | CONSISTENT, calm], [made_records.cell() | VIOLATED, calm])
    assert "Verdicts that got worse (1):\n  laplace · majority-vote · precision · ε 1, " in said
    assert "no violation found → violated" in said
    assert "1 verdict got worse, of 2 cells in both." in said
    assert "private" not in said
    same = text([calm], [calm])
    assert "No verdict, claim or bound changed beyond noise, of 1 cell in both." in same


def test_long_lists_are_cut_and_json_has_them_all():
    old = [made_records.cell(epsilon=float(e)) | CONSISTENT for e in range(1, 41)]
    new = [cell | VIOLATED for cell in old]
    assert "… and 20 more; --json has them all" in text(old, new)
    before, after = record(*old), record(*new)
    found = told.as_json(before, after, changes(before, after))
    assert (found["worse"], len(found["verdicts"]), found["kind"]) == (40, 40, "diff")
