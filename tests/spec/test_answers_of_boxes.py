"""A spec says which answers of black boxes count."""

from __future__ import annotations

import numpy as np
import pytest

from dpframe import HostMechanism, PureDP
from dpframe.errors import SpecError
from dpframe.interfaces import registry
from dpframe.spec import load_audit


def spec(use, **table):
    return {
        "schema": 1,
        "audit": {"name": "answers", "trials": 1000},
        "pair": {"use": "zeros-ones", "params": {"dim": 1}},
        "mechanism": [{"use": use, "params": {"epsilon": 1.0}, **table}],
        "attack": [{"use": "threshold", "params": {"value": 0.5}}],
        "estimator": [{"use": "precision"}],
    }


def test_a_box_says_what_an_exception_is_and_whether_answers_are_timed():
    for raises in (None, "answer", "fail"):
        for time in (True, False):
            table = {"outputs": {"time": time, "bits": not time}} | (
                {"raises": raises} if raises else {}
            )
            (cell,) = load_audit(spec("laplace-numpy", **table), registry=registry.load([])).cells
            found = cell.mechanism
            assert (found.raises, found.time, found.bits) == (raises, time, not time)


def test_a_traced_mechanism_has_no_answers():
    with pytest.raises(SpecError) as caught:
        load_audit(
            spec("laplace", raises="fail", outputs={"time": True}), registry=registry.load([])
        )
    for key in ("raises", "outputs"):
        assert (
            f"mechanism[0].{key}: applies only to black boxes; 'laplace' is traced by JAX"
            in str(caught.value)
        )


def test_nothing_else_can_be_said():
    with pytest.raises(SpecError, match="raises"):
        load_audit(spec("laplace-numpy", raises="ignore"), registry=registry.load([]))
    with pytest.raises(SpecError, match=r"outputs\.space: unknown key\n.*accepts: time, bits"):
        load_audit(spec("laplace-numpy", outputs={"space": True}), registry=registry.load([]))


class WholeAnswers(HostMechanism, name="whole-answers"):
    """A sum and a number that is not published; claims only the sum."""

    epsilon: float = 1.0
    sensitivity = 1.0

    def claim(self, pair):
        return PureDP(self.epsilon)

    def query(self, data):
        return {"sum": float(data.sum()), "raw": 50 * float(data.sum())}

    def release(self, rng, data):
        return {key: value + rng.laplace() for key, value in self.query(data).items()}


class StatedPlaces(HostMechanism, name="stated-places"):
    """Two independent words."""

    epsilon: float = 1.0

    def claim(self, pair):
        return PureDP(self.epsilon)

    def choices(self, data):
        return np.log([[0.5, 0.5], [0.5, 0.5]])

    def release(self, rng, data):
        return rng.integers(2, size=2)


@pytest.mark.parametrize(
    ("cls", "what"), [(WholeAnswers, "query"), (StatedPlaces, "choices")], ids=["query", "choices"]
)
def test_no_part_counts_alone_beside_what_is_stated_of_whole_answers(cls, what):
    """The comparison without draws would find a violation by a part that was left out."""
    known = registry.load([cls])
    assert load_audit(spec(cls.name, outputs={"time": False}), registry=known).cells
    with pytest.raises(SpecError) as caught:
        load_audit(spec(cls.name, outputs={"only": ["sum"]}), registry=known)
    assert (
        f"mechanism[0].outputs.only: mechanism {cls.name!r} defines {what}, which is compared for "
        "whole answers, never for a part"
    ) in str(caught.value)
    assert f"without outputs.only, or without {what}" in str(caught.value)
