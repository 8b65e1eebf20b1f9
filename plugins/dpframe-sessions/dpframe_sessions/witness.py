"""Turn a violation by a strategy into a list of queries that a person can replay.

The verdict never rests on a witness: the search has refuted the claim before.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import Record, clopper_pearson_lower, clopper_pearson_upper
from dpframe.pytest import ViolationError
from dpframe_sessions.learning import Candidate, Service
from dpframe_sessions.sessions import Event, Points, best_event, sample_of
from dpframe_sessions.strategies import EMPTY, play, queries_in_order

SAMPLES = 256  # sessions that show which queries a strategy asks
MOST_LISTS = 4  # lists of queries that are compared, if the answers choose the queries
FEWEST, MOST = 2_000, 20_000  # replayed sessions on each dataset, if there is time
SECONDS = 2.0  # processor time that replays take, approximately
LONGEST_QUERY = 60  # characters of a query in a message
ERROR = 1e-3  # probability that the loss of a replay is wrong


class Witness(NamedTuple):
    """Queries in a fixed order, and an event of their answers, counted in separate sessions."""

    queries: tuple[Any, ...]
    """The queries, in order."""
    numbers: tuple[int, ...]
    """Their places in the list of all queries."""
    event: Event
    hits: tuple[int, int]
    """Sessions in the event, on D and on D′."""
    sessions: int
    """Replayed sessions on each dataset."""
    epsilon: float
    """Loss that the replayed sessions alone show, at δ of the claim and confidence .999."""
    delta: float

    def holds(self, answers: Sequence[Any]) -> bool:
        """Return True if the answers of a session, in order, are in the event."""
        return bool(self.event.holds(sample_of([list(answers)]))[0])


class SessionViolationError(ViolationError):
    """The claim of a session is refuted.

    Args:
        message: claim, bound, queries and event.
        record: of the audit.
        witness: the queries to replay; None if their answers have neither numbers nor labels.
    """

    def __init__(self, message: str, record: Record, witness: Witness | None) -> None:
        super().__init__(message, record)
        self.witness = witness


def witness_of(
    service: Service, candidate: Candidate, points: Points, rng: np.random.Generator, wanted: int
) -> Witness | None:
    """Return the queries of a strategy as a list, with the event of their answers that shows most.

    None if the answers have neither numbers nor labels.

    If answers choose the queries, the probability of the answers to the queries of one session is
    the same as if these queries were a fixed list. So the lists that occur most often are tried.

    Args:
        service: with its datasets.
        candidate: the strategy, and its policy.
        points: of the claim.
        rng: all randomness. No bound of the search uses these sessions.
        wanted: sessions on each dataset.
    """
    begun = time.process_time()
    lists = _lists(service, candidate, rng)
    spent = (time.process_time() - begun) / SAMPLES
    affordable = int(SECONDS / max(spent, 1e-9))
    sessions = max(SAMPLES, min(FEWEST, affordable // len(lists)))
    found = []
    for numbers in lists:
        pair = service.sample(rng, (_ask(numbers), EMPTY), sessions)
        distance, event = best_event(pair, points)
        if event is not None:
            found.append((distance, numbers, event))
    if not found:
        return None
    _, numbers, event = max(found, key=lambda one: one[0])
    numbers = numbers[: event.rounds[-1] + 1]
    sessions = max(sessions, min(MOST, affordable, wanted))
    pair = service.sample(rng, (_ask(numbers), EMPTY), sessions)
    hits = int(event.holds(pair[0]).sum()), int(event.holds(pair[1]).sum())
    losses = [_loss(hits, sessions, float(delta)) for delta in points.delta]
    margins = [loss - claimed for loss, claimed in zip(losses, points.epsilon, strict=True)]
    at = int(np.argmax(margins))
    queries = tuple(service.queries[number] for number in numbers)
    return Witness(queries, numbers, event, hits, sessions, losses[at], float(points.delta[at]))


def _lists(
    service: Service, candidate: Candidate, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return the lists of queries that a strategy asks most often."""
    start, step, queries, rounds, pair = service
    strategy, policy = candidate
    played = collections.Counter[tuple[int, ...]]()
    for data in (*pair,) * (SAMPLES // 2):
        asked = list[int]()
        play(start, step, queries, strategy, rounds, rng, data, policy, asked=asked)
        played[tuple(asked)] += 1
    fixed = queries_in_order(strategy, len(queries), rounds, policy)
    return [fixed] if fixed else [numbers for numbers, _ in played.most_common(MOST_LISTS)]


def _ask(numbers: Sequence[int]) -> str:
    return "ask:" + ",".join(map(str, numbers))


def _loss(hits: tuple[int, int], sessions: int, delta: float) -> float:
    """Return the loss that an event shows, in the direction that shows more."""
    best = -math.inf
    for one, other in (hits, hits[::-1]):
        low = float(clopper_pearson_lower(one, sessions, ERROR / 4))
        high = float(clopper_pearson_upper(other, sessions, ERROR / 4))
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


def text_of_query(queries: Sequence[Any], at: int) -> str:
    """Return the number of a query and the query, in one line."""
    text = " ".join(repr(queries[at]).split())
    return f"query {at} = {text if len(text) <= LONGEST_QUERY else f'{text[:LONGEST_QUERY]}…'}"


def lines_of(witness: Witness, queries: Sequence[Any]) -> list[str]:
    """Return the lines of a message that describe a witness."""
    lines, first = ["  to replay it, ask in this order:"], 0
    while first < len(witness.numbers):
        last, number = first, witness.numbers[first]
        while last + 1 < len(witness.numbers) and witness.numbers[last + 1] == number:
            last += 1
        rounds = str(first + 1) if first == last else f"{first + 1}–{last + 1}"
        lines.append(f"    {rounds}. {text_of_query(queries, number)}")
        first = last + 1
    least = math.floor(1000 * max(witness.epsilon, 0.0)) / 1000
    counts = " and ".join(
        f"{hits:,} on {name}" for hits, name in zip(witness.hits, ("D", "D′"), strict=True)
    )
    return [
        *lines,
        f"  event: {witness.event}",
        f"  in {witness.sessions:,} replayed sessions on each dataset it occurred {counts}, "
        f"which alone shows a loss of at least {least:g} at δ = "
        f"{witness.delta:g} and confidence .999",
    ]
