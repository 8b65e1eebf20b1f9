"""A spec says which answers of black boxes count."""

from __future__ import annotations

import pytest

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
