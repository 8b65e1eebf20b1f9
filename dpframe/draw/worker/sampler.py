"""Run the loop of a worker process: load a black box and its data, draw chunks, reply.

Tasks arrive on standard input and replies leave on standard output, both as frames. The black box
itself has an empty standard input, and its prints go to standard error.
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
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from time import monotonic, perf_counter
from typing import Any, NamedTuple

from . import choices, frames, generators
from .answers import AnswerEncoder, Chunk, Terms, joined
from .codes import UnreadableError
from .frames import Frame
from .plain_data import SharedValue
from .query import Refused, ask

_MESSAGE_SECONDS = 0.1
"""Seconds between two messages with outputs; unsent outputs are lost if the process ends."""

_MESSAGE_BYTES = 1 << 20  # bytes of outputs in one message, approximately


class Prepared(NamedTuple):
    """The state that releases of one dataset share, or the exception that came instead."""

    state: Any
    error: BaseException | None = None
    shared: Sequence[SharedValue] = ()
    """The data and the state, which calls must not change."""
    made: bool = True  # False if the state is the dataset itself


TIMED = 8
"""Least number of outputs timed together, because the time of a single one varies."""


class Timer:
    """Measures seconds per output from its creation on."""

    def __init__(self) -> None:
        self._since, self._rows = perf_counter(), 0
        self.durations: list[float] = []  # seconds per output, each of `TIMED` outputs or more

    def drew(self, rows: int) -> None:
        """Note that `rows` more outputs were drawn."""
        self._rows += rows
        if self._rows >= TIMED:
            now = perf_counter()
            self.durations.append((now - self._since) / self._rows)
            self._since, self._rows = now, 0


class Sampler:
    """A black box with its datasets. Subclasses define how it is called."""

    def __init__(self, encoder: AnswerEncoder) -> None:
        self.encoder = encoder
        self.process = os.getpid()
        self._prepared: dict[tuple[int, int], Prepared] = {}
        self._generators: list[generators.Generator] = []
        self._modules, self._looks = 0, 0

    def draw(self, task: dict[str, Any]) -> Iterator[Frame]:
        """Draw chunks in their order.

        Args:
            task: `variant`, `data` (the number of the input dataset), `stream` and `dataset` (the
                address with the chunk), `first` and `stop` of the chunks, `rows` of each, and
                `answers`: the terms of asking for answers, null for arrays of numbers.

        Yields:
            Messages with the outputs of one or several chunks.

        Raises:
            Refused: the outputs cannot be counted; those before were yielded.
        """
        self.encoder.terms = Terms(**(task.get("answers") or {}))
        ready: list[Chunk] = []
        since, timer = monotonic(), Timer()
        for chunk in range(task["first"], task["stop"]):
            try:
                with self._called():
                    ready.append(self.chunk(task, chunk))
            except BaseException:
                if ready and self.fault(task["variant"], task["data"]) is None:
                    yield self._frame(ready, [])
                raise
            timer.drew(task["rows"])
            # Comparing shared values should take a tenth of the time at most.
            compared = sum(one.seconds for one in self.shared(task["variant"], task["data"]))
            due = monotonic() - since > max(_MESSAGE_SECONDS, 10 * compared)
            nbytes = len(ready) * len(ready[-1].content)
            if due or nbytes > _MESSAGE_BYTES or chunk + 1 == task["stop"]:
                if (fault := self.fault(task["variant"], task["data"])) is not None:
                    raise Refused(fault)
                yield self._frame(ready, timer.durations)
                ready, since, timer = [], monotonic(), Timer()

    def reply(self, task: dict[str, Any]) -> Frame:
        """Answer a question about the first variant and the dataset `data`.

        A `query` asks for its release without noise, see `query.ask`. `choices` asks for the
        distribution that it states, and for `draws` outputs, fewer after some `seconds`.
        """
        data = task["data"]
        with self._called():
            if task["request"] == "query":
                return ask(*self.questions(data))
            stated = choices.read(self.stated(data))

            def batch(number: int, rows: int) -> Sequence[Any]:
                self.seed(task["stream"], number, task["dataset"])
                return self.outputs({**task, "rows": rows}, number)

            return choices.frame(stated, choices.draw(batch, task["draws"], task["seconds"]))

    def questions(self, data: int) -> tuple[Callable[[], Any], Callable[[], Any] | None]:
        """Return the first variant's query, and its stated sensitivity if it has one."""
        raise NotImplementedError

    def stated(self, data: int) -> Any:
        """Return the distribution that the first variant states."""
        raise NotImplementedError

    def outputs(self, task: dict[str, Any], chunk: int) -> Sequence[Any]:
        """Return `rows` outputs of the first variant, as they are."""
        raise NotImplementedError

    def chunk(self, task: dict[str, Any], chunk: int) -> Chunk:
        """Draw one chunk of a task."""
        raise NotImplementedError

    def prepare(self, variant: int, data: int) -> Prepared:
        """Build the state that releases of one dataset share."""
        raise NotImplementedError

    def fault(self, variant: int, data: int) -> str | None:
        """Return the reason if the outputs of a dataset are unusable, else None."""
        return next((one.fault for one in self.shared(variant, data) if one.changed()), None)

    def black_boxes(self) -> Sequence[Any]:
        """Return the values whose code makes the releases of each variant."""
        raise NotImplementedError

    def shared(self, variant: int, data: int) -> Sequence[SharedValue]:
        """Return the values that all calls for a dataset share."""
        prepared = self._prepared.get((variant, data))
        return prepared.shared if prepared else ()

    def prepared(self, variant: int, data: int) -> Prepared:
        """Return the shared state of a dataset, built once."""
        if (variant, data) not in self._prepared:
            self.seed([0, "prepare", 0, "probe"], 0, 0)
            try:
                prepared = self.prepare(variant, data)
            except (MemoryError, Refused):
                raise
            except (Exception, SystemExit) as error:
                prepared = Prepared(None, error)
            self.stay_alone()
            self._prepared[variant, data], self._looks = prepared, 0
        return self._prepared[variant, data]

    def seed(self, stream: Sequence[Any], chunk: int, dataset: int) -> bytes:
        """Seed the generators that outlive a call by an address, and return the seed.

        These are the global ones of the process, and those that the user's own code keeps.
        Otherwise processes would start with equal states, or with states that cannot be replayed.
        """
        seed = seeds(stream, chunk, dataset)
        random.seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(list(struct.unpack("<8I", seed)))
        generators.seed_torch(seed)
        generators.seed(self.kept_generators(), seed)
        return seed

    def kept_generators(self) -> list[generators.Generator]:
        """Return the generators that the black boxes keep; a first call may make or import more."""
        if self._looks < 2 or len(sys.modules) != self._modules:
            self._looks, self._modules = self._looks + 1, len(sys.modules)
            prepared = self._prepared.items()
            states = {
                f"{variant}.{data}": one.state for (variant, data), one in prepared if one.made
            }
            numbered = {str(variant): one for variant, one in enumerate(self.black_boxes())}
            self._generators = generators.generators_of({**numbered, **states})
        return self._generators

    @contextlib.contextmanager
    def _called(self) -> Iterator[None]:
        """Call the black box inside the context; raise Refused if an answer cannot be read."""
        try:
            yield
        except UnreadableError as problem:
            raise Refused(f"an answer cannot be read: {problem}") from None
        finally:
            self.stay_alone()

    def stay_alone(self) -> None:
        """End this process if the black box has forked and both have returned."""
        if os.getpid() != self.process:
            os._exit(0)

    def _frame(self, chunks: list[Chunk], durations: list[float]) -> Frame:
        whole = joined(chunks)
        header = {"reply": "outputs", "chunks": len(chunks), "shape": whole.shape}
        header["dtype"] = whole.dtype
        if whole.natives is not None:
            header.update(answering=True, natives=list(whole.natives), durations=durations)
            header["words"] = self.encoder.take_words()
        return Frame(header, whole.content)


def seeds(stream: Sequence[Any], chunk: int, dataset: int) -> bytes:
    """Return 32 bytes of an address, as a seed of global generators."""
    text = json.dumps(list(stream), sort_keys=True, separators=(",", ":"))
    words = blake2b(text.encode(), digest_size=32).digest()
    place = words + chunk.to_bytes(8, "little") + bytes([dataset])
    return blake2b(place, digest_size=32, person=b"shared").digest()


def serve(
    load: Callable[[Frame], Sampler],
    describe: Callable[[BaseException], str],
    clean_up: Callable[[], None] = lambda: None,
) -> None:
    """Serve a run until it has no more tasks.

    `load` makes a sampler by a request, and `describe` describes an exception. `clean_up` is called
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
    server = Server(load, describe, lambda frame: frames.write(answers, frame))
    server.answer(Frame({"reply": "ready"}))
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
        describe: Callable[[BaseException], str],
        write: Callable[[Frame], None],
    ) -> None:
        self._load, self._describe, self._write = load, describe, write
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
            if task.header["request"] == "load":
                self._sampler = None
                self._sampler = self._load(task)
                self.answer(Frame({"reply": "loaded"}))
                return
            assert self._sampler is not None
            if task.header["request"] in ("query", "choices"):
                self.answer(self._sampler.reply(task.header))
                return
            for frame in self._sampler.draw(task.header):
                self.answer(frame)
            self.answer(Frame({"reply": "done"}))
        except Refused as refused:
            self.answer(Frame({"reply": "refused", "why": str(refused)}))
        except BaseException as error:  # the black box may raise anything
            if os.getpid() != self._process:  # it has forked, and both have returned
                os._exit(0)
            with contextlib.suppress(BaseException):
                text = self._describe(error)
                self.answer(Frame({"reply": "raised", "type": type(error).__name__, "error": text}))
                return
            os._exit(1)  # the black box has broken the interpreter
