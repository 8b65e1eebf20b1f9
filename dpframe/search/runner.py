"""Run the searches of an audit, several at once."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.common.text import blame
from dpframe.errors import CellError
from dpframe.results.build import CellResult
from dpframe.search.finding import finding
from dpframe.search.search import Hunt
from dpframe.workers.scheduling import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from dpframe.engine.checkpoint import Store
    from dpframe.interfaces.executor import Executor
    from dpframe.results.verdict import Looks
    from dpframe.spec.audit import Cell, RunSettings
    from dpframe.workers.scheduling import Source


# What all searches of a run have in common.


class Settings(NamedTuple):
    """What all searches of a run have in common."""

    run: RunSettings
    prng: str
    store: Store
    source: Source
    error_of: Callable[[Cell], float]
    """Share of the error that a cell has, at its look."""
    looks_of: Callable[[Cell], Looks]
    """Which look at the draws of a cell this is."""
    resolution_of: Callable[[Cell], float]
    """What the sampler resolves; added to both rates of what is bet against."""
    ends_when_decided: bool
    executor: Executor
    """Counts and draws traced mechanisms."""


# Searches of a run, several at once: each is driven by a thread, and counts on all cores.


FAREWELL = 1.0
"""Seconds that threads get to come to an end when the caller leaves."""


class Drawn(NamedTuple):
    """Draws were made, on both datasets together."""

    cell: Cell
    draws: int


Event = Drawn | CellResult | BaseException


class Crew:
    """Runs searches on threads.

    Args:
        cells: what is searched.
        settings: of the run.
        threads: how many segments are counted at once.
    """

    def __init__(self, cells: Sequence[Cell], settings: Settings, threads: int) -> None:
        self._waiting: queue.SimpleQueue[Cell] = queue.SimpleQueue()
        for cell in cells:
            self._waiting.put(cell)
        self._settings, self._left = settings, len(cells)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dpframe-count")
        self._drivers = [
            threading.Thread(target=self._drive, name=f"dpframe-search-{n}", daemon=True)
            for n in range(min(threads, len(cells)))
        ]

    def events(self, patience: float) -> Generator[Drawn | CellResult | None]:
        """Yields what happens, and None when nothing did for `patience` seconds.

        Leaving the loop early ends the searches after the segments that they are counting.
        """
        try:
            for driver in self._drivers:
                driver.start()
            while self._left:
                try:
                    event = self._events.get(timeout=patience)
                except queue.Empty:
                    event = None
                if isinstance(event, BaseException):
                    raise event
                self._left -= isinstance(event, CellResult)
                yield event
        finally:
            self._stopping.set()
            if self._left:
                self._settings.source.stop()
            self._pool.shutdown(wait=False, cancel_futures=True)
            deadline = time.monotonic() + FAREWELL
            for driver in self._drivers:
                if driver.ident is not None:
                    driver.join(max(0.0, deadline - time.monotonic()))

    def _drive(self) -> None:
        while not self._stopping.is_set():
            try:
                cell = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._events.put(self._searched(cell))
            except Stopped:
                return
            except BaseException as error:  # else the caller would wait for ever
                self._events.put(error)
                return

    def _searched(self, cell: Cell) -> CellResult:
        started = time.perf_counter()

        def told(draws: int) -> None:
            self._events.put(Drawn(cell, draws))

        hunt = Hunt(cell, self._settings, self._count, told)
        try:
            hunt.run()
            return finding(hunt, time.perf_counter() - started)
        except Stopped:
            raise
        except CellError as error:
            return CellResult(cell=cell, reason=str(error), exact=hunt.sensitivity.found)
        except Exception as error:  # an author's, met where nobody expected it
            return CellResult(cell=cell, reason=blame(error))

    def _count(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        if self._stopping.is_set():
            raise Stopped
        try:
            waiting = [self._pool.submit(call) for call in calls]
            return [found.result() for found in waiting]
        except RuntimeError as error:  # the pool is closed
            if self._stopping.is_set():
                raise Stopped from error
            raise
