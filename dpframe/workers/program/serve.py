"""The loop of a worker process: load a black box and its data, draw, answer.

Tasks arrive on standard input and answers leave on standard output, both as frames. The box itself
has an empty standard input, and its prints go to standard error.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable

from . import frames
from .frames import Frame
from .query import Refused
from .sampler import Sampler


def serve(
    load: Callable[[Frame], Sampler],
    blame: Callable[[BaseException], str],
    clean_up: Callable[[], None] = lambda: None,
) -> None:
    """Serve a run until it has no more tasks.

    `load` makes a sampler by a request, and `blame` describes an exception. `clean_up` is called
    before this process ends, with its process group.
    """
    tasks, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # prints of the black box must not mix with answers
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # otherwise a print may be lost with its process
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # When memory runs out, Linux should end this process and not the run.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    todo: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, todo, clean_up), daemon=True).start()
    server = Server(load, blame, lambda frame: frames.write(answers, frame))
    server.answer(Frame({"tell": "ready"}))
    while True:
        server.do(todo.get())


def _listen(tasks: int, todo: queue.SimpleQueue[Frame], clean_up: Callable[[], None]) -> None:
    """Receive tasks; when the run has ended, end this process and its descendants."""
    group = os.getpgrp() if hasattr(os, "getpgrp") else None
    with contextlib.suppress(frames.NoFrameError):
        while (task := frames.read(tasks)) is not None:
            todo.put(task)
    clean_up()
    if group is not None:
        os.killpg(group, signal.SIGKILL)
    os._exit(1)


class Server:
    """Does tasks of the run, one at a time.

    `write` sends a message; it raises OSError if the run has ended.
    """

    def __init__(
        self,
        load: Callable[[Frame], Sampler],
        blame: Callable[[BaseException], str],
        write: Callable[[Frame], None],
    ) -> None:
        self._load, self._blame, self._write = load, blame, write
        self._process = os.getpid()
        self._sampler: Sampler | None = None

    def answer(self, frame: Frame) -> None:
        """Send a message to the run, or end this process if the run has ended."""
        try:
            self._write(frame)
        except OSError:
            os._exit(1)

    def do(self, task: Frame) -> None:
        """Do one task and answer."""
        try:
            if task.header["do"] == "load":
                self._sampler = None
                self._sampler = self._load(task)
                self.answer(Frame({"tell": "loaded"}))
                return
            assert self._sampler is not None
            if task.header["do"] == "query":
                self.answer(self._sampler.query(task.header["data"]))
                return
            for frame in self._sampler.draw(task.header):
                self.answer(frame)
            self.answer(Frame({"tell": "done"}))
        except Refused as refused:
            self.answer(Frame({"tell": "refused", "why": str(refused)}))
        except BaseException as error:  # the black box may raise anything
            if os.getpid() != self._process:  # it has forked, and both have returned
                os._exit(0)
            with contextlib.suppress(BaseException):
                blame = self._blame(error)
                self.answer(Frame({"tell": "raised", "type": type(error).__name__, "blame": blame}))
                return
            os._exit(1)  # the box has broken the interpreter
