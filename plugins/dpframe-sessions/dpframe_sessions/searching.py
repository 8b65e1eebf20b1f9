"""Search for a strategy that refutes the claim of a session."""

from __future__ import annotations

import functools
import inspect
import math
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
from dpframe.pytest import UndecidedError
from dpframe_sessions.learning import (
    SHORTEST,
    Limit,
    Service,
    learn_policy,
    learn_strategies,
    rounds_of,
)
from dpframe_sessions.session import Session
from dpframe_sessions.sessions import Points, points_of
from dpframe_sessions.strategies import EMPTY, Policy, Start, Step, reachable, strategies
from dpframe_sessions.trial import check_answers
from dpframe_sessions.witness import (
    SessionViolationError,
    Witness,
    lines_of,
    text_of_query,
    witness_of,
)

UNLIMITED = 2**40  # trials if only time limits
SECONDS = 20.0  # time limit if neither trials nor seconds are given
MOST_QUERIES = 8  # queries that a message lists
FIT, TRIAL, REPLAY = 0x5E55, 0x7214, 0x4E91
"""Streams of sessions that no bound uses: to learn, for checks, for a witness."""
LEARNING = 1 / 3  # share of sessions and of time that learning takes, at most
OF_POLICY = 1 / 4  # share of these that learns a policy
SAFE = ("alternate", "bisect")  # played even if others did better in the tournament
REPLAYED = 4  # replayed sessions, as a multiple of those that showed the violation


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
    rounds: int | None = None,
    adjacency: str = "as given",
    confidence: float = 0.999,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    learn: int = 32,
    only: Sequence[str] | None = None,
    messages: bool = False,
    constant: bool = False,
) -> Record:
    """Fail if an adversary who chooses queries from earlier answers refutes the claim.

    The search plays the strategies of `dpframe_sessions.strategies` that did best in separate
    sessions, and spends most sessions on those that produce the most evidence. If this
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
        rounds: number of queries in a session; default: as many as repeating a query takes until
            the service refuses, from 8 to 64.
        adjacency: the relation of D and D′, in words.
        confidence: a session that keeps its claim fails with a probability of at most
            1 − confidence.
        seconds: time for all sessions that a bound uses. Default: 20 without `trials`, no limit
            with them.
        trials: number of sessions on each dataset; default: as many as time allows.
        seed: the seed of all randomness passed to `step`.
        learn: sessions on each dataset for each strategy, in the first round of a tournament that
            chooses the strategies to play; 0 skips it. It takes at most a third of all sessions, or
            of the time.
        only: the strategies to play; default: all.
        messages: True if the adversary reads the messages of exceptions, and not their class alone.
        constant: True if all answers may be equal.

    Returns:
        The record of the audit. `record.cells[0].search.coverage` has the strategies and queries
        that were never tried, the limit that ended the search, and the loss that it would have
        shown.

    Raises:
        SessionViolationError: the claim is refuted; its `witness` has the queries to ask again.
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
    seeded, step = _seeded(step)
    pair = Values(d0=d0, d1=d1, adjacency=adjacency)
    data = pair.d0, pair.d1
    rng = np.random.default_rng([seed, TRIAL])
    length = SHORTEST if rounds is None else rounds
    check_answers(start, step, queries, data, length, rng, constant=constant)
    service = Service(start, step, queries, length, data)
    if rounds is None:
        service = service._replace(rounds=rounds_of(service, rng))
    if seconds is None and trials is None:
        seconds = SECONDS
    points = points_of(claim)
    names, policy = _strategies(service, points, only, learn, trials, seconds, seed)
    params: dict[str, Any] = {"rounds": service.rounds}
    if messages:
        params["messages"] = True
    if policy.choices:
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
    if seconds is not None:
        spec["run"]["seconds"] = float(seconds)
    reached = {
        number for name in names for number in reachable(name, len(queries), service.rounds, policy)
    }
    unreached = [
        text_of_query(queries, number) for number in range(len(queries)) if number not in reached
    ]
    plugins: list[Any] = [
        _mechanism(start, step, queries, claim, seedable=seeded),
        _only(pair, unreached),
    ]
    record = audit(spec, plugins=plugins)
    _judge(record, service, points, seed)
    return record


def _strategies(
    service: Service,
    points: Points,
    only: Sequence[str] | None,
    learn: int,
    trials: int | None,
    seconds: float | None,
    seed: int,
) -> tuple[list[str], Policy]:
    """Return the names of the strategies to play, and the policy of `learned`."""
    queries = len(service.queries)
    if not learn or (only is not None and "learned" not in only):
        names = list(only) if only is not None else strategies(queries)
        return names, EMPTY
    rest = LEARNING / (1 - LEARNING)  # sessions to learn from for each session of the search
    limit = Limit(
        math.inf if trials is None else rest * trials,
        math.inf if seconds is None else rest * seconds,
    )
    rng = np.random.default_rng([seed, FIT])
    if only is not None:
        policy = learn_policy(service, rng, points, learn, limit)
        return [name for name in only if name != "learned" or policy.choices], policy
    best = learn_strategies(service, rng, points, learn, limit.part(1 - OF_POLICY))
    policy = learn_policy(service, rng, points, learn, limit.part(OF_POLICY)) if best else EMPTY
    names = [*best, *SAFE] if best and queries > 1 else strategies(queries)
    return list(dict.fromkeys([*names, *(["learned"] if policy.choices else [])])), policy


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


def _judge(record: Record, service: Service, points: Points, seed: int) -> None:
    """Raise an error unless the sessions could have refuted the claim and did not."""
    (cell,) = record.cells
    if cell.verdict == "violated":
        params = cell.mechanism.params
        strategy, numbers = str(params["strategy"]), tuple(params.get("policy", ()))
        policy = Policy(numbers, tuple(params.get("references", ())))
        lines = [f"the session violates its claim: {cell.reason}"]
        witness = _witness(service, strategy, policy, points, seed, max(cell.trials))
        if witness is not None:
            lines += lines_of(witness, service.queries)
        lines.append(f"  found by strategy: {strategy}")
        if witness is None:
            reached = reachable(strategy, len(service.queries), service.rounds, policy)
            lines += [f"  {text_of_query(service.queries, at)}" for at in reached[:MOST_QUERIES]]
            if strategy == "learned":
                lines.append(f"  policy: {params.get('policy')}")
        if cell.search is not None:
            counts = zip(cell.search.hits, cell.search.trials, ("D", "D′"), strict=True)
            on = [f"{hits:,} of {runs:,} on {name}" for hits, runs, name in counts]
            lines.append(f"  event of the search: {cell.search.event}: {', '.join(on)}")
        raise SessionViolationError("\n".join(lines), record, witness)
    if cell.verdict != "consistent":
        raise UndecidedError(f"no verdict: {cell.reason}", record)


def _witness(
    service: Service, strategy: str, policy: Policy, points: Points, seed: int, drawn: int
) -> Witness | None:
    rng = np.random.default_rng([seed, REPLAY])
    candidate = strategy, policy if strategy == "learned" else EMPTY
    try:
        return witness_of(service, candidate, points, rng, REPLAYED * drawn)
    except Exception:  # code of the user; a verdict must not fail for lack of a witness
        return None
