"""Adversaries find planted mistakes of sessions, and report no violation of correct services."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import services
from dpframe_sessions import Session, SessionViolationError, play, search_session, strategies
from dpframe_sessions.learning import (
    Limit,
    Service,
    _telling,
    learn_policy,
    learn_strategies,
    rounds_of,
)
from dpframe_sessions.sessions import Event, best_event, points_of, sample_of
from dpframe_sessions.strategies import (
    ABOVE,
    BELOW,
    EMPTY,
    REFUSED,
    Policy,
    check_strategy,
    queries_in_order,
)
from dpframe_sessions.witness import witness_of

import dpframe
from dpframe import DpframeError
from dpframe.pytest import UndecidedError, ViolationError

PAGE = Path(__file__).parents[3] / "docs/how-to/audit-a-session.md"


def asked(strategy, answers, queries=4, rounds=6, policy=EMPTY):
    """Return the queries that a strategy asks of a service with given answers."""
    found = []

    def step(rng, state, query):
        found.append(query)
        answer = answers(query)
        if answer is None:
            raise ValueError
        return answer

    play(lambda data: None, step, range(queries), strategy, rounds, None, None, policy)
    return found


@pytest.mark.parametrize(
    ("strategy", "answers", "queries"),
    [
        ("ask:2,0,2", lambda q: 1.0, [2, 0, 2]),
        ("ask:0,1,2,3,2,1,0", lambda q: None, [0, 1, 2, 3, 2, 1]),
        ("fixed:2", lambda q: 1.0, [2, 2, 2, 2, 2, 2]),
        ("alternate", lambda q: 1.0, [0, 1, 2, 3, 0, 1]),
        ("first:3,1", lambda q: 1.0, [3, 1, 1, 1, 1, 1]),
        ("exhaust:2", lambda q: None if q == 2 else 1.0, [2, 3, 3, 3, 3, 3]),
        ("exhaust:3", lambda q: None, [3, 0, 1, 2, 3, 0]),
        ("bisect", lambda q: q < 2, [1, 2, 2, 2, 2, 2]),
        ("bisect", lambda q: False, [1, 0, 0, 0, 0, 0]),
        ("bisect", lambda q: True, [1, 2, 3, 3, 3, 3]),
    ],
)
def test_a_strategy_asks(strategy, answers, queries):
    assert asked(strategy, answers) == queries


def test_a_policy_looks_at_the_last_answer():
    choices = [0] * 9
    choices[BELOW] = 2
    choices[3 + REFUSED], choices[3 + BELOW], choices[3 + ABOVE] = 1, 0, 3
    choices[6 + BELOW], choices[6 + ABOVE], choices[6 + REFUSED] = 1, 2, 3
    policy = Policy(tuple(choices), (0.0, 0.0, 5.0, 0.0))
    assert asked("learned", lambda q: 6.0, rounds=3, policy=policy) == [2, 3, 2]
    assert asked("learned", lambda q: 4.0, rounds=3, policy=policy) == [2, 0, 2]
    assert asked("learned", lambda q: None, rounds=3, policy=policy) == [2, 1, 3]


def test_a_leak_in_the_message_of_a_refusal_is_found_on_request():
    d0, d1 = services.PAIR
    given = {"d0": d0, "d1": d1, "epsilon": 1.0, "only": ["fixed:2"], "trials": 500, "learn": 0}
    queries = services.TellsInWords.costs
    search_session(services.TellsInWords, services.step, queries, **given)
    search_session(services.Filter, services.step, queries, **given, messages=True)
    with pytest.raises(ViolationError, match="no budget is left for the sum"):
        search_session(services.TellsInWords, services.step, queries, **given, messages=True)


@pytest.mark.parametrize(
    "strategy",
    ["", "ask", "ask:4", "ask:0,x", "fixed", "fixed:4", "first:1", "first:0,x", "learned"],
)
def test_an_unknown_strategy_is_refused(strategy):
    with pytest.raises(ValueError):
        check_strategy(strategy, 4, EMPTY)


@pytest.mark.parametrize("queries", [1, 2, 5, 30])
def test_all_strategies_can_be_played(queries):
    names = strategies(queries)
    assert len(set(names)) == len(names) <= 25
    for name in names:
        assert len(asked(name, lambda q: None, queries)) == 6


def test_each_session_is_fresh_and_exceptions_are_answers():
    rng = np.random.default_rng(0)
    runs = [
        play(services.Filter, services.step, (0.5,), "fixed:0", 4, rng, services.PAIR[0])
        for _ in range(3)
    ]
    for run in runs:
        assert [isinstance(answer, float) for answer in run] == [True, True, False, False]
        assert type(run[2]).__name__ == "SpentError"
        assert run[2] == run[3] == runs[0][2]


POINTS = points_of(dpframe.PureDP(services.EPSILON))
UNLIMITED = Limit(10_000, 1e9)


def service_of(kind, rounds=3):
    return Service(kind, services.step, kind.costs, rounds, services.PAIR)


def spent_by(service, strategy, policy=EMPTY):
    """Return the budget that a strategy spends."""
    state = service.start(services.PAIR[0])
    rng = np.random.default_rng(2)
    rest = service.step, service.queries, strategy, service.rounds, rng, None, policy
    play(lambda data: state, *rest)
    return state.spent


def test_queries_are_learned_that_ask_for_more_than_the_budget():
    """The dear query comes last, which no greedy choice does."""
    service = service_of(services.ChargesAfter)
    given = POINTS, 32, UNLIMITED
    names = learn_strategies(service, np.random.default_rng(1), *given)
    policy = learn_policy(service, np.random.default_rng(1), *given)
    assert spent_by(service, names[0]) > services.EPSILON
    assert spent_by(service, "learned", policy) > services.EPSILON
    assert names == learn_strategies(service, np.random.default_rng(1), *given)


@pytest.mark.parametrize("learned", [learn_strategies, learn_policy])
def test_learning_keeps_its_limits(learned):
    """A round of the tournament is finished, and no further one begins."""
    begun = []

    def start(data):
        begun.append(1)
        return services.Filter(data)

    service = Service(start, services.step, services.Filter.costs, 2, services.PAIR)
    learned(service, np.random.default_rng(0), POINTS, 8, Limit(500, 1e9))
    assert 0 < len(begun) <= 2 * 2 * 500
    begun.clear()
    assert not learned(service, np.random.default_rng(0), POINTS, 8, Limit(20, 1e9)) or (
        learned is learn_policy
    )
    assert len(begun) <= 100
    begun.clear()
    learned(service, np.random.default_rng(0), POINTS, 8, Limit(10_000, 0.0))
    assert len(begun) <= 150


def test_a_session_is_as_long_as_its_budget():
    class Fine(services.Filter):
        costs = (0.05, 0.5)

    rng = np.random.default_rng(0)
    assert rounds_of(service_of(Fine), rng) == 21  # 19 answers, and two refusals
    assert rounds_of(service_of(services.Filter), rng) == 8
    assert rounds_of(service_of(services.ReusesNoise), rng) == 8  # it never refuses


@pytest.mark.parametrize(
    ("strategy", "policy", "queries"),
    [
        ("ask:1,0", EMPTY, (1, 0)),
        ("first:1,2", EMPTY, (1, 2, 2)),
        ("exhaust:1", EMPTY, None),
        ("bisect", EMPTY, None),
        ("learned", Policy((1, 1, 1, 0, 0, 0)), (1, 0, 0)),
        ("learned", Policy((1, 1, 1, 0, 0, 1)), None),
    ],
)
def test_a_strategy_that_ignores_answers_is_a_list_of_queries(strategy, policy, queries):
    assert queries_in_order(strategy, 3, 3, policy) == queries


def test_an_event_is_checked_on_answers():
    refused = play(services.Filter, services.step, (9.0,), "fixed:0", 1, None, services.PAIR[0])
    sample = sample_of([[1.0, True, 4.0], [3.0, refused[0], 2.0]])
    events = {
        Event("answer", (0,), 2.0, True): [False, True],
        Event("sum", (0, 1, 2), 5.0, False): [True, True],
        Event("largest", (0, 1, 2), 3.0, True): [True, False],
        Event("smallest", (0, 1, 2), 1.5, False): [True, False],
        Event("difference", (0, 2), 0.0, True): [True, False],
        Event("labels", (1,), 0.0, True, ("SpentError",)): [False, True],
        Event("labels", (0, 1), 0.0, True, ("a number", "True")): [True, False],
    }
    for event, holds in events.items():
        assert event.holds(sample).tolist() == holds, str(event)
    assert str(Event("labels", (1,), 0.0, True, ("True",))) == "answer 2 is True"
    assert str(Event("sum", (0, 1), 2.0, False)) == (
        "the sum of the numbers among answers 1 to 2 is at most 2"
    )


def test_sessions_without_numbers_and_labels_show_no_event():
    nothing = sample_of([[[]], [[]]])
    assert best_event((nothing, nothing), POINTS) == (-np.inf, None)


# The cheapest query comes first; then the dearest, unless the answer is a refusal.
BY_ANSWER = Policy((0, 0, 0, 1, 2, 2, 1, 1, 1), (0.0, 0.0, 0.0))


@pytest.mark.parametrize(("strategy", "policy"), [("first:0,2", EMPTY), ("learned", BY_ANSWER)])
def test_a_witness_can_be_replayed(strategy, policy):
    """The queries alone, asked in other sessions, show the event as often as it says."""
    service = service_of(services.ChargesAfter)
    found = witness_of(service, (strategy, policy), POINTS, np.random.default_rng(3), 4_000)
    assert found.epsilon > services.EPSILON
    assert found.numbers == tuple(services.ChargesAfter.costs.index(q) for q in found.queries)
    rng = np.random.default_rng(4)
    for data, hits in zip(services.PAIR, found.hits, strict=True):
        replayed = 0
        for _ in range(2_000):
            state = services.ChargesAfter(data)
            answers = [services.step(rng, state, query) for query in found.queries]
            replayed += found.holds(answers)
        share = hits / found.sessions
        # Both shares have a standard error of at most 0.012: false alarms below 1e-6.
        assert abs(replayed / 2_000 - share) < 5 * (1 / 2_000 + 1 / found.sessions) ** 0.5 / 2


@pytest.mark.parametrize("kind", services.RIGHT)
def test_a_service_that_keeps_its_claim_has_no_witness(kind):
    """The false-alarm rate is 1e-3 each; the seed is fixed."""
    rng = np.random.default_rng(5)
    found = witness_of(service_of(kind), ("alternate", EMPTY), POINTS, rng, 2_000)
    assert found.epsilon <= services.EPSILON


def test_queries_are_ranked_by_their_first_answers():
    class Counts(services.Filter):
        costs = (0.0001, 0.0002, 0.9, 0.0003)

    order = _telling(service_of(Counts), np.random.default_rng(0), UNLIMITED)
    assert order[0] == 2
    assert sorted(order) == [0, 1, 2, 3]


def audit(service, *, seed=0, trials=100_000, only=None, rounds=8):
    return search_session(
        service,
        services.step,
        service.costs,
        d0=services.PAIR[0],
        d1=services.PAIR[1],
        epsilon=services.EPSILON,
        rounds=rounds,
        seconds=600.0,
        trials=trials,
        seed=seed,
        only=only,
    )


def test_a_mistake_is_found_with_its_strategy():
    with pytest.raises(SessionViolationError, match=r"strategy: alternate") as found:
        audit(services.ReusesNoise, trials=2_000, only=["alternate"], rounds=2)
    (cell,) = found.value.record.cells
    assert cell.trials[0] < 2_000
    assert found.value.witness.queries == ("sum", "count")
    assert "1. query 0 = 'sum'" in str(found.value)
    assert str(found.value.witness.event) in str(found.value)


def start_from_array(data):
    assert isinstance(data, np.ndarray)
    return services.ReusesNoise(data)


def step_of_its_own(state, query):
    return state.ask(query, np.random.default_rng())


def test_a_step_may_draw_from_elsewhere():
    """Learning and the audit give `start` the same data: arrays."""
    with pytest.raises(ViolationError) as found:
        search_session(
            start_from_array,
            step_of_its_own,
            services.ReusesNoise.costs,
            d0=[0.0, 1.0],
            d1=[1.0, 1.0],
            epsilon=services.EPSILON,
            rounds=2,
            trials=2_000,
            seconds=600.0,
            learn=2,
            only=["alternate", "learned"],
        )
    assert found.value.record.cells[0].exceptions == [0.0, 0.0]


def test_a_session_in_a_spec():
    class Filtered(Session, name="filtered"):
        """Noisy sums with a filter."""

        queries = services.Filter.costs

        def claim(self, pair):
            return dpframe.PureDP(services.EPSILON)

        def start(self, data):
            return services.Filter(data)

        def step(self, rng, state, query):
            return state.ask(query, rng)

    spec = {
        "schema": 1,
        "audit": {"name": "filtered", "trials": 500},
        "pair": {
            "use": "values",
            "params": {"d0": [0.0], "d1": [1.0], "adjacency": "replace one record"},
        },
        "mechanism": [{"use": "filtered", "params": {"rounds": 3}}],
        "attack": [{"use": "answers"}],
        "estimator": [{"use": "order-statistics"}],
    }
    (cell,) = dpframe.audit(spec, plugins=[Filtered]).cells
    assert cell.verdict == "consistent"
    with pytest.raises(dpframe.plugins.ParameterError, match="below 3"):
        Filtered(strategy="fixed:3").check()


@pytest.mark.slow
def test_too_few_sessions_decide_nothing():
    with pytest.raises(UndecidedError):
        audit(services.Filter, trials=2, only=["fixed:0"], rounds=1)


def test_a_wrong_call_says_why():
    with pytest.raises(DpframeError, match="queries"):
        search_session(services.Filter, services.step, (), d0=0, d1=1, epsilon=1.0)
    with pytest.raises(DpframeError, match="epsilon"):
        search_session(services.Filter, services.step, (1,), d0=0, d1=1)


def test_adapters_are_short():
    assert len(inspect.getsource(services.step).splitlines()) <= 20


@pytest.mark.slow
@pytest.mark.parametrize("service", services.WRONG)
def test_every_planted_mistake_is_found(service):
    with pytest.raises(ViolationError):
        audit(service)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("service", services.RIGHT)
def test_the_right_forms_are_not_accused(service, seed):
    """At .999 each, so all six pass with probability above .994 if the code is right."""
    record = audit(service, seed=seed, trials=40_000)
    assert record.cells[0].verdict == "consistent"


@pytest.mark.slow
def test_the_page_runs():
    names = {"__name__": "page"}
    for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if "import opendp" in text and find_spec("opendp") is None:
            continue
        exec(compile(text, str(PAGE), "exec"), names)
