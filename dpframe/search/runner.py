"""Run the searches of an audit, several at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.common.text import error_message
from dpframe.errors import CellError, UntrustedError
from dpframe.results.build import cell_record
from dpframe.results.model import CellRecord
from dpframe.search.finding import finding
from dpframe.search.search import SearchRun
from dpframe.workers.scheduling import Stopped

if TYPE_CHECKING:
    from dpframe.engine.checkpoint import Store
    from dpframe.interfaces.executor import Executor
    from dpframe.results.verdict import Looks
    from dpframe.spec.audit import Cell, RunSettings
    from dpframe.workers.scheduling import Source

FAREWELL = 1.0
"""Seconds that threads get to come to an end when the caller leaves."""


class Settings(NamedTuple):
    """Settings that all searches of a run share."""

    run: RunSettings
    prng: str
    store: Store
    source: Source
    error_of: Callable[[Cell], float]
    """Share of the error that a cell has, at its look."""
    question_of: Callable[[Cell], str]
    """Digest of all that decides what a search draws and finds."""
    looks_of: Callable[[Cell], Looks]
    """Number of the look at the draws of a cell."""
    resolution_of: Callable[[Cell], float]
    """Resolution of the sampler; added to both rates of what is bet against."""
    ends_when_decided: bool
    executor: Executor
    """Counts and draws traced mechanisms."""


class Drawn(NamedTuple):
    """Draws were made, on both datasets together."""

    cell: Cell
    draws: int


Event = Drawn | CellRecord | BaseException


class SearchRunner:
    """Runs searches: each is driven by a thread, and counts on all cores.

    Args:
        cells: one for each search.
        settings: of the run.
        threads: segments that are counted at once.
    """

    def __init__(self, cells: Sequence[Cell], settings: Settings, threads: int) -> None:
        self._waiting, self._left = list(cells), len(cells)
        self._settings = settings
        self._events: queue.SimpleQueue[Drawn | CellRecord | BaseException] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dpframe-count")
        self._drivers = [
            threading.Thread(target=self._drive, name=f"dpframe-search-{n}", daemon=True)
            for n in range(min(threads, len(cells)))
        ]

    def events(self, timeout: float) -> Generator[Drawn | CellRecord | None]:
        """Yield events as they come, and None if none came for `timeout` seconds.

        Leaving the loop early ends the searches after the segments that they are counting.
        """
        try:
            for driver in self._drivers:
                driver.start()
            while self._left:
                try:
                    event = self._events.get(timeout=timeout)
                except queue.Empty:
                    event = None
                if isinstance(event, BaseException):
                    raise event
                self._left -= isinstance(event, CellRecord)
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
                cell = self._waiting.pop(0)
            except IndexError:
                return
            try:
                self._events.put(self._searched(cell))
            except Stopped:
                return
            except BaseException as error:  # else the caller would wait for ever
                self._events.put(error)
                return

    def _searched(self, cell: Cell) -> CellRecord:
        started = time.perf_counter()
        search = SearchRun(
            cell, self._settings, self._count, lambda draws: self._events.put(Drawn(cell, draws))
        )
        try:
            search.run()
            return finding(search, time.perf_counter() - started)
        except (Stopped, UntrustedError):
            raise
        except CellError as error:
            return cell_record(cell, reason=str(error), exact=search.sensitivity.found)
        except Exception as error:  # an author's, met where nobody expected it
            return cell_record(cell, reason=error_message(error))

    def _count(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        if self._stopping.is_set():
            raise Stopped
        try:
            return [found.result() for found in [self._pool.submit(call) for call in calls]]
        except RuntimeError as error:  # the pool is closed
            if self._stopping.is_set():
                raise Stopped from error
            raise
