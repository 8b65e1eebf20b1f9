"""The event that a search shows is one that many draws speak for."""

from __future__ import annotations

import functools
import io
import math
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.special import bdtrc

import dpframe
from dpframe import Neighbourhood, PureDP, Values
from dpframe.count.events import Seen
from dpframe.report.delivery import report_as
from dpframe.report.figures.curves import certified_profile
from dpframe.report.terminal.render import render
from dpframe.search.leaks import most_telling
from dpframe.search.search import SearchRun
from dpframe.search.wealth import Wealth
from dpframe.stats.betting import events


def test_few_lucky_draws_are_not_the_most_telling() -> None:
    seen = Seen(np.array([[40_000, 0], [16_000, 3]]), 100_000)
    number, loss, most = most_telling(seen, 0.0)
    assert loss < most < 1.1 * loss
    q, p = events(*seen[:2])[number]
    assert (int(q), int(p)) == (16_000, 40_000)
    assert loss == pytest.approx(math.log(2.5), abs=1e-3)


def test_a_delta_is_taken_off() -> None:
    seen = Seen(np.array([[1_000], [4_000]]), 10_000)
    assert most_telling(seen, 0.1)[1] == pytest.approx(math.log(3), abs=2e-3)
    assert most_telling(seen, 0.999)[1] == 0.0


def test_ends() -> None:
    for above in ([[0], [0]], [[9], [0]], [[9], [9]]):
        assert math.isfinite(most_telling(Seen(np.array(above), 9), 0.0)[1])


class Shifted(Neighbourhood, name="shifted"):
    """Pairs which all lose exactly what is claimed."""

    adjacency = "replace one record"

    def propose(self, rng: np.random.Generator, history: Any) -> Any:
        return [Values(d0=(7.0 * n,), d1=(7.0 * n + 1,)) for n in range(4) if not history]


NULL: dict[str, Any] = {
    "schema": 1,
    "audit": {"name": "null", "trials": 6_000, "confidence": 0.1, "multiplicity": "none"},
    "search": {"use": "shifted"},
    "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0, "sensitivity": 1.0}}],
    "attack": [{"use": "projection"}],
    "run": {"chunk": 64},
}


def test_a_bound_above_the_claim_comes_with_its_refutation_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bounds and the verdict have budgets of their own; here the bounds' one is lucky."""
    profile = (0.0, 0.9), (0.5, 0.8), (1.0, 0.7), (1.2, 0.6)
    monkeypatch.setattr(Wealth, "bound", lambda *_: 1.5)
    monkeypatch.setattr(Wealth, "profile", lambda *_: profile)
    spec = {**NULL, "audit": {**NULL["audit"], "confidence": 0.999}}
    (cell,) = dpframe.audit(spec, plugins=[Shifted]).cells
    assert (cell.verdict, cell.estimate.epsilon_lower) == ("consistent", 1.0)
    allowed = [[e, PureDP(1.0).delta_at(e)] for e, _ in profile]
    assert cell.estimate.profile_lower == allowed
    monkeypatch.setattr(SearchRun, "is_refuted", lambda _: True)
    (cell,) = dpframe.audit(spec, plugins=[Shifted]).cells
    assert cell.estimate.epsilon_lower == 1.5
    assert cell.estimate.profile_lower == list(map(list, profile))


@functools.cache
def violated() -> dpframe.Record:
    """Return a search of Laplace noise of half the claimed scale."""
    half = [{"use": "laplace-half-scale", "params": {"epsilon": 1.0, "sensitivity": 1.0}}]
    audit = {**NULL["audit"], "trials": 40_000, "confidence": 0.999}
    return dpframe.audit({**NULL, "audit": audit, "mechanism": half}, plugins=[Shifted])


def test_a_search_certifies_the_profile_of_its_witness() -> None:
    (cell,) = violated().cells
    epsilons, deltas = np.array(cell.estimate.profile_lower).T
    true = np.maximum(0, -np.expm1((epsilons - 2) / 2))
    assert (deltas <= true).all()
    assert deltas[0] > 0.75 * true[0]
    assert np.max(epsilons[deltas > 0]) <= cell.estimate.epsilon_lower + 1e-5
    assert certified_profile(cell, np.zeros(1)) == pytest.approx(deltas[:1])  # as figures draw it


@pytest.mark.slow
def test_reports_say_if_all_pairs_together_refute_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the witness alone is below the claim, and so is its profile."""
    monkeypatch.setattr(Wealth, "bound", lambda *_: 0.9789)
    monkeypatch.setattr(Wealth, "profile", lambda *_: ((0.0, 0.45), (0.9, 0.01)))
    half = [{"use": "laplace-half-scale", "params": {"epsilon": 1.0, "sensitivity": 1.0}}]
    record = dpframe.audit({**NULL, "mechanism": half}, plugins=[Shifted])
    (cell,) = record.cells
    assert cell.verdict == "violated"
    told = "refuted by all pairs together; best single pair ≥ 0.978"
    assert str(cell.reason).startswith(told)
    file = io.StringIO()
    render(record, Console(file=file, width=200))
    assert told in file.getvalue()
    monkeypatch.setattr(Wealth, "profile", lambda *_: ((0.0, 0.45), (0.9, 0.1)))
    (cell,) = dpframe.audit({**NULL, "mechanism": half}, plugins=[Shifted]).cells
    claimed = f"at δ = 0.1, claimed {PureDP(1.0).epsilon_at(0.1):.4g}"
    assert cell.reason == f"loss certified above 0.9 {claimed}"


@pytest.mark.slow
def test_a_witness_without_words_shows_outputs_in_its_event_and_outside() -> None:
    record = violated()
    (cell,) = record.cells
    found = cell.search
    assert found is not None
    name, _, rest = found.event.partition(" scores ")
    assert name == "projection"
    edge = float(rest.split()[-1] if rest.startswith("less") else rest.split()[0])
    (d0,), (d1,) = cell.pair.params["d0"], cell.pair.params["d1"]
    for outputs, is_inside in ((found.inside, True), (found.outside, False)):
        assert len(set(outputs)) == 3
        for output in map(float, outputs):
            above = (output - (d0 + d1) / 2) / (d1 - d0) >= edge
            assert (above != rest.startswith("less")) == is_inside, (output, found.event)
    assert f"Outputs in this event: {'; '.join(found.inside)}." in report_as(".html", record)


@pytest.mark.slow
def test_no_search_certifies_more_than_a_claim_that_stands() -> None:
    """Exact nulls at an error of .9, where bounds are often wrong; seed 134 once certified 1.03."""
    sweep = {"audit.seed": list(range(100, 200))}
    cells = dpframe.audit({**NULL, "sweep": sweep}, plugins=[Shifted]).cells
    assert all(c.verdict == "violated" or c.estimate.epsilon_lower <= 1 for c in cells)
    assert sum(c.verdict == "violated" for c in cells) > 10  # not vacuous


@pytest.mark.slow
def test_known_leaks_refute_a_true_claim_no_more_often() -> None:
    """Exact nulls at an error of .5; false-alarm rate 1e-6 for each way to search."""
    seeds = list(range(60))
    audit = {**NULL["audit"], "confidence": 0.5}
    counts = []
    for search in ({"findings": 3}, {"ignore": ["projection scores # or more"]}, {"findings": 1}):
        tables = {"search": {"use": "shifted", **search}, "sweep": {"audit.seed": seeds}}
        every = dpframe.audit({**NULL, "audit": audit, **tables}, plugins=[Shifted]).cells
        cells = [cell for cell in every if cell.status == "ok"]
        # By chance all four pairs may show the leak that is ignored, and then none is left.
        rest = [cell.reason or "" for cell in every if cell.status != "ok"]
        assert all(reason.startswith("all pairs show ignored leaks") for reason in rest)
        assert len(rest) <= ("ignore" in search) * 5
        above = sum(cell.verdict == "violated" for cell in cells)
        assert above == 0 or bdtrc(above - 1, len(cells), 0.5) > 1e-6
        counts.append(above)
        ignored = sum("is ignored: " in note for c in cells for note in c.estimate.notes)
        assert ignored == (len(cells) if "ignore" in search else 0)
    assert counts[1] <= counts[2]
    assert counts[0] > 0  # not vacuous
