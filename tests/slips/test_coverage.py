"""Searches state what they tried, what ended them, and the loss that they would have shown."""

import math
from typing import Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process

import dpframe
from dpframe.draw.in_process import InProcessWorkers
from dpframe.plugins import HostMechanism, Neighbourhood, PureDP, Values
from dpframe.pytest import UndecidedError, assert_dp


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("dpframe.pytest._workers", InProcessWorkers)
    sample_in_this_process(monkeypatch)


class Response(HostMechanism, name="response"):
    """Randomised response with another loss than the claimed one."""

    loss: float = 0.2
    style: str = "plain"

    def claim(self, pair):
        return PureDP(1.0)

    def release(self, rng, data):
        return int((rng.random() < 1 / (1 + math.exp(self.loss))) != (data[0] > 0))


class Featured(Neighbourhood, name="featured"):
    """Two of many pairs, which test two of three features."""

    adjacency = "any"
    told: tuple[str, ...] = ("zero", "NULL", "two tables")

    def propose(self, rng, history):
        return () if history else (_pair(1.0), _pair(2.0))

    def features(self, pair):
        return ["zero"] if pair.d1[0] == 1.0 else ["one", "zero"]

    def all_features(self):
        return self.told


def _pair(value):
    return Values(d0=[0.0], d1=[value], adjacency="any")


def audit(neighbourhood="featured", trials=200, run=(), **params):
    parameters = (
        {"parameters": {"mechanism.style": ["plain", "other"]}} if params.pop("vary", 0) else {}
    )
    spec = {
        "schema": 1,
        "audit": {"name": "coverage", "trials": trials},
        "search": {"use": neighbourhood, **parameters},
        "mechanism": [{"use": "response", "params": params}],
        "run": {"stop": "decided", **dict(run)},
    }
    return dpframe.audit(spec, plugins=[Response, Featured, Wrong]).cells[0]


def test_a_consistent_search_states_its_coverage():
    cell = audit()
    found = cell.search.coverage
    assert cell.verdict == "consistent"
    assert (found.ended_by, found.limit) == ("trials", 200)
    assert (found.proposed, found.drawn, found.raised) == (2, 2, 0)
    assert found.tried == ["zero", "one"]
    assert found.untried == ["NULL", "two tables", "another value of loss"]
    assert 1.5 < found.detectable <= found.detectable_median < 4
    assert "stopped at its limit of 200 trials" in cell.reason
    assert "never tried: NULL, two tables; not tried: other values of loss; add" in cell.reason
    assert (
        "or more (randomised response) would have been detected with probability 0.8" in cell.reason
    )


def test_a_search_of_parameters_lists_untried_values():
    cell = audit(trials=40, vary=True)
    assert cell.search.coverage.tried[-1] == "style = plain"
    assert cell.search.coverage.untried[-2:] == ["style = other", "another value of loss"]
    assert "proposed pairs were not drawn from" in cell.reason


def clipped(rng: Any, data: Any, epsilon: float = 1.0, clip: float = 1.0, name: str = "") -> Any:
    return np.clip(data, 0, clip).sum() + rng.laplace(scale=clip / epsilon)


def test_optional_arguments_of_a_function_are_named_as_untried(tmp_path):
    """But not those of the claim, and not texts, which usually name something."""
    terms = {"schema": [(0, 1)], "beyond": False, "adjacency": "replace", "out": tmp_path}
    record = dpframe.search_violation(clipped, [0.25, 0.75], epsilon=1.0, trials=600, **terms)
    (cell,) = record.cells
    assert cell.search.coverage.untried == ["another value of clip"]
    assert "not tried: other values of clip; add [search.parameters]" in cell.reason


def test_a_violation_states_no_loss_that_it_would_have_shown():
    found = audit(loss=30.0, trials=2_000).search.coverage
    assert (found.ended_by, found.limit, found.detectable) == ("decided", None, None)


def test_the_limit_of_time_is_named():
    cell = audit(trials=2**40, run={"seconds": 0.2})
    assert cell.search.coverage.ended_by == "seconds"
    assert "stopped at its limit of 0.2 s, after" in cell.reason


class Wrong(Neighbourhood, name="wrong"):
    """Names a feature without a list."""

    adjacency = "any"

    def propose(self, rng, history):
        return () if history else (_pair(1.0),)

    def all_features(self):
        return "zero"


def test_features_must_be_texts():
    cell = audit("wrong", trials=40)
    assert cell.status == "failed"
    assert "all_features returned 'zero', which is not a list of texts" in cell.reason


def noisy(rng, data):
    return float(np.sum(data) + rng.laplace(scale=1.0))


def test_one_pair_of_a_test_has_a_coverage(tmp_path):
    record = assert_dp(noisy, d0=[1.0], d1=[0.0], epsilon=1.0, trials=300, out=tmp_path)
    (cell,) = record.cells
    assert cell.search.coverage.ended_by == "trials"
    assert cell.search.coverage.detectable > 1
    assert "stopped at its limit of 300 trials" in cell.reason


def test_an_undecided_test_names_its_limit(tmp_path):
    with pytest.raises(UndecidedError, match="stopped at its limit of 32 trials"):
        assert_dp(noisy, d0=[1.0], d1=[0.0], epsilon=4.0, trials=32, out=tmp_path)


LEAKS = {
    "half the noise": lambda rng, x: None if rng.random() < 0.1 else x + rng.laplace(scale=0.5),
    "one of six numbers": lambda rng, x: [*rng.normal(size=5), x + rng.laplace(scale=0.4)],
}
RIGHT = {
    "noise": lambda rng, x: None if rng.random() < 0.1 else x + rng.laplace(),
}


class Leaky(HostMechanism, name="leaky"):
    """Answers that show the data in one view alone, and right ones."""

    which: str

    def claim(self, pair):
        return PureDP(1.1)

    def release(self, rng, data):
        return (LEAKS | RIGHT)[self.which](rng, float(data[0]))


def test_answers_without_a_look_are_seen_in_all_views():
    spec = {
        "schema": 1,
        "audit": {"name": "answers", "trials": 1_000, "multiplicity": "none"},
        "pair": {"use": "values", "params": {"d0": [0.0], "d1": [1.0], "adjacency": "any"}},
        "mechanism": [
            {"use": "leaky", "label": name, "params": {"which": name}} for name in LEAKS | RIGHT
        ],
        "attack": [{"use": "answers"}],
        "estimator": [{"use": "order-statistics"}],
    }
    cells = dpframe.audit(spec, plugins=[Leaky]).cells
    found = {cell.mechanism.label: cell.verdict for cell in cells}
    assert found == dict.fromkeys(LEAKS, "violated") | dict.fromkeys(RIGHT, "consistent")
