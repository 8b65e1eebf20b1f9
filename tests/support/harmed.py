"""A cluster to which something happens while it is asked, however fast it is."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpframe.draw.dask_executor import DaskExecutor
from dpframe.interfaces.executor import Task

BETWEEN = 1
"""Tasks between two faults."""


class Harmed(DaskExecutor):
    """Holds tasks back at the gate until the fault before them has come.

    Args:
        address: of the scheduler.
        faults: what happens, one after the other, each while tasks go on.
    """

    def __init__(self, address: str, faults: Sequence[Callable[[], Any]]) -> None:
        super().__init__(address)
        self.left = list(faults)
        self._over = False
        self._asked = self._may = 0
        self._change = threading.Condition()

    def do(self, task: Task) -> Any:
        """See `DaskExecutor`."""
        with self._change:
            self._asked += 1
            number = self._asked
            self._change.notify_all()
            self._change.wait_for(lambda: number <= self._may or self._over)
        return super().do(task)

    @contextlib.contextmanager
    def harming(self) -> Iterator[None]:
        """While a run goes on."""
        thread = threading.Thread(target=self._harm)
        thread.start()
        try:
            yield
        finally:
            self._end()
            thread.join()

    def _harm(self) -> None:
        while self.left:
            with self._change:
                self._may += BETWEEN
                self._change.notify_all()
                self._change.wait_for(lambda: self._asked > self._may or self._over)
                if self._over:
                    return
            self.left.pop(0)()
        self._end()

    def _end(self) -> None:
        with self._change:
            self._over = True
            self._change.notify_all()
