"""Strategies of an adversary: each chooses the next query from the answers so far.

A strategy is a string, so that a spec can name it and a search can try several:

* `ask:2,0,2`: these queries in this order, and no others;
* `fixed:2`: query 2 in every round;
* `alternate`: all queries in turn;
* `first:0,1`: query 0 once, then query 1;
* `exhaust:1`: query 1 until the service refuses, then the next one, and so on;
* `bisect`: queries in order of a threshold; the middle one first, then the upper half after an
  answer above, the lower half after one below;
* `learned`: a policy that was learned on separate sessions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Start = Callable[[Any], Any]
"""`start(data)` makes the state of one session."""
Step = Callable[[np.random.Generator, Any, Any], Any]
"""`step(rng, state, query)` answers one query and changes the state."""

REFUSED, BELOW, ABOVE = 0, 1, 2
CLASSES = 3
"""Number of classes of the last answer that a policy distinguishes."""


class Refusal:
    """The answer of a step that raised an exception, identified by its class alone.

    Attacks that look at numbers would read a string as a number.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


def refusal(error: type[Exception], message: str = "") -> Refusal:
    """Return the refusal for a class of exceptions, and for a message if it counts."""
    return _refusal(f"{error.__name__}: {message}" if message else error.__name__)


@functools.cache
def _refusal(name: str) -> Refusal:
    instance: Refusal = type(name, (Refusal,), {"__doc__": "A refusal."})()
    return instance


class Policy(NamedTuple):
    """The next query by round and class of the last answer.

    Both are tuples of numbers, so that they can be parameters of a mechanism.
    """

    choices: tuple[int, ...] = ()
    """Numbers of queries: one for each round and class, `CLASSES` to a round."""
    references: tuple[float, ...] = ()
    """By query: an answer is above if it is larger than this. Default: 0."""


EMPTY = Policy()


def play(
    start: Start,
    step: Step,
    queries: Sequence[Any],
    strategy: str,
    rounds: int,
    rng: np.random.Generator,
    data: Any,
    policy: Policy = EMPTY,
    *,
    messages: bool = False,
    asked: list[int] | None = None,
) -> list[Any]:
    """Play one session.

    Args:
        start: makes the state of a session from the data.
        step: answers one query. An exception is an answer, and the session continues.
        queries: the queries that the adversary may ask.
        strategy: the name of a strategy.
        rounds: number of queries, at most; `ask` ends after its list.
        rng: for the service. A strategy draws nothing.
        data: the dataset.
        policy: of the strategy `learned`.
        messages: True if the message of an exception is part of the answer.
        asked: takes the numbers of the queries.

    Returns:
        The answers, in order; a `Refusal` for each exception.
    """
    asked, answers = list[int]() if asked is None else asked, list[Any]()
    state = start(data)
    choose = _chooser(strategy, len(queries), policy)
    for _ in range(session_length(strategy, rounds)):
        at = choose(asked, answers)
        try:
            answer = step(rng, state, queries[at])
        except Exception as error:  # such as a spent budget
            answer = refusal(type(error), str(error) if messages else "")
        asked.append(at)
        answers.append(answer)
    return answers


def session_length(strategy: str, rounds: int) -> int:
    """Return the number of queries in a session of a strategy."""
    return min(rounds, len(_numbers(strategy))) if strategy.startswith("ask:") else rounds


def queries_in_order(
    strategy: str, queries: int, rounds: int, policy: Policy = EMPTY
) -> tuple[int, ...] | None:
    """Return the numbers of the queries that a strategy asks; None if they depend on answers."""
    name = strategy.partition(":")[0]
    choices = np.reshape(policy.choices, (-1, CLASSES))
    if name in ("exhaust", "bisect") or (name == "learned" and (choices != choices[:, :1]).any()):
        return None
    choose, asked = _chooser(strategy, queries, policy), list[int]()
    for _ in range(session_length(strategy, rounds)):
        asked.append(choose(asked, asked))  # the answers do not matter
    return tuple(asked)


def strategies(queries: int, *, learned: bool = False) -> list[str]:
    """Return the names of the strategies for a number of queries, about twenty at most."""
    names = [f"fixed:{at}" for at in range(min(queries, 8))]
    if queries > 1:
        names += ["alternate", "bisect", *(f"exhaust:{at}" for at in range(min(queries, 3)))]
        few = range(min(queries, 3))
        names += [f"first:{i},{j}" for i, j in itertools.permutations(few, 2)]
    return names + (["learned"] if learned else [])


def reachable(strategy: str, queries: int, rounds: int, policy: Policy = EMPTY) -> list[int]:
    """Return the numbers of the queries that a strategy may ask, in the order of their first use.

    Args:
        strategy: its name.
        queries: number of queries.
        rounds: number of queries in a session.
        policy: of the strategy `learned`.
    """
    name, _, numbers = strategy.partition(":")
    given = [int(part) for part in numbers.split(",") if part]
    reached = {
        "ask": given[:rounds],
        "fixed": given,
        "alternate": range(queries),
        "first": given,
        "exhaust": [(given[0] + at) % queries for at in range(queries)] if given else [],
        "bisect": range(queries),
        "learned": policy.choices,
    }[name]
    most = rounds if name in ("alternate", "exhaust") else queries
    return list(dict.fromkeys(reached))[:most]


def check_strategy(strategy: str, queries: int, policy: Policy) -> None:
    """Raise ValueError if a strategy is unknown, or one of its numbers is not a query."""
    name, _, numbers = strategy.partition(":")
    counts = {"ask": 1, "fixed": 1, "alternate": 0, "first": 2, "exhaust": 1, "bisect": 0}
    counts["learned"] = 0
    if name not in counts:
        raise ValueError(f"unknown strategy {strategy!r}; use one of {', '.join(counts)}")
    given = [part for part in numbers.split(",") if part]
    takes = max(counts[name], len(given)) if name == "ask" else counts[name]
    if len(given) != takes or not all(part.isdecimal() and int(part) < queries for part in given):
        raise ValueError(f"{strategy!r}: {name} takes {takes} numbers below {queries}")
    if name == "learned" and (
        not policy.choices
        or len(policy.choices) % CLASSES
        or not all(0 <= at < queries for at in policy.choices)
    ):
        raise ValueError("the strategy learned needs a policy, as returned by learn_policy")


def _chooser(strategy: str, queries: int, policy: Policy) -> Callable[[list[int], list[Any]], int]:
    check_strategy(strategy, queries, policy)
    name, given = strategy.partition(":")[0], _numbers(strategy)

    def learned(asked: list[int], answers: list[Any]) -> int:
        last = min(len(asked), len(policy.choices) // CLASSES - 1)
        kind = _class(answers[-1], _reference(policy, asked[-1])) if asked else BELOW
        return policy.choices[CLASSES * last + kind]

    def exhaust(asked: list[int], answers: list[Any]) -> int:
        if not asked:
            return given[0]
        return (asked[-1] + isinstance(answers[-1], Refusal)) % queries

    def bisect(asked: list[int], answers: list[Any]) -> int:
        low, high = 0, queries - 1
        for at, answer in zip(asked, answers, strict=True):
            kind = _class(answer, 0.0)
            low, high = (min(at + 1, high), high) if kind == ABOVE else (low, max(at - 1, low))
        return (low + high) // 2

    choosers: dict[str, Callable[[list[int], list[Any]], int]] = {
        "ask": lambda asked, answers: given[len(asked)],
        "fixed": lambda asked, answers: given[0],
        "alternate": lambda asked, answers: len(asked) % queries,
        "first": lambda asked, answers: given[bool(asked)],
        "exhaust": exhaust,
        "bisect": bisect,
        "learned": learned,
    }
    return choosers[name]


def _numbers(strategy: str) -> list[int]:
    return [int(part) for part in strategy.partition(":")[2].split(",") if part]


def _reference(policy: Policy, query: int) -> float:
    return policy.references[query] if query < len(policy.references) else 0.0


def _class(answer: Any, reference: float) -> int:
    if isinstance(answer, Refusal) or answer is None:
        return REFUSED
    number = number_of(answer)
    return ABOVE if number > reference else BELOW


def number_of(answer: Any) -> float:
    """Return the first number in an answer, or NaN."""
    try:
        return float(np.ravel(answer)[0])
    except (TypeError, ValueError, IndexError):
        return math.nan
