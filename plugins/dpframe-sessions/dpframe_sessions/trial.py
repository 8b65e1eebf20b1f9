"""Trial sessions before the search, which find adapters that answer nothing."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpframe.plugins import DpframeError
from dpframe.pytest import UndecidedError
from dpframe_sessions.strategies import Refusal, Start, Step, play

SESSIONS_OF_QUERY = 4  # sessions for each query before all of its first answers count as exceptions
REPEATED_SESSIONS = 16  # whole sessions on each dataset if all first answers are equal
LONGEST_ANSWER = 60  # characters of an answer in a message
MOST_QUERIES = 32  # queries that are tried
MISTAKES = TypeError, AttributeError, NameError, ImportError
"""Exceptions of code that does not fit the data; no service refuses a query with them."""


def check_answers(
    start: Start,
    step: Step,
    queries: Sequence[Any],
    data: tuple[Any, Any],
    rounds: int,
    rng: np.random.Generator,
    *,
    constant: bool = False,
) -> None:
    """Ask each query first in a few sessions, and raise if there are no answers to compare.

    Args:
        start: makes the state of a session.
        step: answers one query.
        queries: the queries.
        data: D and D′.
        rounds: number of queries in a session.
        rng: all randomness.
        constant: True if all answers may be equal.

    Raises:
        DpframeError: all sessions on D begin with an exception, or all on D′ with one that shows a
            mistake in the code.
        UndecidedError: all answers are equal, exceptions apart.
    """
    given: list[Any] = []
    for name, dataset in zip(("D", "D′"), data, strict=True):
        raised: list[tuple[str, Exception]] = []
        answers: list[Any] = []
        for query in queries[:MOST_QUERIES]:
            for _ in range(SESSIONS_OF_QUERY):
                called = "start"
                try:
                    state = start(copy.deepcopy(dataset))
                    called = "step"
                    answers.append(step(rng, state, query))
                    break
                except Exception as error:
                    raised.append((called, error))
        mistakes = all(isinstance(error, MISTAKES) for _, error in raised)
        if not answers and (name == "D" or mistakes):
            called, first = raised[0]
            raise DpframeError(
                f"{called} raised an exception in all {len(raised)} trial sessions on {name}, from "
                f"the first query on, so nothing was tested: {_in_words(first)}. If users of "
                "the service see it, return it as an answer"
            ) from first
        given += answers
    if given and not constant and len(set(map(repr, given))) == 1:
        sessions = [
            play(start, step, queries, "alternate", rounds, rng, copy.deepcopy(dataset))
            for dataset in data * REPEATED_SESSIONS
        ]
        answers = [one for answers in (given, *sessions) for one in answers]
        answers = [answer for answer in answers if not isinstance(answer, Refusal)]
        # Refusals tell something if they differ between sessions.
        if max(len(set(map(repr, each))) for each in (sessions, answers)) > 1:
            return
        text = repr(answers[0])
        text = text if len(text) <= LONGEST_ANSWER else f"{text[:LONGEST_ANSWER]}…"
        raise UndecidedError(
            f"step returned {text} in all {len(answers)} answers of trial sessions, so nothing was "
            f"tested{'; forgot `return`?' if answers[0] is None else '.'} Pass constant=True if it "
            "is right"
        )


def _in_words(error: Exception) -> str:
    """Describe an exception with the line of the user's code that raised it."""
    here = Path(__file__).parent
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if here != Path(f.filename).parent
    ]
    first = frames[0].filename if frames else ""
    lines = [f"{Path(first).name}:{one.lineno}" for one in frames if one.filename == first]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text or 'no message'}" + (f" ({lines[-1]})" if lines else "")
