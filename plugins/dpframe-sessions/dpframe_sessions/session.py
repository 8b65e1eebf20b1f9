"""A session as a mechanism: one release is the list of all answers of one session."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from dpframe.plugins import Ge, HostMechanism, Le, ParameterError
from dpframe_sessions.strategies import Policy, check_strategy, play


class Session(HostMechanism):
    """A service that answers one query after another, with an adversary who asks them.

    A subclass gives `queries`, `start`, `step` and `claim`. The claim is about the whole session.
    A search may vary `strategy`.
    """

    strategy: str = "alternate"
    """The adversary: `fixed:N`, `alternate`, `first:N,M`, `exhaust:N`, `bisect` or `learned`."""
    rounds: Annotated[int, Ge(1), Le(1000)] = 8
    """Queries in a session."""
    policy: tuple[int, ...] = ()
    """Of the strategy `learned`: number of the next query by round and class of the last answer."""
    references: tuple[float, ...] = ()
    """Of the strategy `learned`, by query: an answer counts as above if it is larger."""

    queries: ClassVar[tuple[Any, ...]]
    """Queries that the adversary may ask, any values; for `bisect` in the order of a threshold."""

    def check(self) -> None:
        try:
            check_strategy(self.strategy, len(self.queries), self._policy)
        except ValueError as error:
            raise ParameterError("strategy", str(error)) from None

    @property
    def _policy(self) -> Policy:
        return Policy(tuple(self.policy), tuple(self.references))

    def start(self, data: Any) -> Any:
        """Make the state of one session: a fresh service that holds the data."""
        raise NotImplementedError

    def step(self, rng: np.random.Generator, state: Any, query: Any) -> Any:
        """Answer one query, and change the state. An exception is an answer too."""
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
        )
