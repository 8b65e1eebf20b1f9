"""A scheduler and workers as processes that tests can kill."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

SLOW = 1.0
"""Seconds for which a worker is held up."""


class Processes:
    """A Dask cluster that was started by hand.

    Args:
        directory: where workers keep what they keep.
        workers: how many to start with.
    """

    def __init__(self, directory: Path, workers: int) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.directory = directory
        self.scheduler = self._start_scheduler()
        self.workers = [self.start_worker() for _ in range(workers)]

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
        place = ["--local-directory", str(self.directory)]
        return self._started("dask_worker", self.address, *words, *place, **environment)

    def replace(self, number: int) -> None:
        """Kills a worker and starts another one."""
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self.start_worker()

    def hold_up(self, number: int) -> None:
        """Stops a worker for a while: what it was at comes late."""
        worker = self.workers[number]
        worker.send_signal(signal.SIGSTOP)
        threading.Timer(SLOW, worker.send_signal, [signal.SIGCONT]).start()

    def fill_disk(self, number: int) -> None:
        """From now on a worker, and what it starts, can write no file."""
        resource.prlimit(self.workers[number].pid, resource.RLIMIT_FSIZE, (0, 0))

    def restart_scheduler(self) -> None:
        """Kills the scheduler and starts another one at the same address, with new workers."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self._start_scheduler()
        for number in range(len(self.workers)):
            self.replace(number)

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start_scheduler(self) -> subprocess.Popen[bytes]:
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        return self._started("dask_scheduler", *words)

    def _started(self, program: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        nothing: Any = subprocess.DEVNULL
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *words],
            stdout=nothing,
            stderr=nothing,
            env={**os.environ, "PYTHONPATH": path, **environment},
        )
