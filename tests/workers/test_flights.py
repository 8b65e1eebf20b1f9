"""How far calls are that say nothing until they are done: a guess, for a display only."""

from __future__ import annotations

from dpframe.workers.pool import UnderWay


def test_the_first_call_is_not_guessed() -> None:
    under_way = UnderWay()
    under_way.begin("a", "box", 16, now=0.0)
    assert [under_way.ahead(now) for now in (0.0, 100.0)] == [16, 16]


def test_later_calls_are_as_fast_as_the_last() -> None:
    under_way = UnderWay()
    under_way.begin("a", "box", 2, now=0.0)
    under_way.end("a", now=4.0)
    assert under_way.ahead(4.0) == 0
    under_way.begin("a", "box", 16, now=10.0)
    under_way.begin("b", "box", 4, now=12.0)
    under_way.begin("c", "another", 3, now=12.0)
    assert [under_way.ahead(now) for now in (12.0, 14.0, 16.0)] == [
        15 + 4 + 3,
        14 + 3 + 3,
        13 + 2 + 3,
    ]
    assert under_way.ahead(1e9) == 1 + 1 + 3  # what has not come is not done
    under_way.end("b", now=22.0)
    under_way.forget("c")
    under_way.forget("c")
    assert under_way.ahead(1e9) == 1


def test_what_is_not_asked_for_is_not_ahead() -> None:
    """A worker waits for the word that it is done."""
    under_way = UnderWay()
    under_way.begin("a", "box", 0, now=0.0)
    assert under_way.ahead(5.0) == 0
    under_way.end("a", now=5.0)
    under_way.begin("a", "box", 1, now=5.0)
    assert under_way.ahead(9.0) == 1
