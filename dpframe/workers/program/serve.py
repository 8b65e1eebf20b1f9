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
from typing import Any

from . import frames
from .frames import Frame
from .process_state import differences, imported, surroundings
from .query import Refused
from .sampler import Sampler

_exit, _getpid = os._exit, os.getpid  # a box may replace names in modules
_killpg = getattr(os, "killpg", lambda *_: None)


class Spoiled(Exception):  # noqa: N818  # a message to the run
    """A load needs a new process, because an earlier box has changed this one."""


def serve(loader: Any, clean_up: Callable[[], None] = lambda: None) -> None:
    """Serve a run until it has no more tasks.

    The loader gives `load(frame)`, which returns a Sampler, and `blame(error)`. `clean_up` is
    called before this process ends, with its process group.
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
    server = Server(loader, lambda frame, key: frames.write(answers, frame, key))
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
        _killpg(group, signal.SIGKILL)
    _exit(1)


class Server:
    """Does tasks of the run, one at a time.

    `write` sends a message that answers the request with a key; it raises OSError if the run has
    ended.
    """

    def __init__(self, loader: Any, write: Callable[[Frame, bytes], None]) -> None:
        self._loader, self._write = loader, write
        self._key = frames.NO_KEY
        self._process = _getpid()
        self._sampler: Sampler | None = None
        self._identity: object = None
        self._has_imported = False  # black boxes of this identity have loaded libraries
        self._before: Any = {}

    def answer(self, frame: Frame) -> None:
        """Send a message to the run, or end this process if the run has ended."""
        try:
            self._write(frame, self._key)
        except OSError:
            _exit(1)

    def do(self, task: Frame) -> None:
        """Do one task and answer."""
        self._key = task.header.get("key", frames.NO_KEY)
        try:
            if task.header["do"] == "load":
                self._load(task)
                self.answer(Frame({"tell": "loaded"}))
                return
            assert self._sampler is not None
            if task.header["do"] == "query":
                self.answer(self._sampler.query(task.header["data"]))
            else:
                self._draw(self._sampler, task.header)
        except Spoiled as spoiled:
            self.answer(Frame({"tell": "spoiled", "what": list(spoiled.args)}))
        except Refused as refused:
            self.answer(Frame({"tell": "refused", "why": str(refused)}))
        except BaseException as error:  # the black box may raise anything
            if _getpid() != self._process:  # it has forked, and both have returned
                _exit(0)
            with contextlib.suppress(BaseException):
                blame = self._loader.blame(error)
                told = {"tell": "raised", "type": type(error).__name__, "blame": blame}
                self.answer(Frame(told))
                return
            _exit(1)  # the box has broken the interpreter

    def _load(self, task: Frame) -> None:
        if self._sampler is not None and (changed := differences(self._before)):
            raise Spoiled(*changed)
        self._sampler = None
        sampler = self._loader.load(task)
        if self._has_imported and sampler.identity != self._identity:
            raise Spoiled("what another box has imported")
        self._sampler, self._identity = sampler, sampler.identity
        self._before = surroundings(sampler.watched)

    def _draw(self, sampler: Sampler, task: dict[str, Any]) -> None:
        modules = len(sys.modules)
        drawing = sampler.draw(task)
        while True:
            try:
                frame = next(drawing, None)
            finally:
                if len(sys.modules) > modules:
                    # Libraries change shared state when they are loaded. That is no fault of the
                    # black box, and a new process for every pair would load them again.
                    modules, self._has_imported = len(sys.modules), True
                    self._before = imported(self._before)
            if frame is None:
                break
            self.answer(frame)
        self.answer(Frame({"tell": "done"}))
