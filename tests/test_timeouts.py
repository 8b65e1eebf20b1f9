"""Authors' code is waited for as long as it may take, and whatever it says is heard."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from dpframe.common import machine
from dpframe.common.machine import StuckError, at_work, doing, with_timeout


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(machine, "GRACE_SECONDS", 0.02)
    monkeypatch.setattr(machine, "TICK", 0.001)
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name == "dpframe-authors":
            thread.join(30)


@pytest.mark.parametrize("seconds", [None, 1e9])
def test_what_comes_back_is_handed_on(seconds: float | None) -> None:
    assert with_timeout(lambda: 7, seconds) == 7

    def breaks() -> None:
        with at_work("it"):
            raise SystemExit(3)

    with pytest.raises(SystemExit, match="3"):
        with_timeout(breaks, seconds)
    assert doing(threading.get_ident()) is None


def test_without_a_budget_there_is_no_other_thread() -> None:
    assert with_timeout(threading.current_thread, None) is threading.current_thread()
    assert with_timeout(threading.current_thread, 1e9) is not threading.current_thread()


def test_who_does_not_come_back_is_named(over: threading.Event) -> None:
    def work() -> None:
        with at_work("a quick one"):
            pass
        with at_work("fit", ("attack", 1)), at_work("what it calls"):
            over.wait()

    with pytest.raises(StuckError, match=r"^fit did not return within 0.03 s") as caught:
        with_timeout(work, 0.01)
    assert caught.value.place == ("attack", 1)


def test_work_of_ours_may_take_its_time(over: threading.Event) -> None:
    """Only authors' code is suspected: here nobody is at work for as long as two of its limits."""

    def work() -> str:
        over.wait(0.2)
        return "done"

    assert with_timeout(work, 0.01) == "done"
