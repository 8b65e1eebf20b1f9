"""Search for a strategy that refutes the claim of a session."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpframe import Record, audit
from dpframe.plugins import (
    ApproxDP,
    Claim,
    DpframeError,
    Earned,
    Neighbourhood,
    Pair,
    PureDP,
    Values,
)
from dpframe.pytest import UndecidedError, ViolationError
from dpframe_sessions.session import Session
from dpframe_sessions.strategies import (
    EMPTY,
    Policy,
    Start,
    Step,
    learn_policy,
    reachable,
    strategies,
)
from dpframe_sessions.trial import check_answers

UNLIMITED = 2**40  # trials if only time limits
SECONDS = 20.0  # time limit if neither trials nor seconds are given
MOST_QUERIES = 8  # queries that a message lists
LONGEST_QUERY = 60  # characters of a query in a message
FIT, TRIAL = 0x5E55, 0x7214  # streams of sessions that no bound uses: for a policy, for checks


def search_session(
    start: Start,
    step: Step | Callable[[Any, Any], Any],
    queries: Sequence[Any],
    *,
    d0: Any,
    d1: Any,
    epsilon: float | None = None,
    delta: float = 0.0,
    claim: Claim | None = None,
    rounds: int = 8,
    adjacency: str = "as given",
    confidence: float = 0.999,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    learn: int = 64,
    only: Sequence[str] | None = None,
    messages: bool = False,
    constant: bool = False,
) -> Record:
    """Fail if an adversary who chooses queries from earlier answers refutes the claim.

    The search plays the strategies of `dpframe_sessions.strategies`, including a policy learned on
    separate sessions, and spends most sessions on those that produce the most evidence. If this
    returns, these sessions could have shown a violation, but did not. That proves nothing about
    other strategies, queries or data, and never that the service is private.

    Args:
        start: `start(data)` returns the state of a new session.
        step: `step(rng, state, query)` answers one query with randomness from `rng` alone, or
            `step(state, query)` with randomness of its own. An exception is an answer.
        queries: the queries that the adversary may ask.
        d0: the dataset D. `start` gets lists of numbers as NumPy arrays.
        d1: its neighbour D′.
        epsilon: claimed ε of the whole session.
        delta: claimed δ.
        claim: any other claim, in place of `epsilon` and `delta`.
        rounds: number of queries in a session.
        adjacency: the relation of D and D′, in words.
        confidence: a session that keeps its claim fails with a probability of at most
            1 − confidence.
        seconds: time for all sessions that a bound uses. Default: 20 without `trials`, no limit
            with them.
        trials: number of sessions on each dataset; default: as many as time allows.
        seed: the seed of all randomness passed to `step`.
        learn: sessions on each dataset for each candidate policy; 0 skips learning.
        only: the strategies to play; default: all.
        messages: True if the adversary reads the messages of exceptions, and not their class alone.
        constant: True if all answers may be equal.

    Returns:
        The record of the audit. `record.cells[0].search.coverage` has the strategies and queries
        that were never tried, the limit that ended the search, and the loss that it would have
        shown.

    Raises:
        ViolationError: the claim is refuted; the message names the strategy.
        UndecidedError: these sessions could not have refuted the claim, could not be run, or all
            their answers were equal.
        DpframeError: the arguments cannot be used, or all first answers on a dataset are
            exceptions.
    """
    if not queries:
        raise DpframeError("queries: pass at least one")
    if claim is None:
        if epsilon is None:
            raise DpframeError("epsilon: give the claim of the whole session")
        claim = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    params: dict[str, Any] = {"rounds": rounds} | ({"messages": True} if messages else {})
    seeded, step = _seeded(step)
    pair = Values(d0=d0, d1=d1, adjacency=adjacency)
    names = list(only) if only is not None else strategies(len(queries), learned=bool(learn))
    rng = np.random.default_rng([seed, TRIAL])
    check_answers(start, step, queries, (pair.d0, pair.d1), rounds, rng, constant=constant)
    policy = EMPTY
    if learn and "learned" in names:
        rng = np.random.default_rng([seed, FIT])
        policy = learn_policy(start, step, queries, rounds, (pair.d0, pair.d1), rng, sessions=learn)
        params |= {"policy": list(policy.choices), "references": list(policy.references)}
    spec: dict[str, Any] = {
        "schema": 1,
        "audit": {
            "name": "session",
            "seed": seed,
            "trials": UNLIMITED if trials is None else trials,
            "confidence": confidence,
        },
        "search": {"use": "given-pair", "parameters": {"mechanism.strategy": names}},
        "mechanism": [{"use": "session", "params": params | {"strategy": names[0]}}],
        "run": {"stop": "decided"},
    }
    if constant:
        spec["mechanism"][0]["constant"] = True
    if seconds is None and trials is None:
        seconds = SECONDS
    if seconds is not None:
        spec["run"]["seconds"] = float(seconds)
    reached = {number for name in names for number in reachable(name, len(queries), rounds, policy)}
    unreached = [_query(queries, number) for number in range(len(queries)) if number not in reached]
    plugins: list[Any] = [
        _mechanism(start, step, queries, claim, seedable=seeded),
        _only(pair, unreached),
    ]
    record = audit(spec, plugins=plugins)
    _judge(record, queries)
    return record


def _query(queries: Sequence[Any], at: int) -> str:
    text = " ".join(repr(queries[at]).split())
    return f"query {at} = {text if len(text) <= LONGEST_QUERY else f'{text[:LONGEST_QUERY]}…'}"


def _seeded(step: Callable[..., Any]) -> tuple[bool, Step]:
    """Return True if a step takes a generator, and the step as a function that takes one."""
    if len(inspect.signature(step).parameters) > 2:
        return True, step
    return False, functools.wraps(step)(functools.partial(_without_generator, step))


def _without_generator(
    step: Callable[[Any, Any], Any], rng: np.random.Generator, state: Any, query: Any
) -> Any:
    return step(state, query)


def _mechanism(
    start: Start, step: Step, queries: Sequence[Any], claim: Claim, *, seedable: bool
) -> type[Session]:
    body: dict[str, Any] = {
        "__doc__": "A session.",
        "seedable": seedable,
        # The module of the code: a worker that cannot import it gets the code itself.
        "__module__": str(getattr(step, "__module__", None)),
        "queries": tuple(queries),
        "claim": lambda self, pair: claim,
        "start": lambda self, data: start(data),
        "step": lambda self, rng, state, query: step(rng, state, query),
    }
    return types.new_class("session", (Session,), {"name": "session"}, lambda ns: ns.update(body))


def _only(pair: Values, unasked: Sequence[str]) -> type[Neighbourhood]:
    class GivenPair(Neighbourhood, name="given-pair"):
        """The two given datasets, and no others."""

        adjacency = pair.adjacency

        def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
            return () if history else (pair,)

        def all_features(self) -> Sequence[str]:
            return unasked  # no strategy can ask these queries

    return GivenPair


def _judge(record: Record, queries: Sequence[Any]) -> None:
    """Raise an error unless the sessions could have refuted the claim and did not."""
    (cell,) = record.cells
    if cell.verdict == "violated":
        params = cell.mechanism.params
        strategy, policy = str(params["strategy"]), Policy(tuple(params.get("policy", ())))
        reached = reachable(strategy, len(queries), params["rounds"], policy)
        lines = [f"the session violates its claim: {cell.reason}", f"  strategy: {strategy}"]
        lines += [f"  {_query(queries, at)}" for at in reached[:MOST_QUERIES]]
        if cell.search is not None:
            counts = zip(cell.search.hits, cell.search.trials, ("D", "D′"), strict=True)
            on = [f"{hits:,} of {runs:,} on {name}" for hits, runs, name in counts]
            lines.append(f"  witness: {cell.search.event}: {', '.join(on)}")
        if strategy == "learned":
            lines.append(f"  policy: {params.get('policy')}")
        raise ViolationError("\n".join(lines), record)
    if cell.verdict != "consistent":
        raise UndecidedError(f"no verdict: {cell.reason}", record)
