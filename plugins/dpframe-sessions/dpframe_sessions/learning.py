"""Learn which queries to ask, on sessions that no bound uses.

A tournament: many strategies play a few sessions each; the half whose answers lie farthest outside
the claim stays, joined by changes of the best, and plays twice as many.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe_sessions.sessions import Points, Sample, append, divergence, sample_of
from dpframe_sessions.strategies import (
    CLASSES,
    EMPTY,
    Policy,
    Start,
    Step,
    number_of,
    play,
    queries_in_order,
)

MOST_CANDIDATES = 96  # strategies that begin a tournament
FEWEST_CANDIDATES = 6  # strategies below which nothing is learned
LAST = 4  # strategies that are left at the end
SURE = 6.0  # standard errors outside the claim that are hardly chance among the candidates

OF_QUERIES = 1 / 8  # share of the limit for the first answers to each query
MOST_TELLING = 8  # queries that lists are made of
FEWEST_SESSIONS, SHORT = 16, 256  # sessions of one query on each dataset
EQUAL = Points(np.zeros(1), np.zeros(1))  # the claim that nothing differs

EVIDENCE = 14.0
"""A search needs about this many sessions, times n/z²: e-values of an event that n sessions show z
standard errors outside the claim grow by z²/2n a session, up to ln 1000."""

SEARCHED = 2.0  # sessions of the search, at least, for each one that is learned from
MOST_QUERIES = 32  # queries that get a strategy of their own
SHORTEST, LONGEST = 8, 64  # rounds of a session, if its length is not given
ASKED_ON = 2  # queries after the first refusal

Candidate = tuple[str, Policy]


class Service(NamedTuple):
    """A service and its two datasets."""

    start: Start
    step: Step
    queries: Sequence[Any]
    rounds: int
    pair: tuple[Any, Any]

    def sample(
        self, rng: np.random.Generator, candidate: Candidate, sessions: int
    ) -> tuple[Sample, Sample]:
        """Play sessions of a strategy on both datasets."""
        strategy, policy = candidate
        start, step, queries, rounds, pair = self
        played = [
            [
                play(start, step, queries, strategy, rounds, rng, data, policy)
                for _ in range(sessions)
            ]
            for data in pair
        ]
        return sample_of(played[0]), sample_of(played[1])


class Limit(NamedTuple):
    """Limits of learning."""

    sessions: float  # on each dataset
    seconds: float  # of processor time

    def part(self, share: float) -> Limit:
        """Return a share of both."""
        return Limit(share * self.sessions, share * self.seconds)


def learn_strategies(
    service: Service, rng: np.random.Generator, points: Points, first: int, limit: Limit
) -> list[str]:
    """Learn which strategies to play; return the best first, or none if the limit is too low.

    Args:
        service: with its datasets.
        rng: all randomness. Sessions for a bound must use another one.
        points: of the claim.
        first: sessions on each dataset for each strategy in the first round of the tournament.
        limit: of sessions and processor time.
    """
    telling = _telling(service, rng, limit.part(OF_QUERIES))
    names = _strategies(len(service.queries), service.rounds, telling, rng)
    given = [(name, EMPTY) for name in names]
    limit = limit.part(1 - OF_QUERIES)
    return [name for name, _ in _tournament(service, rng, points, given, first, limit)]


def learn_policy(
    service: Service, rng: np.random.Generator, points: Points, first: int, limit: Limit
) -> Policy:
    """Learn which query to ask after each kind of answer; empty if the limit is too low.

    Arguments as for `learn_strategies`.
    """
    references = _references(service, rng)
    given = []
    for at in range(MOST_CANDIDATES // 2):
        by_answer = bool(at % 2)
        choices = _random(len(service.queries), service.rounds, rng, by_answer=by_answer)
        given.append(("learned", Policy(choices, references)))
    best = _tournament(service, rng, points, given, first, limit)
    return best[0][1] if best else EMPTY


def _tournament(
    service: Service,
    rng: np.random.Generator,
    points: Points,
    given: Sequence[Candidate],
    first: int,
    limit: Limit,
) -> list[Candidate]:
    """Return the best candidates; none if the limit is too low to compare enough of them."""
    begun, played = time.process_time(), 0
    rounds = 1 + math.ceil(math.log2(MOST_CANDIDATES / LAST))
    most = int(min(len(given), MOST_CANDIDATES, limit.sessions // (rounds * first)))
    if most < min(FEWEST_CANDIDATES, len(given)):
        return []
    samples: dict[Candidate, tuple[Sample, Sample]] = {}
    candidates, sessions, ranked = list(dict.fromkeys(given[:most])), first, list[Candidate]()
    while True:
        distances: dict[Candidate, float] = {}
        for candidate in candidates:
            before = samples.get(candidate)
            missing = sessions - (len(before[0]) if before else 0)
            if played + missing > limit.sessions:
                break
            fresh = service.sample(rng, candidate, missing)
            played += missing
            pair = append(before and before[0], fresh[0]), append(before and before[1], fresh[1])
            samples[candidate], distances[candidate] = pair, divergence(pair, points)
            if time.process_time() - begun > limit.seconds:
                break
        if len(distances) < len(candidates):  # without the others, their order would say nothing
            return ranked[:LAST] or list(distances)[:LAST]
        ranked = sorted(distances, key=lambda one: -distances[one])
        best = distances[ranked[0]]
        if best > SURE and SEARCHED * played >= EVIDENCE * sessions / best**2:
            return ranked[:LAST]
        kept = ranked[: max(LAST, len(ranked) // 2)]
        children = [_changed(one, service, rng) for one in kept[: max(1, len(kept) // 3)]]
        candidates, sessions = list(dict.fromkeys([*kept, *children])), 2 * sessions


def rounds_of(service: Service, rng: np.random.Generator) -> int:
    """Return the number of queries in a session that spends the budget of the service.

    Each query is repeated until two refusals follow each other.
    """
    longest = 0
    for query in service.queries[:MOST_QUERIES]:
        state, refused, asked = service.start(service.pair[0]), 0, 0
        while asked < LONGEST and refused < ASKED_ON:
            asked += 1
            try:
                service.step(rng, state, query)
                refused = 0
            except Exception:  # such as a spent budget
                refused += 1
        if refused:
            longest = max(longest, asked)
    return min(max(SHORTEST, longest), LONGEST)


def _telling(service: Service, rng: np.random.Generator, limit: Limit) -> list[int]:
    """Return the numbers of the queries whose first answers differ most between the datasets."""
    begun, few = time.process_time(), range(min(len(service.queries), 4 * MOST_QUERIES))
    sessions = int(min(SHORT, limit.sessions * service.rounds / len(few)))
    differences = dict.fromkeys(few, 0.0)
    for at in few:
        if sessions < FEWEST_SESSIONS or time.process_time() - begun > limit.seconds:
            break
        pair = service.sample(rng, (f"ask:{at}", EMPTY), sessions)
        differences[at] = divergence(pair, EQUAL)
    return sorted(few, key=lambda at: -differences[at])[:MOST_TELLING]


def _strategies(
    queries: int, rounds: int, telling: Sequence[int], rng: np.random.Generator
) -> list[str]:
    """Return names of strategies, the simplest first; lists have mostly telling queries."""
    if queries == 1:
        return ["fixed:0"]
    names = [f"fixed:{at}" for at in telling]
    names += ["alternate", "bisect", *(f"exhaust:{at}" for at in telling[:3])]
    names += [_ask([*telling] * rounds, rounds), _ask([*telling[::-1]] * rounds, rounds)]
    names.append(_ask([at for at in telling for _ in range(2)] * rounds, rounds))
    lists = []
    for i, j in itertools.permutations(telling, 2):
        lists += [f"first:{i},{j}", _ask([i, j] * rounds, rounds)]
        lists.append(_ask([i] * (rounds // 2) + [j] * rounds, rounds))
    for _ in range(MOST_CANDIDATES // 3):
        lists.append(_ask(rng.permutation(telling).tolist() * rounds, rounds))
        some = rng.choice(telling, size=min(len(telling), 3), replace=False)
        lists.append(_ask(rng.choice(some, size=rounds).tolist(), rounds))
        lists.append(_ask(_any(queries, telling, rounds, rng), rounds))
    return list(dict.fromkeys([*names, *(lists[at] for at in rng.permutation(len(lists)))]))


def _any(queries: int, telling: Sequence[int], size: int, rng: np.random.Generator) -> list[int]:
    """Return random queries, three quarters of them telling ones."""
    often = rng.random(size) < 3 / 4
    drawn: list[int] = np.where(
        often, rng.choice(telling, size=size), rng.integers(queries, size=size)
    ).tolist()
    return drawn


def _ask(numbers: Sequence[int], rounds: int) -> str:
    return "ask:" + ",".join(map(str, numbers[:rounds]))


def _changed(candidate: Candidate, service: Service, rng: np.random.Generator) -> Candidate:
    """Return a strategy with about a quarter of its queries chosen again."""
    name, policy = candidate
    queries = len(service.queries)
    listed = policy.choices or queries_in_order(name, queries, service.rounds) or ()
    again = rng.random(len(listed)) < 1 / 4
    changed = np.where(again, rng.integers(queries, size=len(listed)), listed).tolist()
    if policy.choices:
        return name, Policy(tuple(changed), policy.references)
    return (_ask(changed, service.rounds), EMPTY) if changed else candidate


def _random(
    queries: int, rounds: int, rng: np.random.Generator, *, by_answer: bool
) -> tuple[int, ...]:
    """Return a random policy: a query for each round, or for each round and answer."""
    choices = rng.integers(queries, size=(rounds, CLASSES if by_answer else 1))
    return tuple(np.broadcast_to(choices, (rounds, CLASSES)).ravel().tolist())


def _references(service: Service, rng: np.random.Generator) -> tuple[float, ...]:
    """Return the median of the first answer to each query."""
    start, step, queries, _, pair = service
    medians = []
    for at in range(len(queries)):
        answers = [
            number_of(play(start, step, queries, f"fixed:{at}", 1, rng, data)[0])
            for data in pair
            for _ in range(16)
        ]
        numbers = [x for x in answers if math.isfinite(x)]
        booleans = set(numbers) <= {0.0, 1.0}
        medians.append(0.5 if booleans or not numbers else float(np.median(numbers)))
    return tuple(medians)
