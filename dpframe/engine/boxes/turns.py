"""Whose turn it is, where several searches or passes wait for the same worker processes.

Without turns, who gives a worker back takes it again before anybody who waits has woken up, and a
box that is asked for two workers at once waits until nobody else wants any. So each asks in a
queue: who has had the least time comes first, and nobody passes the first, however little he wants.
What is drawn does not depend on turns, only when.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Ticket(NamedTuple):
    """A place in the queue."""

    number: int
    who: str


class Turns:
    """The queue, and the time that everybody has had. One thread at a time.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._numbers = clock, itertools.count()
        self._waiting: list[Ticket] = []
        self._used: dict[str, float] = {}
        """Seconds of workers that somebody has had and given back."""
        self._held: dict[int, tuple[Ticket, int, float]] = {}
        """Tickets whose workers are out: how many, and since when."""

    def enter(self, who: str) -> Ticket:
        """Asks for a turn.

        Who comes, or comes back, while others are at it has had as much as the least of them: he
        is not ahead for all the time in which he wanted nothing.
        """
        others = {t.who for t in self._waiting} | {t.who for t, _, _ in self._held.values()}
        if who not in others:
            least = min(map(self._had, others), default=0.0)
            self._used[who] = max(self._used.get(who, 0.0), least)
        ticket = Ticket(next(self._numbers), who)
        self._waiting.append(ticket)
        return ticket

    def is_next(self, ticket: Ticket) -> bool:
        """Whether everybody else waits for this one."""
        return ticket == min(self._waiting, key=lambda one: (self._had(one.who), one.number))

    def leave(self, ticket: Ticket) -> None:
        """It waits no more, whether or not it got anything."""
        self._waiting.remove(ticket)

    def take(self, ticket: Ticket, workers: int) -> None:
        """It has got workers."""
        self._held[ticket.number] = ticket, workers, self._clock()

    def give_back(self, ticket: Ticket) -> None:
        """It has no more of them."""
        _, workers, since = self._held.pop(ticket.number)
        self._used[ticket.who] += workers * (self._clock() - since)

    def _had(self, who: str) -> float:
        now = self._clock()
        out = [n * (now - since) for ticket, n, since in self._held.values() if ticket.who == who]
        return self._used[who] + sum(out)
