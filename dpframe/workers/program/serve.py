"""The loop of a worker process: take in a black box and its data, draw, answer.

Tasks come on standard input and answers leave on standard output, both as frames. The box itself
sees an empty standard input, and what it prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from dpframe.common.machine import adopt, descendants, end, free_bytes, within
from dpframe.common.text import error_message
from dpframe.workers.program import frames
from dpframe.workers.program.frames import Frame
from dpframe.workers.program.protect import differences, imported, surroundings
from dpframe.workers.program.querying import asked_of
from dpframe.workers.program.sampling import Refused, Sampler


def main() -> None:
    """Serves until its run has no more to ask."""
    tasks, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _first_to_go()
    adopt()
    todo: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, todo), daemon=True).start()
    server = _Server(answers)
    server.answer({"tell": "ready"})
    with within(free_bytes()):  # a box that asks for more gets an exception
        while True:
            server.do(todo.get())


def _listen(tasks: int, todo: queue.SimpleQueue[Frame]) -> None:
    """Takes tasks in; once the run has ended, ends everything that was started here."""
    group = os.getpgrp() if hasattr(os, "getpgrp") else None
    with contextlib.suppress(frames.NoFrameError):
        while (task := frames.read(tasks)) is not None:
            todo.put(task)
    end(descendants(os.getpid()))
    if group is not None:
        os.killpg(group, signal.SIGKILL)
    os._exit(1)


def _first_to_go() -> None:
    """When memory runs out, Linux should end this process and not the run."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


class _Server:
    """Does what it is asked, one task at a time."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._sampler: Sampler | None = None
        self._before = surroundings()
        self._boxes: list[tuple[str, str]] = []
        """Classes of the boxes that are here."""
        self._has_imported = False
        """Whether boxes of these classes have loaded what changes the surroundings."""

    def answer(self, header: dict[str, Any], content: bytes = b"") -> None:
        """Says something to the run, or ends where nobody listens."""
        try:
            frames.write(self._answers, Frame(header, content))
        except OSError:
            os._exit(1)

    def do(self, task: Frame) -> None:
        """Does one task and answers."""
        try:
            if task.header["do"] == "load":
                self._load(task)
            elif task.header["do"] == "query":
                assert self._sampler is not None
                self.answer(*asked_of(self._sampler, task.header))
            else:
                self._draw(task.header)
        except Refused as refused:
            self.answer({"tell": "refused", "why": str(refused)})
        except BaseException as error:  # whatever a box raises is the box's
            try:
                self.answer(
                    {"tell": "raised", "type": type(error).__name__, "blame": error_message(error)}
                )
            except BaseException:  # the box broke what everybody uses
                os._exit(1)

    def _load(self, task: Frame) -> None:
        if self._sampler is not None and (changed := differences(self._before)):
            self.answer({"tell": "spoiled", "what": changed})
            return
        self._sampler = None
        sampler = Sampler(*pickle.loads(task.content))
        boxes = [(type(box).__module__, type(box).__qualname__) for box in sampler.mechanisms]
        if self._has_imported and boxes != self._boxes:
            self.answer({"tell": "spoiled", "what": ["what another box has imported"]})
            return
        self._sampler, self._boxes = sampler, boxes
        self._before = surroundings()
        self.answer({"tell": "loaded"})

    def _draw(self, wanted: dict[str, Any]) -> None:
        assert self._sampler is not None
        modules = len(sys.modules)
        for drawn in self._sampler.draw(wanted):
            if len(sys.modules) > modules:
                # Libraries change what all code shares when they are loaded: that is no fault of
                # the box, and a new process for every pair would load them again.
                modules, self._has_imported = len(sys.modules), True
                self._before = imported(self._before)
            shape, kind = list(drawn.outputs.shape), drawn.outputs.dtype
            header: dict[str, Any] = {"tell": "outputs", "chunks": drawn.chunks, "shape": shape}
            header["dtype"] = kind.name if kind.kind == "V" else kind.str
            if drawn.answering:
                header |= {"words": drawn.words, "answering": True, "natives": list(drawn.natives)}
                header["paces"] = drawn.paces
            self.answer(header, drawn.outputs.tobytes())
        self.answer({"tell": "done"})


if __name__ == "__main__":
    sys.argv = [""]
    main()
