"""A session as a mechanism: one release is the list of all answers of one session."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from dpframe.plugins import Ge, HostMechanism, Le, ParameterError
from dpframe_sessions.strategies import Policy, check_strategy, play


class Session(HostMechanism):
    """A service that answers one query after another, and the adversary that asks them.

    A subclass defines `queries`, `start`, `step` and `claim`. The claim covers the whole session.
    A search may vary `strategy`.
    """

    strategy: str = "alternate"
    """The adversary: `ask:N,M,…`, `fixed:N`, `alternate`, `first:N,M`, `exhaust:N`, `bisect` or
    `learned`."""
    rounds: Annotated[int, Ge(1), Le(1000)] = 8
    """Queries in a session."""
    policy: tuple[int, ...] = ()
    """For `learned`: the number of the next query, by round and class of the last answer."""
    references: tuple[float, ...] = ()
    """For `learned`: a threshold for each query; larger answers count as above."""

    messages: bool = False
    """True if the message of an exception is part of the answer. A service may show it."""

    queries: ClassVar[tuple[Any, ...]]
    """Queries that the adversary may ask: any values; for `bisect`, ordered by threshold."""

    def check(self) -> None:
        try:
            check_strategy(self.strategy, len(self.queries), self._policy)
        except ValueError as error:
            raise ParameterError("strategy", str(error)) from None

    @property
    def _policy(self) -> Policy:
        return Policy(tuple(self.policy), tuple(self.references))

    def start(self, data: Any) -> Any:
        """Return the state of a new session: a fresh service that holds the data."""
        raise NotImplementedError

    def step(self, rng: np.random.Generator, state: Any, query: Any) -> Any:
        """Answer one query and update the state. An exception also counts as an answer."""
        raise NotImplementedError

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        return play(
            self.start,
            self.step,
            self.queries,
            self.strategy,
            self.rounds,
            rng,
            data,
            self._policy,
            messages=self.messages,
        )
