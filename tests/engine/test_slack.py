"""Slack: parts that add up to claimed − certified ε, and that say what is unknown."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st
from scipy import stats
from support import made_records
from support.record_checks import check_slack_adds_up
from support.small_audits import PLUGINS, ROWS, document

import dpframe
from dpframe.claims import GaussianDP, PureDP
from dpframe.engine.estimate import slack
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimate, Query
from dpframe.report import html, verdict_text
from dpframe.results.model import SlackRecord
from dpframe.results.store import as_record
from dpframe.results.verdict import Looks

ONE = PureDP(1.0)
CONFIDENCE, PARTS = 0.95, tuple(name for name in SlackRecord.model_fields if name != "limit")
BOUNDS = {0.5: 0.8, CONFIDENCE: 0.6, 1 - 0.05 / 4: 0.5, 1 - 0.05 / 4 / 6: 0.4}


def divided(
    claim: Any = ONE,
    lower: float | None = 0.4,
    *,
    truth: Any = None,
    shares: Any = None,
    upper: float | None = math.inf,
    of: Any = None,
    bounds: Any = None,
    cells: int = 4,
    look: int = 2,
) -> SlackRecord | None:
    """The slack of a bound that is known at every level."""
    looks, known = Looks(number=look), bounds or BOUNDS
    query = Query((100, 100), 0.0, 1 - 0.05 / cells / looks.price, claim, 1e-6)
    found = Estimate(1.0, lower, upper, epsilon_upper_of=of)

    def bound_of(asked: Query) -> float:
        assert asked.resolution == 0  # it is a part of its own, the last one
        return next(b for c, b in known.items() if math.isclose(c, asked.confidence))

    return slack(query, CONFIDENCE, looks, found, truth, shares, bound_of)


def test_each_part_is_one_value_less_the_next() -> None:
    shares = [[0.5, 0.5], [0.8, 0.2]]
    limit = math.log(0.5 / 0.2)
    found = divided(PureDP(9.0), 0.375, truth=PureDP(3.0), shares=shares)
    assert found is not None
    assert found.limit == "exact"
    parts = [getattr(found, part) for part in PARTS]
    assert parts == pytest.approx([6.0, 3.0 - limit, limit - 0.8, 0.2, 0.1, 0.1, 0.025])


def test_parts_are_those_of_the_clopper_pearson_limits_at_four_levels() -> None:
    spec = document(
        audit={"trials": 1024, "confidence": 0.9},
        mechanism=[
            {"use": "flip", "label": f"at {e}", "params": {"epsilon": e}} for e in (1.0, 2.0)
        ],
        attack=[{"use": "above"}],
        estimator=[{"use": "precision"}],
    )
    for cell in dpframe.audit(spec, plugins=PLUGINS).cells:
        (kept, n), (missed, _) = [(row[1], sum(row)) for row in cell.counts]

        def naive(error: float, a: int = kept, b: int = missed, n: int = n) -> float:
            def ratio(few: int, many: int) -> float:
                most = stats.beta.ppf(1 - error / 4, few + 1, n - few) if few < n else 1.0
                least = stats.beta.ppf(error / 4, many, n - many + 1) if many else 0.0
                return math.log(least / most) if least > most else 0.0

            return max(ratio(a, b), ratio(n - b, n - a))

        assert cell.slack is not None
        at = [naive(error) for error in (0.5, 0.1, 0.05)]
        assert cell.estimate.epsilon_lower == pytest.approx(at[-1], abs=1e-7)
        assert cell.slack.confidence == pytest.approx(at[0] - at[1], abs=1e-7)
        assert cell.slack.cells == pytest.approx(at[1] - at[2], abs=1e-7)
        assert cell.slack.looks == cell.slack.resolution == 0


sizes = st.floats(0, 50)
rates = st.floats(0.001, 0.999)


@given(
    sizes,
    sizes,
    st.lists(sizes, min_size=4, max_size=4),
    st.none() | sizes | st.just(math.inf),
    st.none() | st.tuples(rates, rates),
    st.none() | sizes | st.just(math.inf),
    st.integers(1, 300),
    st.integers(1, 9),
)
def test_parts_add_up(
    claimed: float,
    lower: float,
    bounds: Any,
    truth: float | None,
    shares: Any,
    upper: float | None,
    cells: int,
    look: int,
) -> None:
    errors = (0.5, 0.05, 0.05 / cells, 0.05 / cells / Looks(number=look).price)
    found = divided(
        PureDP(claimed),
        lower,
        truth=GaussianDP(1.0) if truth == math.inf else None if truth is None else PureDP(truth),
        shares=None if shares is None else [[1 - p, p] for p in shares],
        upper=upper,
        of="every event",
        bounds={1 - error: bound for error, bound in zip(errors, bounds, strict=True)},
        cells=cells,
        look=look,
    )
    assert found is not None
    parts = [getattr(found, part) for part in PARTS]
    assert math.isclose(math.fsum(p for p in parts if p is not None), claimed - lower, abs_tol=1e-9)
    assert (found.pair is None) == (truth is None or truth == math.inf)
    unlimited = shares is None and min(math.inf if v is None else v for v in (upper,)) == math.inf
    assert (found.attack is None) == (found.limit is None)
    assert (found.limit == "exact") == (shares is not None)
    if unlimited and (upper is None or found.pair is None):
        assert found.attack is None


def test_luck_that_favours_the_attack_is_a_negative_part() -> None:
    found = divided(truth=PureDP(0.3), upper=0.9, of="every event")
    assert found is not None
    assert found.pair == 0.7
    assert (found.limit, found.attack) == ("learned", 0)  # no event shows more than the pair loses
    assert found.sampling == pytest.approx(0.3 - 0.8)


@pytest.mark.parametrize(
    "changes",
    [
        {"claim": None},
        {"claim": GaussianDP(1.0)},  # no finite ε at δ = 0
        {"lower": None},
        {"bounds": dict.fromkeys(BOUNDS, math.inf)},
        {"bounds": dict.fromkeys(BOUNDS, math.nan)},
    ],
)
def test_without_claim_or_bounds_there_is_no_slack(changes: Any) -> None:
    assert divided(**changes) is None


def test_an_estimator_that_refuses_a_level_has_no_slack() -> None:
    def bound_of(asked: Query) -> float:
        if asked.confidence < 0.9:
            raise CellError("no such level")
        return 0.4

    query = Query((10, 10), 0.0, 0.95, PureDP(1.0), 0.0)
    assert slack(query, 0.95, Looks(1), Estimate(1.0, 0.4), None, None, bound_of) is None


def test_a_bound_of_zero_leaves_the_whole_claim_to_the_parts_that_are_known() -> None:
    found = divided(lower=0.0, truth=PureDP(0.5), bounds=dict.fromkeys(BOUNDS, 0.0))
    assert found is not None
    assert [getattr(found, part) for part in PARTS] == [0.5, None, 0.5, 0, 0, 0, 0]


def test_what_is_unknown_or_limited_is_called_so() -> None:
    learned = divided(upper=0.9, of="every cut")
    for parts, texts in (
        (learned, ["pair unknown", "attack ≥ 0.100", "sampling ≤ 0.100"]),
        (divided(), ["pair unknown", "attack unknown", "sampling 0.200"]),
    ):
        assert parts is not None
        cell = made_records.cell(slack=parts.model_dump())
        (read,) = as_record(made_records.record([cell])).cells
        assert list(map(str, verdict_text.slack(read)))[:3] == texts
    page = html.document(as_record(made_records.record([cell])))
    assert "pair unknown, attack unknown, sampling 0.200, confidence 0.200" in page
    assert 'class="part-sampling"' in page
    assert 'class="part-attack" style' not in page


def test_every_certified_cell_of_a_bet_adds_up() -> None:
    spec = document(
        audit={"trials": 8 * ROWS},
        mechanism=[{"use": "flip", "params": {"epsilon": 1.0}}],
        attack=[{"use": "above"}],
        estimator=[{"use": "betting"}, {"use": "precision"}],
    )
    record = dpframe.audit(spec, plugins=PLUGINS)
    assert check_slack_adds_up(record) == 2
