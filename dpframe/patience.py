"""Waits for authors' code as long as a time budget allows, and no longer.

No thread can be ended from outside. So code that may hang runs in a thread of its own, which is
left behind if it does: it keeps nobody, and nothing that it still finds is used.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds beyond a time budget that a call of authors' code gets while nothing is counted."""

TICK = 0.05
"""Seconds between two looks at the clock."""


class StuckError(Exception):
    """Authors' code did not come back; the message says whose.

    Args:
        what: was called.
        limit: seconds that it had.
        place: whatever its caller knows it by.
    """

    def __init__(self, what: str, limit: float, place: Any = None) -> None:
        super().__init__(f"{what} did not come back within {limit:g} s")
        self.place = place


class _Call(NamedTuple):
    what: str
    since: float
    place: Any


_calls: dict[int, _Call] = {}
"""By thread: the call of authors' code that is going on, the outermost if there are several."""


@contextlib.contextmanager
def at_work(what: str, place: Any = None) -> Iterator[None]:
    """While authors' code is called.

    Args:
        what: is called.
        place: whatever the caller knows it by.
    """
    thread = threading.get_ident()
    if thread in _calls:
        yield
        return
    _calls[thread] = _Call(what, time.monotonic(), place)
    try:
        yield
    finally:
        _calls.pop(thread, None)


def doing(thread: int | None) -> str | None:
    """What authors' code a thread is calling."""
    call = None if thread is None else _calls.get(thread)
    return None if call is None else call.what


def patiently(work: Callable[[], T], seconds: float | None) -> T:
    """What a call gives, if no authors' code in it takes too long.

    Args:
        work: is called in another thread, so that its contexts must be its own.
        seconds: the time budget; None waits for ever, in this thread.

    Raises:
        StuckError: some code of authors takes longer than that and the patience for it.
    """
    if seconds is None:
        return work()
    limit = seconds + PATIENCE
    done: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((True, work()))
        except BaseException as error:
            done.put((False, error))

    thread = threading.Thread(target=run, name="dpframe-authors", daemon=True)
    thread.start()
    while True:
        try:
            came, result = done.get(timeout=TICK)
        except queue.Empty:
            call = _calls.get(thread.ident or 0)
            if call is not None and time.monotonic() - call.since > limit:
                raise StuckError(call.what, limit, call.place) from None
            continue
        if came:
            found: T = result
            return found
        raise result
