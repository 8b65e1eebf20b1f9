"""How far calls are that say nothing until they are done: a guess, for a display only."""

from __future__ import annotations

from dpframe.workers.scheduling import Flights


def test_the_first_call_is_not_guessed() -> None:
    flights = Flights()
    flights.begin("a", "box", 16, now=0.0)
    assert [flights.ahead(now) for now in (0.0, 100.0)] == [16, 16]


def test_later_calls_are_as_fast_as_the_last() -> None:
    flights = Flights()
    flights.begin("a", "box", 2, now=0.0)
    flights.end("a", now=4.0)
    assert flights.ahead(4.0) == 0
    flights.begin("a", "box", 16, now=10.0)
    flights.begin("b", "box", 4, now=12.0)
    flights.begin("c", "another", 3, now=12.0)
    assert [flights.ahead(now) for now in (12.0, 14.0, 16.0)] == [
        15 + 4 + 3,
        14 + 3 + 3,
        13 + 2 + 3,
    ]
    assert flights.ahead(1e9) == 1 + 1 + 3  # what has not come is not done
    flights.end("b", now=22.0)
    flights.forget("c")
    flights.forget("c")
    assert flights.ahead(1e9) == 1


def test_what_is_not_asked_for_is_not_ahead() -> None:
    """A worker waits for the word that it is done."""
    flights = Flights()
    flights.begin("a", "box", 0, now=0.0)
    assert flights.ahead(5.0) == 0
    flights.end("a", now=5.0)
    flights.begin("a", "box", 1, now=5.0)
    assert flights.ahead(9.0) == 1
