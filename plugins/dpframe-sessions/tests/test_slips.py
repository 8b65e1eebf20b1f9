"""Slips in the adapter of a session: no verdict for a session that tests nothing."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
import services
from dpframe_sessions import SessionViolationError, search_session

from dpframe import DpframeError
from dpframe.pytest import UndecidedError, ViolationError

GIVEN = {"d0": [0.0, 1.0], "d1": [1.0, 1.0], "epsilon": 1.0, "learn": 0, "only": ["fixed:0"]}


def misspelt(rng, state, query):
    return state.aks(query, rng)


def wrong_arguments(rng, state, query):
    return state.ask(query)


def takes_a_row(rng, state, query):
    return state[0]["age"] + rng.laplace()


def too_dear(rng, state, query):
    raise services.SpentError("the budget is 1")


def without_return(rng, state, query):
    state.ask(query, rng)


def answers(rng, state, query):
    return rng.laplace()


def start_fails(data):
    return data.columns


def fails_on_records(data):
    return [row.age for row in data]


@pytest.mark.parametrize(
    ("start", "step", "said"),
    [
        (services.Filter, misspelt, r"step raised .*AttributeError: .*aks.* \(test_slips.py:\d+\)"),
        (services.Filter, wrong_arguments, r"step raised .*TypeError: .*rng.* \(test_slips.py:\d+"),
        (np.array, takes_a_row, r"step raised .*on D, .*IndexError: .*\(test_slips.py:\d+\)"),
        (services.Filter, too_dear, r"SpentError: the budget is 1 \(test_slips.py:\d+\)"),
        (start_fails, misspelt, r"start raised .*columns.* \(test_slips.py:\d+\)"),
    ],
)
def test_a_session_that_only_raises_has_no_verdict(start, step, said):
    with pytest.raises(DpframeError, match=said):
        search_session(start, step, [0.5, 1.0], trials=100, **GIVEN)


def test_code_that_fits_no_record_is_no_violation():
    """D is empty, so only D′ shows the mistake."""
    with pytest.raises(
        DpframeError, match=r"start raised .*on D′, .*AttributeError.*test_slips.py:\d+"
    ):
        search_session(
            fails_on_records, answers, [1], trials=100, **{**GIVEN, "d0": [], "d1": [3.0]}
        )


def refuses_after_a_look(rng, state, query):
    if state[0] == 1.0:
        raise KeyError("alice")
    return "fine"


def test_a_refusal_on_one_dataset_alone_is_an_answer():
    with pytest.raises(ViolationError):
        search_session(np.array, refuses_after_a_look, [1], trials=400, rounds=1, **GIVEN)


def without_noise(rng, state, query):
    state.ask(query, rng)
    return {"sum": None}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (without_return, r"step returned None in all \d+ .*forgot `return`"),
        (without_noise, r"step returned \{'sum': None\} in all \d+ answers"),
    ],
)
def test_equal_answers_have_no_verdict(step, said):
    """Refusals depend on the strategy, so that not all sessions are equal."""
    given = {**GIVEN, "only": ["fixed:0", "fixed:1"]}
    with pytest.raises(UndecidedError, match=said):
        search_session(services.Filter, step, [0.5, 1.0], trials=100, **given)


def test_a_right_service_of_few_answers_has_a_verdict():
    """The first answers of sparse vector are often equal, and later ones are not."""
    record = search_session(
        services.SparseVector, services.step, services.SparseVector.costs, trials=100, **GIVEN
    )
    assert record.cells[0].verdict == "consistent"


def test_a_number_of_sessions_has_no_time_limit():
    """The limit of 20 s is for searches without a number of sessions."""
    record = search_session(services.Filter, services.step, [0.5], trials=200, rounds=1, **GIVEN)
    (cell,) = record.cells
    assert (cell.trials[0], cell.search.coverage.ended_by) == (200, "trials")
    assert "seconds" not in re.sub(r"\s", "", record.spec.text)
    assert "stopped at its limit of 200 trials" in cell.reason


def test_the_record_lists_queries_that_no_strategy_asks():
    record = search_session(
        services.Filter,
        services.step,
        [0.5, 0.25, 0.75],
        trials=100,
        rounds=1,
        **{**GIVEN, "only": ["fixed:0", "fixed:2"]},
    )
    found = record.cells[0].search.coverage
    assert found.untried == ["query 1 = 0.25", "another value of rounds"]
    assert found.tried == ["strategy = fixed:0", "strategy = fixed:2"]


QUERIES = (0.0, 1.0), (0.0, 0.5), (0.3, 0.1), (0.6, 0.3)


def buckets(good, **given):
    start = functools.partial(services.Buckets, good=good)
    pair = {"d0": [0.1, 0.7], "d1": [0.1, 0.35, 0.7], "epsilon": 1.0}
    given = {"learn": 0, **given}
    return search_session(start, services.step, QUERIES, **pair, rounds=8, **given)


def test_a_violation_names_the_queries_that_show_it():
    with pytest.raises(ViolationError, match=r"query 2 = \(0\.3, 0\.1\)"):
        buckets(good=False, trials=20_000, only=["fixed:2"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_bucket_that_is_not_charged_is_found_by_default(seed):
    with pytest.raises(SessionViolationError) as found:
        buckets(good=False, trials=20_000, learn=64, seed=seed)
    assert (0.3, 0.1) in found.value.witness.queries
    record = buckets(good=True, trials=20_000, learn=64, seed=seed)
    assert record.cells[0].verdict == "consistent"
