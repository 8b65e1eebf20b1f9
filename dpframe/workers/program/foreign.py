"""A worker for another interpreter: one file for Python 3.8 and later, without dependencies.

It speaks what `serve` speaks: tasks come on standard input and answers leave on standard output,
both as frames. The box is a plain module, `prepare(params, data)`, which returns a function of no
arguments that makes one release; nothing here imports dpframe, NumPy or anything installed.
`start` gets the files beside it that it works with, as modules.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import struct
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


_LENGTHS = struct.Struct("!4sIQ")
_MARK = b"dpf\x01"

SECONDS = 0.1
"""What is drawn leaves at least so often."""

NBYTES = 1 << 20
"""And before it gets larger than this."""


class Refused(Exception):  # noqa: N818  # said to the run, raised nowhere else
    """What the box is or did cannot be used."""


class _Unready(Exception):  # noqa: N818
    """`prepare` raised something; it did so for every release."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def start(parts: Any) -> None:
    """Serves until the run has no more to ask.

    Args:
        parts: the files beside this one that it works with, as modules.
    """
    tasks, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the box prints
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            # Else what it printed may end with it.
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # the first to go
    todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, todo), daemon=True).start()
    server = Server(parts, lambda header, content: _write(answers, header, content))
    server.answer({"tell": "ready"})
    while True:
        server.do(*todo.get())


class Server:
    """Does what it is asked, one task at a time.

    Args:
        parts: the files beside this one, as modules.
        write: sends a header and bytes.
    """

    def __init__(self, parts: Any, write: Callable[[Any, bytes], None]) -> None:
        self.encoding, self.plain = parts.answer_encoding, parts.plain_data
        self.system, self.exact = parts.foreign_system, parts.query_numbers
        self.parts, self.write = parts, write
        self.program: Any = None
        self.digest = ""
        """Of the program's file."""
        self.wanted: dict[str, Any] = {}
        self.data: list[bytes] = []
        self.ready: dict[tuple[int, int], Any] = {}
        """What `prepare` returned, by lane and dataset."""
        self.asked: Any = None
        """Lays out what the box answers."""
        self.before: Any = None
        self.process = os.getpid()

    def answer(self, header: dict[str, Any], content: bytes = b"") -> None:
        """Says something to the run, or ends where nobody listens."""
        try:
            self.write(header, content)
        except OSError:
            os._exit(1)

    def do(self, header: dict[str, Any], content: bytes) -> None:
        """Does one task and answers."""
        try:
            getattr(self, "_" + header["do"])(header, content)
        except Refused as refused:
            self.answer({"tell": "refused", "why": str(refused)})
        except BaseException as error:  # whatever a box raises is the box's
            if os.getpid() != self.process:  # a fork of the box came back too
                os._exit(0)
            with contextlib.suppress(BaseException):
                blame = self.blame(error)
                self.answer({"tell": "raised", "type": type(error).__name__, "blame": blame})
                return
            os._exit(1)  # the box broke what everybody uses

    def blame(self, error: BaseException) -> str:
        """`ZeroDivisionError: division by zero (mean.py:14)`."""
        try:
            text = " ".join(str(error).split())[:500] or "no message"
        except Exception:  # a message that cannot be made
            text = "no message"
        own = os.path.realpath(self.wanted.get("program", ""))
        lines = [
            "%s:%d" % (os.path.basename(file), line)
            for file, line, _, _ in traceback.extract_tb(error.__traceback__)
            if os.path.realpath(file) == own
        ]
        return type(error).__name__ + ": " + text + (" (" + lines[-1] + ")" if lines else "")

    def _load(self, header: dict[str, Any], content: bytes) -> None:
        """Takes in a program, its parameters for each lane, and the datasets."""
        other = self.program is not None and header["digest"] != self.digest
        if other or (self.before is not None and self.system.surroundings() != self.before):
            self.answer({"tell": "spoiled", "what": []})
            return
        self.system.limit(header.get("memory"))
        self.wanted, self.ready = header, {}
        self.asked = self.parts.foreign_rows.Rows(self.parts, header["attributes"])
        try:
            self.data = list(self.plain.unpack(content))
            for one in self.data:  # what is missing shows before anything is drawn
                self.plain.unpack(one)
        except self.plain.UnfitError as error:
            raise Refused("the data cannot be had here: " + str(error)) from None
        if self.program is None:
            self.program = self.system.module(header["program"], header["digest"])
            self.digest = header["digest"]
        if not callable(getattr(self.program, "prepare", None)):
            name = os.path.basename(header["program"])
            raise Refused(name + " has no function prepare(params, data)")
        self.before = self.system.surroundings()
        self.answer({"tell": "loaded"})

    def _draw(self, header: dict[str, Any], _content: bytes) -> None:
        """Draws chunks in their order."""
        asked = self.asked
        asked.begin(header.get("answers") or {})
        count, since = 0, time.monotonic()
        timer = self.parts.timing.Timer()
        for chunk in range(header["first"], header["stop"]):
            self._ask(asked, header, chunk)
            timer.drew(header["rows"])
            count += 1
            due = time.monotonic() - since > SECONDS or asked.size > NBYTES
            if due or chunk + 1 == header["stop"]:
                told, content = asked.given()
                self.answer({**told, "chunks": count, "paces": timer.paces}, content)
                count, since = 0, time.monotonic()
                timer = self.parts.timing.Timer()
        self.answer({"tell": "done"})

    def _query(self, header: dict[str, Any], _content: bytes) -> None:
        """Asks what would be released without noise."""
        told: dict[str, Any] = {"tell": "queried", "raised": None, "form": ""}
        params, data = self._params(0), self.plain.unpack(self.data[header["data"]])
        try:
            answer = self.program.query(params, data)
        except (Exception, SystemExit) as error:
            self.answer({**told, "raised": self.exact.told(error)}, b"[]")
            return
        try:
            if callable(getattr(self.program, "sensitivity", None)):
                said = self.exact.numbers(self.program.sensitivity(params))[1]
                told["sensitivity"] = said[0] if len(said) == 1 else "nan"
            told["form"], found = self.exact.numbers(answer)
        except TypeError as error:
            raise Refused(str(error)) from None
        self.answer(told, json.dumps(found).encode())

    def _params(self, lane: int) -> Any:
        """Parameters that a box may change."""
        return json.loads(json.dumps(self.wanted["params"][lane]))

    def _ask(self, asked: Any, header: dict[str, Any], chunk: int) -> None:
        """Releases one chunk."""
        modules = len(sys.modules)
        try:
            release = self._release(header["lane"], header["data"])
            self._seed(header["stream"], chunk, header["dataset"])
            asked.take(release, header["rows"])
        except _Unready as unready:
            asked.fail(unready.error, header["rows"])
        except self.encoding.UnreadableError as error:
            raise Refused("an answer cannot be read: " + str(error)) from None
        finally:
            if len(sys.modules) > modules and self.before is not None:
                self.before = self.system.imported(self.before)
            if os.getpid() != self.process:  # a fork of the box came back too
                os._exit(0)

    def _release(self, lane: int, data: int) -> Callable[[], Any]:
        """The function that makes one release, with its state built once."""
        if (lane, data) not in self.ready:
            own = self.plain.unpack(self.data[data])
            params = self._params(lane)
            self._seed([0, "prepare", 0, "probe"], 0, 0)
            try:
                made: Any = self.program.prepare(params, own)
            except MemoryError:
                raise
            except (Exception, SystemExit) as error:
                made = _Unready(error)
            if not callable(made) and not isinstance(made, _Unready):
                raise Refused(
                    "prepare(params, data) returned %s; it returns a function of no arguments "
                    "that makes one release" % type(made).__name__
                )
            self.ready[lane, data] = made
        found: Callable[[], Any] | _Unready = self.ready[lane, data]
        if isinstance(found, _Unready):
            raise found
        return found

    def _seed(self, stream: Any, chunk: int, dataset: int) -> None:
        """Gives the generators that whole processes share an address, as in-process workers do."""
        found = self.system.seeds(stream, chunk, dataset)
        random.seed(found)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(list(struct.unpack("<8I", found)))
        if callable(own := getattr(self.program, "seed", None)):
            own(int.from_bytes(found[:8], "little"))


def _listen(tasks: int, todo: queue.SimpleQueue[Any]) -> None:
    """Takes tasks in; once the run has ended, ends everything in this session."""
    while True:
        lengths = _exactly(tasks, _LENGTHS.size)
        if lengths is None:
            break
        mark, header_length, content_length = _LENGTHS.unpack(lengths)
        header, content = _exactly(tasks, header_length), _exactly(tasks, content_length)
        if mark != _MARK or header is None or content is None:
            break
        todo.put((json.loads(header.decode()), content))
    os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _exactly(descriptor: int, number: int) -> bytes | None:
    found = bytearray()
    while len(found) < number:
        got = os.read(descriptor, min(number - len(found), 1 << 20))
        if not got:
            return None
        found += got
    return bytes(found)


def _write(descriptor: int, header: dict[str, Any], content: bytes) -> None:
    told = json.dumps(header).encode()
    for part in (_LENGTHS.pack(_MARK, len(told), len(content)), told, content):
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]
