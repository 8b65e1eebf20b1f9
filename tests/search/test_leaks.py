"""A search goes on past leaks that are known, and lists several in one run."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tomli
from support.black_boxes import sample_in_this_process
from support.command_line import dpframe as run

import dpframe
from dpframe import HostMechanism, PureDP, Values
from dpframe.commands.audit import load, make_plan
from dpframe.engine import run as engine
from dpframe.engine.ledger import Ledger
from dpframe.errors import DpframeError, SpecError
from dpframe.report.findings import caveats
from dpframe.report.witness import as_tables, next_of, with_finding
from dpframe.results import store
from dpframe.search import leaks
from dpframe.search.leaks import KnownLeaks, without_values
from dpframe.search.search import SearchOutcome, SearchRun
from dpframe.search.wealth import PairWealth

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")

SCHEMA = [
    {"name": "age", "low": 0, "high": 100},
    {"name": "sex", "categories": ["m", "f"]},
]
TABLE = {"table": [[31, "m"], [47, "f"], [12, "m"], [80, "f"]], "schema": SCHEMA}


class Leaky(HostMechanism, name="leaky"):
    """A sum with four mistakes: NaN, unknown categories, no records, no clipping."""

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def release(self, rng: Any, data: Any) -> float:
        ages = np.array([age for age, _ in data], float)
        if np.isnan(ages).any():
            raise ValueError(f"record {np.argmax(np.isnan(ages))} is NaN")
        if not len(data):
            raise IndexError("no records")
        for _, sex in data:
            {"m": 0, "f": 1}[sex]
        return float(np.clip(ages, 0, 1e6).sum() / 100 + rng.laplace())


def spec(**search: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "audit": {"name": "leaky", "trials": 20_000},
        "search": {"use": "records", "params": {**TABLE, "adjacency": "add-remove"}, **search},
        "mechanism": [{"use": "leaky"}],
        "run": {"stop": "decided"},
    }


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)


NAN, UNKNOWN, EMPTY = "raises ValueError", "raises KeyError", "raises IndexError"


def kind(leak: str) -> str:
    return leak.partition(" at ")[0]


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_several_leaks_are_listed_in_one_run_each_with_its_witness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[PairWealth] = []
    begin = PairWealth.__init__
    monkeypatch.setattr(
        PairWealth, "__init__", lambda own, *args: (made.append(own), begin(own, *args))[1]
    )
    record = dpframe.audit(spec(findings=4), plugins=[Leaky])
    # Bounds share one error, however many leaks refute the claim in turn.
    assert 0.3 < sum(share for own in made for _, share in own.opened.values()) <= 1
    (cell,) = record.cells
    found = [cell.search.leak, *(one.leak for one in cell.search.findings)]
    assert cell.verdict == "violated"
    assert len(set(found)) == len(found) == 4
    (other,) = [leak for leak in found if kind(leak) not in (NAN, UNKNOWN, EMPTY)]
    assert len({*map(kind, found)}) == 4
    assert other.endswith("· a number out of bounds")
    assert any(leak.endswith("· NaN or a missing value") for leak in found)
    text = " ".join(caveats(record))
    for number, name in enumerate(found, 1):
        one = with_finding(cell, number)
        assert one.search.leak == name
        assert f"Witness {number} against leaky: {one.search.event}" in text
        assert as_tables(one, record)["pair"]["params"]["edit"] == one.pair.params["edit"]
    with pytest.raises(DpframeError, match="finding 5: the cell has 4"):
        with_finding(cell, 5)
    assert tomli.loads(next_of(record))["search"]["ignore"] == found
    file = store.write(record, tmp_path)
    told = run("show", file, "--next", cwd=tmp_path)
    assert json.loads(told.stdout.partition("ignore = ")[2]) == found
    assert (
        found[1].partition(" · ")[0].split(":")[0]
        in run("show", file, "--witness", "--finding", "2", cwd=tmp_path).stdout
    )


@pytest.mark.usefixtures("here")
def test_a_search_goes_on_to_the_next_leak() -> None:
    known: list[str] = []
    for _ in range(3):
        (cell,) = dpframe.audit(spec(ignore=known), plugins=[Leaky]).cells
        assert cell.verdict == "violated"
        assert cell.search.ignored == known
        assert cell.search.leak not in known
        assert sum("is ignored: 1 pair" in note for note in cell.estimate.notes) <= len(known)
        known.append(cell.search.leak)
    (cell,) = dpframe.audit(spec(ignore=["ValueError", "KeyError"]), plugins=[Leaky]).cells
    assert kind(cell.search.leak) not in (NAN, UNKNOWN)


@pytest.mark.usefixtures("here")
def test_nothing_is_consistent_where_all_pairs_show_what_is_ignored() -> None:
    tables = spec() | {"search": {"use": "one", "ignore": ["raises"]}}
    (cell,) = dpframe.audit(tables, plugins=[Leaky, One]).cells
    assert cell.status == "failed"
    assert "all pairs show ignored leaks" in str(cell.reason)


@pytest.mark.parametrize("part", ["#", "3", "4.5e6", "'nan'", "“a” 7"])
def test_a_value_is_no_part_of_the_name_of_a_leak(part: str) -> None:
    with pytest.raises(DpframeError, match="should hold a word of the leak's name"):
        dpframe.audit(spec(ignore=[part]), plugins=[Leaky])


class Loud(HostMechanism, name="loud"):
    """It always raises an exception on one dataset, and a pair that is not ignored is silent."""

    def claim(self, pair: Any) -> Any:
        return PureDP(5.0)

    def release(self, rng: Any, data: Any) -> float:
        if data[0] == 1:
            raise ValueError("no")
        return float(rng.random() < 0.5)


class Two(dpframe.Neighbourhood, name="two"):
    """One pair that shows a leak, and one that does not."""

    adjacency = "replace one record"

    def propose(self, rng: Any, history: Any) -> Any:
        loud, silent = Values(d0=(0.0,), d1=(1.0,)), Values(d0=(5.0,), d1=(5.5,))
        return () if history else (loud, silent)


@pytest.mark.usefixtures("here")
def test_nothing_is_consistent_by_what_an_ignored_leak_could_have_shown() -> None:
    """Most draws go to a pair before it shows that it is to be ignored."""
    for trials, verdict, least, most in (
        (900, "inconclusive", 0, 99),
        (2000, "consistent", 999, 1200),
    ):
        tables = spec() | {"search": {"use": "two", "ignore": ["raises"]}}
        tables |= {"audit": {"name": "loud", "trials": trials}, "mechanism": [{"use": "loud"}]}
        (cell,) = dpframe.audit(tables, plugins=[Loud, Two]).cells
        assert cell.verdict == verdict
        assert least < cell.search.pair_trials < most  # of the pair that is not ignored


class Endless(dpframe.Neighbourhood, name="endless"):
    """One pair that shows a leak, and then always another one in which nothing differs."""

    adjacency = "replace one record"

    def propose(self, rng: Any, history: Any) -> Any:
        end = 0.0 if history else 1.0
        return [Values(d0=(0.0,), d1=(end,), description=str(len(history)))]


@pytest.mark.usefixtures("here")
def test_a_search_ends_though_pairs_in_which_nothing_differs_are_proposed_forever() -> None:
    tables = spec() | {"search": {"use": "endless", "ignore": ["raises"]}}
    tables |= {"audit": {"name": "loud", "trials": 1500}, "mechanism": [{"use": "loud"}]}
    (cell,) = dpframe.audit(tables, plugins=[Loud, Endless]).cells
    assert "all pairs show ignored leaks" in str(cell.reason)


def test_a_later_finding_stands_where_a_dearer_look_takes_the_first() -> None:
    """Its wealth continues the first one's, so the claim is refuted by it."""

    def kept(*bests: float) -> list[tuple[float, bool]]:
        found = [SearchOutcome(None, SimpleNamespace(best=best), True, "") for best in bests]  # type: ignore[arg-type]
        settings = SimpleNamespace(look=lambda *_: None)
        own = SimpleNamespace(
            settings=settings,
            looks=None,
            error=1e-3,
            _rounds=[],
            outcomes=found,
            _early_refutation=None,
        )
        SearchRun.settle(own)  # type: ignore[arg-type]
        return [(one.wealth.best, one.refuted) for one in own.outcomes]

    assert kept(5.0, 90.0, 6.0) == [(90.0, True)]
    assert kept(5.0, 6.0) == [(5.0, False)]
    assert kept(50.0, 5.0, 60.0) == [(50.0, True), (60.0, True)]
    assert kept() == []


def test_a_search_for_a_bound_looks_for_known_leaks_again_once_its_evidence_is_given_back() -> None:
    for refuted in (True, False):
        own = SimpleNamespace(
            _draws_for_bound=True,
            is_refuted=lambda refuted=refuted: refuted,
            _begin_confirmation=lambda: None,
            _early_refutation=None,
        )
        assert not SearchRun._is_decided(own)  # type: ignore[arg-type]
        assert own._draws_for_bound == refuted


class One(dpframe.Neighbourhood, name="one"):
    """One pair, which shows a leak."""

    adjacency = "replace one record"
    one_shape = False

    def propose(self, rng: Any, history: Any) -> Any:
        pair = dpframe.Values(d0=[[1.0, "m"]], d1=[[float("nan"), "m"]])
        return () if history else (pair,)


@pytest.mark.slow
def test_what_is_ignored_is_part_of_the_question(tmp_path: Path) -> None:
    from support.searches import Three, spec as three

    def looked(**search: Any) -> Any:
        tables = three("laplace", trials=3_000, search={"use": "three", **search})
        loaded = load(tables, plugins=[Three])
        (result,) = engine.run(make_plan(loaded), ledger=Ledger(tmp_path))
        return result

    assert [looked().basis.look, looked(ignore=["decides"]).basis.look] == [1, 2]
    assert looked(findings=2).basis.look == 3
    assert looked().basis.look == 1


def test_a_name_has_no_values() -> None:
    assert without_values("is -1.5e-3 or 'a b', at 3") == "is #, at #"
    assert without_values("is from -2.1 to below 6e8") == "is #"
    both = "the output is below -0.5 or 99 or more"
    assert without_values(both) == without_values("the output is 7 or more") == "the output is #"
    assert without_values("raises E at a1.py:14, float32") == "raises E at a1.py:14, float32"
    known = KnownLeaks(["is 7 or more"])
    assert known.has("is # · NaN", math.inf)
    assert not known.has("returns # · NaN", math.inf)
    assert not KnownLeaks([])


def test_a_spec_says_what_is_ignored() -> None:
    for search, said in (
        ({"ignore": "a"}, "list"),
        ({"findings": 0}, "findings"),
        ({"ignore": [""]}, "ignore"),
    ):
        with pytest.raises(SpecError, match=said):
            load(spec(**search), plugins=[Leaky])
    loaded = load(spec(), plugins=[Leaky], overrides=['search.ignore=["x"]', "search.findings=3"])
    (cell,) = loaded.cells
    assert cell.search is not None
    assert (cell.search.ignore, cell.search.findings) == (("x",), 3)


def test_kinds_that_differ_in_numbers_are_named_once() -> None:
    kinds = [f"returns float64 array of shape (5,) with NaN at {place}" for place in (2, 5, 1)]
    event = leaks._short([*kinds, "returns None"])
    assert event == f"{kinds[0]} or 2 like it or returns None"
    assert leaks.roots_of(leaks.without_values(event)) == {"not finite"}
