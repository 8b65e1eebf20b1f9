"""The exact check of queries: of one pair, in a search, and what a record says of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from support import black_boxes
from support.tiers import mostly_slow

from dpframe import HostMechanism, Mechanism, Neighbourhood, PureDP, Values, exit_code
from dpframe.builtin.program import Program
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.pool import Workers
from dpframe.draw.sensitivity import SensitivityCheck
from dpframe.errors import CellError
from dpframe.interfaces.mechanism import consent
from dpframe.report import findings, verdict_text
from dpframe.report.verdict_text import OutcomeKind, outcome
from dpframe.report.witness import as_tables, as_test, witness_of
from dpframe.results import store as records
from dpframe.results.store import as_record, disagreement
from dpframe.spec.audit import RunSettings


class Sum(HostMechanism, name="sum"):
    """A sum with so much noise that no draw shows what its query does."""

    bound: float = 1.0
    sensitivity: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def query(self, data: Any) -> Any:
        return np.clip(data, 0.0, self.bound).sum()

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return rng.laplace(scale=1000.0, size=(n, 1))


def pair(d0: Any, d1: Any) -> Values:
    return Values(d0=d0, d1=d1)


ONE, FAR = pair([0.0, 0.0], [0.0, 1.0]), pair([0.0, 0.0], [0.0, 9.0])


def looked(mechanism: Any, *pairs: Any) -> tuple[Any, list[Any]]:
    check = SensitivityCheck(mechanism, InProcessWorkers(), RunSettings())
    order = check.look(pairs)
    return check.record, order


def test_a_clipped_sum_keeps_to_its_sensitivity() -> None:
    found, order = looked(Sum(), ONE, FAR)
    assert (found.pairs, found.exceeding, found.witnesses, found.notes) == (2, 0, [], [])
    assert order == [ONE, FAR]


def test_one_that_is_clipped_too_late_does_not() -> None:
    found, order = looked(Sum(bound=5.0), ONE, FAR)
    assert (found.pairs, found.exceeding) == (2, 1)
    (worst,) = found.witnesses
    assert (worst.kind, worst.pair.params, worst.change, worst.factor) == (
        "change",
        FAR.params(),
        5.0,
        5.0,
    )
    assert worst.words == (
        "its query changes from 0 to 5, by 5, and its noise is scaled for 1: 5 times as much"
    )
    assert order == [FAR, ONE]  # a search begins with what moves most


class Given(HostMechanism, name="given-query"):
    """A mechanism whose query the test hands over."""

    norm: ClassVar[float] = 1
    ask: ClassVar[Any] = None
    say: ClassVar[Any] = 1.0

    def query(self, data: Any) -> Any:
        return type(self).ask(data)

    def sensitivity(self, pair: Any) -> float:
        return type(self).say

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return rng.random((n, 1))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(ask: Any, say: Any = 1.0, norm: Any = 1) -> Given:
        for name, value in (("ask", staticmethod(ask)), ("say", say), ("norm", norm)):
            monkeypatch.setattr(Given, name, value)
        return Given()

    return make


def raises(data: Any) -> Any:
    if data.any():
        raise ValueError(f"{data[1]} is out of bounds")
    return 0.0


def grows(data: Any) -> Any:
    return np.zeros(int(data.sum()))


@pytest.mark.parametrize(
    ("ask", "kind", "words"),
    [
        (lambda data: math.nan if data.any() else 0.0, "not a number", "returns 0 on D and nan on"),
        (lambda data: math.inf if data.any() else 0.0, "not a number", "returns 0 on D and inf on"),
        (grows, "shape", "returns shape (0,) on D and shape (1,) on D′"),
        (raises, "raises", "raises ValueError: # is out of bounds on D′"),
    ],
)
def test_changes_without_a_size(given: Any, ask: Any, kind: str, words: str) -> None:
    found, _ = looked(given(ask), ONE)
    (worst,) = found.witnesses
    assert (worst.kind, worst.factor, found.exceeding) == (kind, None, 1)
    assert words in worst.words


def test_what_is_the_same_on_both_sides_is_no_change(given: Any) -> None:
    found, _ = looked(given(lambda data: [math.nan, math.inf, data.sum()]), ONE)
    assert (found.pairs, found.exceeding) == (1, 0)

    def never(data: Any) -> Any:
        raise ValueError("never")

    found, _ = looked(given(never), ONE)
    assert (found.pairs, found.exceeding) == (0, 0)  # nothing was compared
    assert "ValueError: never" in found.notes[0]


@pytest.mark.parametrize(("norm", "exceeds"), [(1, True), (2, True), (math.inf, False)])
def test_norms(given: Any, norm: float, exceeds: bool) -> None:
    found, _ = looked(given(lambda data: np.ones(2) * data.sum(), 1.0, norm), ONE)
    assert found.exceeding == exceeds
    assert found.norm == norm


def test_rounding_is_a_note(given: Any) -> None:
    found, _ = looked(given(lambda data: 0.3 * data.sum() + 1, 0.3), ONE)
    assert found.exceeding == 0
    assert found.notes[0].startswith("rounding: ")
    # Rounding is no small matter for large numbers: next to 2⁵³ floats are 2 apart.
    found, _ = looked(given(lambda data: 2.0**53 + 3 * data.sum()), ONE)
    assert found.witnesses[0].factor == 4


@pytest.mark.parametrize(
    ("ask", "say", "norm", "message"),
    [
        (lambda data: np.random.random(), 1.0, 1, "two different answers for the same data"),
        (lambda data: "3", 1.0, 1, "numbers, not str"),
        (np.sum, math.nan, 1, "sensitivity is nan"),
        (np.sum, -1.0, 1, "sensitivity is -1"),
        (np.sum, None, 1, "must define its sensitivity"),
        (np.sum, 1.0, 3, "norm is 3"),
    ],
)
def test_mistakes_of_authors(given: Any, ask: Any, say: Any, norm: Any, message: str) -> None:
    with pytest.raises(CellError, match=message):
        looked(given(ask, say, norm), ONE)


class Traced(Mechanism, name="traced-sum"):
    """Twice the sum, with noise for once."""

    sensitivity: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def query(self, data: Any) -> Any:
        return 2 * data.sum()

    def release(self, key: Any, data: Any) -> Any:
        import jax

        return jax.random.laplace(key, (1,)) * 1000


class Few(Neighbourhood, name="few"):
    """Three pairs, of which the last moves the sum most."""

    adjacency = "as given"

    def propose(self, rng: Any, history: Any) -> Any:
        return () if history else (pair([0.0], [0.5]), pair([0.0], [1.0]), pair([0.0], [7.0]))


FIXED = {"pair": {"use": "values", "params": {"d0": [0.0], "d1": [3.0]}}}


def audited(mechanism: Any, plugin: Any, **tables: Any) -> Any:
    spec = black_boxes.spec(mechanism, **tables)
    if "search" in tables:
        spec = {k: v for k, v in spec.items() if k not in ("pair", "attack", "estimator")}
        spec["attack"] = [{"use": "identity"}]
        spec["audit"] = {**spec["audit"], "trials": 2_000}
    return as_record(black_boxes.record(spec, plugins=[plugin, Few]))


@pytest.mark.parametrize("plugin", mostly_slow([Sum, Traced], (0,)))
@pytest.mark.parametrize("tables", [FIXED, {"search": {"use": "few"}}])
def test_a_violation_of_its_own_kind(plugin: Any, tables: dict[str, Any]) -> None:
    params = {"bound": 5.0} if plugin is Sum else {}
    record = audited({"use": plugin.name, "params": params}, plugin, **tables)
    (cell,) = record.cells
    assert cell.verdict != "violated"  # the noise hides it
    worst = cell.exact.witnesses[0]
    assert cell.exact.exceeding == (1 if "pair" in tables or plugin is Sum else 2)
    assert worst.factor == (3 if plugin is Sum else 6) if "pair" in tables else worst.factor > 4
    assert exit_code(record) == 1
    assert outcome(cell).kind is OutcomeKind.FAILED
    assert "exact" in outcome(cell).message
    said = verdict_text.headline(record)
    assert said.grave
    assert str(said).startswith("The mechanism changes by more than its noise is scaled for (exact")
    assert any(worst.words in sentence for sentence in findings.caveats(record))
    assert disagreement(record, json.loads(records.dumps(record))) is None


def test_an_expected_one_is_met() -> None:
    use = {"use": "sum", "params": {"bound": 5.0}}
    met = audited(use, Sum, **FIXED, expect=[{"verdict": "violated"}])
    assert exit_code(met) == 0
    assert outcome(met.cells[0]).kind is OutcomeKind.PASSED
    assert verdict_text.expectations(met).met
    unmet = audited(use, Sum, **FIXED, expect=[{"verdict": met.cells[0].verdict}])
    assert exit_code(unmet) == 1


def test_its_witness_is_a_spec_and_a_test() -> None:
    record = audited({"use": "sum", "params": {"bound": 5.0}}, Sum, search={"use": "few"})
    cell = witness_of(record)
    spec = as_tables(cell)
    assert spec["pair"]["params"] == {"d0": [0.0], "d1": [7.0], "adjacency": "as given"}
    assert spec["expect"] == [{"verdict": "violated"}]
    spec["audit"]["trials"] = 1_000
    again = as_record(black_boxes.record(spec, plugins=[Sum, Few]))
    assert exit_code(again) == 0
    assert again.cells[0].exact.exceeding == 1
    names: dict[str, Any] = {}
    exec(as_test(cell), names)
    names["dpframe"] = SimpleNamespace(audit=lambda spec: again)
    with pytest.raises(AssertionError):
        names["test_sum_keeps_its_claim"]()


def test_what_keeps_to_it_is_told_for_what_it_is() -> None:
    record = audited({"use": "sum"}, Sum, **FIXED)
    assert exit_code(record) == 0
    (said,) = [s for s in findings.caveats(record) if "stays within its sensitivity" in s]
    assert "says nothing about other pairs" in said


@pytest.mark.slow
def test_a_query_in_a_worker_process() -> None:
    with Workers(2) as workers:
        check = SensitivityCheck(Sum(bound=5.0), workers, RunSettings())
        check.look([ONE, FAR])
    assert (check.record.pairs, check.record.exceeding) == (2, 1)


PROGRAM = """
def prepare(params, data):
    return lambda: 0.0

def query(params, data):
    if len(data) < 2:
        raise ValueError("too few: 1")
    return sum(min(x, params["bound"]) for x in data)

def sensitivity(params):
    return params["made_for"]
"""


def test_a_query_of_a_plain_module(tmp_path: Path) -> None:
    """In a worker that knows nothing of dpframe; the module itself says what its noise is for."""
    path = tmp_path / "box.py"
    path.write_text(PROGRAM)
    consent(path)
    params = {"bound": 5.0, "made_for": 2.0}
    program = Program.from_params({"module": str(path), "params": params})
    with Workers(2) as workers:
        check = SensitivityCheck(program, workers, RunSettings())
        check.look([ONE, FAR, pair([1.0], [1.0, 1.0])])
    found = check.record
    assert (found.pairs, found.exceeding) == (3, 2)
    assert [one.kind for one in found.witnesses] == ["change", "raises"]
    assert found.witnesses[0].factor == 2.5
    assert "too few: #" in found.witnesses[1].words
    path.write_text(PROGRAM.replace("def sensitivity", "def another"))
    assert not program.has_query()  # no sensitivity is given
