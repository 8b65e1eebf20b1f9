"""Requests to black boxes: their form, the workers that serve them, and their answers."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import importlib
import io
import itertools
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.common.machine import free_bytes
from dpframe.common.text import escape, message
from dpframe.common.types import HostArray
from dpframe.draw.worker import plain_data
from dpframe.draw.worker.frames import Frame, NoFrameError
from dpframe.draw.worker.generators import global_generators
from dpframe.errors import SampleError
from dpframe.interfaces.attack import BEFORE
from dpframe.interfaces.mechanism import ForeignMechanism, HostMechanism

if TYPE_CHECKING:
    from dpframe.draw.streams import Asking, Shape, Stream

MOST_WORDS = 1 << 14  # texts that a run keeps


class RunCancelled(Exception):  # noqa: N818  # nothing is wrong
    """The run ends."""


class DeadlinePassed(Exception):  # noqa: N818
    """A process did not answer in time; it may still be at work."""


class RaisedError(SampleError):
    """The black box raised an exception."""


class OutOfMemoryError(RaisedError):
    """The black box needs more memory than there is."""


class LostError(SampleError):
    """The process that held the black box has ended, or could not begin."""


# Requests.


class BlackBoxPayload:
    """The mechanisms of a pass, one per variant, and its data, in the form that workers load."""

    _numbers = itertools.count()

    def __init__(self, mechanisms: tuple[HostMechanism, ...], data: tuple[Any, ...]) -> None:
        self.number = next(self._numbers)
        self.content = mechanisms, data
        self.topic = repr([(type(m).__qualname__, m.params()) for m in mechanisms])
        """Equal for all pairs of a search. Lending is fair, and prints shown once, by topic."""
        self.as_code = False  # True if the modules of the mechanisms are sent too
        self.sent: Any = None  # a place for `RemoteBlackBoxes`
        self._message: tuple[dict[str, Any], bytes] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return BlackBoxPayload, self.content

    @property
    def is_external(self) -> bool:
        """True if the black boxes are modules for any interpreter."""
        return isinstance(self.content[0][0], ForeignMechanism)

    @property
    def code(self) -> str:
        """Name of the code that a process imports for it; equal names cost no second import."""
        if self.is_external:
            return str(self.message()[0]["digest"])
        return repr([(type(m).__module__, type(m).__qualname__) for m in self.content[0]])

    def message(self) -> tuple[dict[str, Any], bytes]:
        """Return the header and content of the request to load it.

        Classes and functions that are in no module, such as a script's, are sent as code.

        Raises:
            SampleError: it cannot be handed to another process.
        """
        with _PICKLING:  # several workers may ask at once
            if self._message is None:
                if self.is_external:
                    self._message = program_request(*self.content)
                    return self._message
                try:
                    content = pickled(
                        self.content, map(type, self.content[0]), as_code=self.as_code
                    )
                except Exception as error:  # the code of an object may raise anything
                    raise SampleError(sending_error(error)) from error
                self._message = {"request": "load"}, content
            return self._message

    def send_code(self) -> None:
        """Send the modules of the mechanisms too, because only this process can import them."""
        with _PICKLING:
            if not self.as_code:
                self.as_code, self._message = True, None


def program_request(
    mechanisms: tuple[Any, ...], data: tuple[Any, ...]
) -> tuple[dict[str, Any], bytes]:
    """Return header and content of a request to load a program, its parameters and data.

    Raises SampleError if the program cannot be read, or the data cannot be sent.
    """
    first = mechanisms[0]
    try:
        program = first.program()
        header = {
            "request": "load",
            "program": str(program.path.resolve()),
            "digest": program.digest,
            "params": [mechanism.arguments() for mechanism in mechanisms],
            "attributes": list(first.attributes),
            "memory": free_bytes(),
        }
        return header, plain_data.pack([plain_data.pack(one) for one in data])
    except plain_data.PackingError as error:
        raise SampleError(f"D or D′: {error}") from None
    except (OSError, ValueError) as error:
        raise SampleError(f"the program cannot be read: {error}") from None


_PICKLING = threading.RLock()

# A class that is sent as code includes its fields, but MISSING must stay a singleton.
copyreg.pickle(type(dataclasses.MISSING), lambda _: "MISSING")


def pickled(value: Any, classes: Iterable[type], *, as_code: bool) -> bytes:
    """Pickle a value; with `as_code`, everything in the modules of some classes as code too.

    A global generator is sent by its name, because a copy would be another generator.
    """
    import cloudpickle

    shared = {id(one): place for place, one in global_generators().items()}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if id(value) in shared:
                return global_generator, shared[id(value)]
            return super().reducer_override(value)

    modules = {cls.__module__ for cls in classes} & {*sys.modules} - {"__main__"}
    with _PICKLING, contextlib.ExitStack() as stack, io.BytesIO() as file:
        for name in modules if as_code else ():
            if name.partition(".")[0] != "dpframe":
                cloudpickle.register_pickle_by_value(sys.modules[name])
                stack.callback(cloudpickle.unregister_pickle_by_value, sys.modules[name])
        Pickler(file).dump(value)
        return file.getvalue()


def global_generator(module: str, name: str) -> Any:
    """Return a global generator of a library in this process."""
    return getattr(importlib.import_module(module), name)


def sending_error(error: Exception) -> str:
    """Return the message about a black box that cannot be sent to another process."""
    return (
        "a black box runs in its own process, and this one cannot be sent there: "
        f"{type(error).__name__}: {message(error)}"
    )


class Request(NamedTuple):
    """Chunks of one dataset."""

    variant: int
    data: int  # number of the dataset that is the input
    stream: Stream
    dataset: int
    """The dataset of the address; it differs from the input only in tests of addresses."""
    first: int
    stop: int
    rows: int
    asking: Asking | None = None
    """Settings of answers of any kind, before the shape of an answer is known."""
    shape: Shape | None = None
    """Shape of an output; None if it is not known yet."""

    @property
    def terms(self) -> Asking | None:
        """Settings of answers, of the shape if it is known; None for plain arrays."""
        return self.asking if self.shape is None else self.shape.asking

    def as_task(self) -> dict[str, Any]:
        """Return the request as a worker reads it."""
        task, terms = self._asdict(), self.terms
        shape, _ = task.pop("shape"), task.pop("asking")
        width = shape.width if shape is not None and terms is not None else None
        return {
            **task,
            "dims": None if shape is None else list(shape.dims),
            "dtype": shape and shape.dtype.name,
            "answers": terms and {**terms._asdict(), "width": width},
        }


class Drawn(NamedTuple):
    """Outputs of one or several chunks, shape [chunks × rows, *output dims]."""

    outputs: HostArray
    answering: bool = False  # True if they are answers of any kind, as rows of 64-bit words
    natives: frozenset[tuple[int, ...] | None] = frozenset()
    """Shapes of answers that are numbers; None stands for all other answers except exceptions."""
    words: Mapping[int, str] = {}  # texts of some codes
    durations: tuple[float, ...] = ()
    """Seconds per answer, each averaged over a few answers, by the worker's clock."""


# The workers that serve requests.


class WorkerLease(ABC):
    """A worker process that is lent for one load."""

    @abstractmethod
    def draw(self, request: Request, deadline: float | None) -> Iterator[Drawn]:
        """Draw chunks in their order, until a monotonic time if one is given.

        Raises:
            SampleError: the black box, or its process, failed to return outputs.
            DeadlinePassed: the deadline has passed; `lend` then ends the process.
            RunCancelled: the run ends.
        """

    def outputs(self, request: Request, deadline: float | None) -> HostArray:
        """Draw chunks like `draw`, and return the outputs of all of them."""
        return np.concatenate([drawn.outputs for drawn in self.draw(request, deadline)])

    @abstractmethod
    def reply(self, question: Mapping[str, Any], deadline: float | None) -> Frame:
        """Return the answer to a question about the first mechanism; see `Sampler.reply`.

        Raises:
            SampleError, DeadlinePassed, RunCancelled: as `draw` does.
        """


class WorkerSource(ABC):
    """Lends workers that draw from black boxes, and counts the releases of a run."""

    def __init__(self) -> None:
        self._calls, self._counting = 0, threading.Lock()
        self.words: dict[int, str] = {}
        """Texts of codes of kinds and of short values that workers have sent."""

    @property
    def calls(self) -> int:
        """Releases requested so far, for any purpose."""
        return self._calls

    @property
    def most(self) -> int:
        """Number of workers that can be lent at once."""
        return 1

    def count_releases(self, releases: int) -> None:
        """Count releases that are requested from a black box."""
        with self._counting:
            self._calls += releases

    def note(self, words: Mapping[int, str]) -> None:
        """Take in the texts of codes, unless there are too many."""
        with self._counting:
            if len(self.words) < MOST_WORDS:
                self.words.update(words)

    @abstractmethod
    def lend(
        self, load: BlackBoxPayload, number: int = 1
    ) -> AbstractContextManager[list[WorkerLease]]:
        """Lend `number` workers at once; a source with only one lends it several times.

        Raises:
            SampleError: no worker can load it.
            RunCancelled: the run ends.
        """

    def stop(self) -> None:  # noqa: B027  # most have nothing to end
        """End all draws now; calls that wait raise RunCancelled."""


def called(kind: type[HostMechanism]) -> str:
    """Return the name of the method by which a black box is called."""
    return "release" if kind.gives_releases() else "sample"


# Answers of workers, read and checked.


def drawn(frame: Frame, left: Request, method: str) -> Drawn | None:
    """Return the outputs in an answer; None at the end.

    `left` has the chunks still to come, `method` is the name of the black box's method.

    Raises:
        NoFrameError: it does not answer the request.
        SampleError: it reports an error in place of outputs.
    """
    header, most_chunks = frame.header, left.stop - left.first
    if header.get("reply") == "done" and not most_chunks:
        return None
    if header.get("reply") in ("refused", "raised"):
        raise problem(frame, method)
    try:
        chunks, rows = header["chunks"], header["chunks"] * left.rows
        shape, dtype = tuple(header["shape"]), np.dtype(str(header["dtype"]))
        if header["reply"] != "outputs" or not 1 <= chunks <= most_chunks or shape[:1] != (rows,):
            raise NoFrameError("its answers are not those that were requested")
        outputs: HostArray = np.frombuffer(frame.content, dtype).reshape(shape)
        natives = frozenset(one if one is None else tuple(one) for one in header.get("natives", ()))
        words, durations = (
            dict(header.get("words", ())),
            tuple(header.get("durations", ())),
        )
    except (KeyError, TypeError, ValueError):
        raise NoFrameError("its outputs do not have the shape and type that it states") from None
    answering, form = header.get("answering", False), left.shape
    if answering != (left.terms is not None) and not (answering and form is None):
        raise NoFrameError("its outputs have a different form than before")
    if form is not None and (shape[1:], dtype.name) != (form.dims, form.dtype.name):
        raise NoFrameError("its outputs have a different shape or type than before")
    if answering and (len(shape) != 2 or shape[1] < BEFORE or dtype != np.uint64):
        raise NoFrameError("its answers have a different form than requested")
    return Drawn(outputs, answering, natives, words, durations)


def problem(frame: Frame, method: str) -> SampleError:
    """Return the error that an answer without outputs reports."""
    if frame.header["reply"] == "refused":
        return SampleError(escape(frame.header["why"]))
    kind = OutOfMemoryError if frame.header.get("type") == "MemoryError" else RaisedError
    return kind(f"{method} raised {escape(frame.header.get('error', 'nothing'))}")
