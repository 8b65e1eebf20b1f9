"""Audits as a whole: the engine does what it should, and mistakes planted in it are noticed.

False alarms: the intervals miss a right engine with probability below 1e-6; seeds are fixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from support import whole_audits
from support.tiers import mostly_slow
from support.whole_audits import FALSE, Whole, promises_of, together

from dpframe.engine import ledger, ledger as inquiry
from dpframe.results import verdict, verdict as looks
from dpframe.results.verdict import Looks

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 4


@pytest.mark.parametrize(
    ("confidence", "audits"),
    mostly_slow([(0.95, 100), (0.95, whole_audits.AUDITS), (0.8, 3000)], [0]),
)
def test_a_right_engine_does_what_is_expected(confidence: float, audits: int) -> None:
    results = list(together(confidence, audits, SEED))
    for one, (promise, width) in zip(results, promises_of(results), strict=True):
        assert promise == "kept"
        assert 0.7 * (1 - confidence) < one.expected <= one.promised
        assert width < 0.3


def unordered(p_values: Any, m: int) -> Any:
    return np.minimum(np.asarray(p_values) * (m - np.arange(len(p_values))), 1.0)


def in_the_given_order(p_values: Any, m: int) -> Any:
    return np.maximum.accumulate(unordered(p_values, m))


def free(*_: Any) -> int:
    return 1


MISTAKES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, list[str]]] = {
    "Holm unordered": (
        lambda patch: patch.setattr(verdict, "holm", unordered),
        "_one_audit",
        ["kept", "broken"],
    ),
    "Holm in the order of the spec": (
        lambda patch: patch.setattr(verdict, "holm", in_the_given_order),
        "_one_audit",
        ["kept", "broken"],
    ),
    "divided by claims instead of bounds": (
        lambda patch: patch.setattr(
            inquiry, "share_of_error", lambda cell, plan: (1 - cell.confidence) / max(1, plan.m)
        ),
        "_one_audit",
        ["broken", "kept"],
    ),
    "looks are free for bounds": (
        lambda patch: patch.setattr(Looks, "price", property(free)),
        "_looks",
        ["broken"],
    ),
    "looks are free for verdicts": (
        lambda patch: patch.setattr(verdict, "look_price", free),
        "_looks",
        ["broken"],
    ),
    "looks are forgotten": (
        lambda patch: patch.setattr(ledger.Ledger, "write", lambda self: None),
        "_looks",
        ["broken"],
    ),
    "no slack for float32": (
        lambda patch: patch.setattr(inquiry, "FLOAT32_RESOLUTION", 0.0),
        "_slack",
        ["broken"],
    ),
}


SLOW = {
    "Holm in the order of the spec",
    "looks are free for bounds",
    "looks are free for verdicts",
    "looks are forgotten",  # tests/engine/test_ledger.py has more of them
    "no slack for float32",
}
"""Others like them are not, or take less."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MISTAKES],
)
def test_a_planted_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the part that is there for it; the other parts, which take as long, are left out."""
    plant, part, expected = MISTAKES[name]
    plant(monkeypatch)
    tried = getattr(whole_audits, part)(0.05, whole_audits.AUDITS, SEED)
    results = [tried] if isinstance(tried, whole_audits.Together) else list(tried)
    assert [promise for promise, _ in promises_of(results)] == expected


def test_looks_are_paid_for_as_the_ledger_says() -> None:
    assert [looks.look_price(number) for number in (1, 2, 3)] == [1, 6, 12]


# --- what is expected, from first principles


def test_the_largest_count_below_a_limit() -> None:
    from dpframe import clopper_pearson_upper

    for n, rate, error in ((4000, 0.02, 0.05), (5000, 0.02, 0.05 / 6), (300, 0.1, 0.002)):
        limits = clopper_pearson_upper(np.arange(n), n, error)
        assert whole_audits._largest(n, rate, error) == int(np.sum(limits < rate)) - 1
    assert whole_audits._largest(10, 0.02, 0.05) == -1
    assert whole_audits._below(10, 0.02, 0.05) == 0.0


def test_the_probability_of_any_look_is_that_of_simulated_ones() -> None:
    trials, rate, error = [200, 320, 512], 0.1, 0.2
    exact = whole_audits._any_look(trials, rate, error)
    rng = np.random.default_rng(0)
    counts = rng.binomial(np.diff([0, *trials]), rate, (100_000, 3)).cumsum(axis=1)
    limits = [
        whole_audits._largest(n, rate, error / price)
        for n, price in zip(trials, (1, 6, 12), strict=True)
    ]
    wrong = int((counts <= limits).any(axis=1).sum())
    assert stats.binomtest(wrong, 100_000, exact).pvalue > 1e-6
    alone = whole_audits._below(200, rate, error)
    assert alone < exact < 1.5 * error


def test_exact_cells_are_judged_by_the_engine() -> None:
    whole = Whole(0.02, 4000, 0.95, [FALSE, 1.0, None, None])
    assert (whole.plan.m, whole.plan.certifying_cells) == (2, 4)
    cells = whole.judged([80, 80, 80, 20])
    assert [cell.verdict for cell in cells] == ["violated", "consistent", None, None]
    assert [whole.exceeds(cell) for cell in cells] == [False, False, False, True]
    assert {cell.estimate.confidence for cell in cells if cell.estimate} == {1 - (1 - 0.95) / 4}
    p_value = cells[1].p_value
    assert p_value == pytest.approx(stats.binom.cdf(80, 4000, 0.02), rel=1e-6)
