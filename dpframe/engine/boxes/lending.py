"""What a black box is asked for, and who asks: the terms on which workers are lent."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import cloudpickle

from dpframe.blame import message
from dpframe.engine.boxes import foreign_start
from dpframe.engine.boxes.worker_process import Overdue
from dpframe.errors import SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from dpframe.engine.addresses.address import Stream
    from dpframe.engine.addresses.shape import Asking, Shape
    from dpframe.engine.boxes.worker.querying import Queried
    from dpframe.mechanism import HostMechanism
    from dpframe.types import HostArray

__all__ = [
    "Lent",
    "Load",
    "LostError",
    "Overdue",
    "RaisedError",
    "Request",
    "Source",
    "Stopped",
    "Told",
    "at_once",
    "called",
    "take_note",
]

MOST_WORDS = 1 << 14
"""Texts that a run keeps."""

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818  # nothing is wrong: the run ends
    """Somebody ends the run."""


class Load:
    """The mechanisms and the data of a pass, as worker processes take them in.

    Args:
        mechanisms: one per lane.
        data: the two datasets, as the pair made them.
    """

    _numbers = itertools.count()

    def __init__(self, mechanisms: tuple[HostMechanism, ...], data: tuple[Any, ...]) -> None:
        self.number = next(self._numbers)
        self.content = mechanisms, data
        self.topic = repr([(type(m).__qualname__, m.params()) for m in mechanisms])
        """What is alike for all pairs of a search: who prints something, prints it for that."""
        self.as_code = False
        """Whether the modules of the mechanisms travel with them."""
        self._pickled: bytes | None = None
        self._foreign: tuple[dict[str, Any], bytes] | None = None

    def pickled(self) -> bytes:
        """In bytes: classes and functions that no module has, such as a script's, go as code.

        Raises:
            SampleError: it cannot be handed to another process.
        """
        with _PICKLING:  # several workers may ask at once
            return self._pickled or self._made()

    def _made(self) -> bytes:
        if self._pickled is None:
            try:
                with contextlib.ExitStack() as stack:
                    for name in {type(m).__module__ for m in self.content[0]} & {*sys.modules}:
                        if self.as_code and name != "__main__":
                            stack.enter_context(by_value(sys.modules[name]))
                    self._pickled = cloudpickle.dumps(self.content)
            except Exception as error:  # whatever the code of an object raises
                raise SampleError(not_handed_over(error)) from error
        return self._pickled

    def message(self) -> tuple[dict[str, Any], bytes]:
        """What a worker is told to take it in; raises SampleError as `pickled` does."""
        if self._foreign is None and foreign_start.is_foreign(self.content[0]):
            self._foreign = foreign_start.task(*self.content)
        return self._foreign or ({"do": "load"}, self.pickled())

    @property
    def may_bring_code(self) -> bool:
        """Whether what a worker cannot import may still be handed over."""
        return not self.as_code and not foreign_start.is_foreign(self.content[0])

    def bring_code(self) -> None:
        """Hands the modules of the mechanisms over too: nobody else can import them."""
        with _PICKLING:
            self.as_code, self._pickled = True, None


_PICKLING = threading.RLock()

# A class that travels as code brings its fields along, and there is but one MISSING.
copyreg.pickle(type(dataclasses.MISSING), lambda _: "MISSING")


@contextlib.contextmanager
def by_value(module: ModuleType) -> Iterator[None]:
    """While it lasts, everything of a module is pickled as code."""
    with _PICKLING:
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


class Request(NamedTuple):
    """Which chunks of which dataset."""

    lane: int
    data: int
    """Which dataset is the input."""
    stream: Stream
    dataset: int
    """The dataset of the address; another one than the input only where addresses are tried out."""
    first: int
    stop: int
    rows: int
    asking: Asking | None = None
    """How answers of any kind are asked for, where nothing is known of one yet."""

    def as_task(self, shape: Shape | None) -> dict[str, Any]:
        """The request in words that a worker understands; with what is known of an output."""
        dims = None if shape is None else list(shape.dims)
        task = {**self._asdict(), "dims": dims, "dtype": shape and shape.dtype.name}
        del task["asking"]
        asking = self.asking if shape is None else shape.asking
        width = shape.width if shape is not None and asking is not None else None
        return {**task, "answers": asking and {**asking._asdict(), "width": width}}


class Told(NamedTuple):
    """What a worker says beside outputs."""

    answering: bool = False
    """Whether they are answers of any kind, as rows of 64-bit words."""
    natives: frozenset[tuple[int, ...] | None] = frozenset()
    """Shapes of those that are numbers; None stands for others; exceptions are left out."""
    words: Mapping[int, str] = {}
    """What some codes stand for."""
    paces: tuple[float, ...] = ()
    """Seconds per answer, each of a few of them, by the worker's clock."""


class RaisedError(SampleError):
    """The box raised an exception."""


class LostError(SampleError):
    """The process that held the box has ended, or could not begin."""


class Lent(Protocol):
    """A worker process for as long as somebody needs it."""

    @property
    def told(self) -> Told:
        """Of what it drew last."""

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """Draws chunks in their order.

        Args:
            request: which.
            shape: of one output, where it is known.
            deadline: until when, on the monotonic clock.

        Yields:
            Outputs of one or several chunks, shape [chunks × rows, *output dims].

        Raises:
            SampleError: the box, or its process, did something else than return outputs.
            Overdue: the deadline has come; the process is ended.
            Stopped: the run ends.
        """

    def query(self, data: int, deadline: float | None) -> Queried:
        """What the first mechanism of the load answers without noise.

        Args:
            data: number of the dataset.
            deadline: until when, on the monotonic clock.

        Raises:
            SampleError, Overdue, Stopped: as `draw` does.
        """


class Source(Protocol):
    """Where outputs of black boxes come from."""

    @property
    def calls(self) -> int:
        """Releases asked for so far, whatever for."""

    @property
    def most(self) -> int:
        """How many workers there can be."""

    @property
    def words(self) -> dict[int, str]:
        """What codes of kinds and of short values stand for, as far as workers have said so."""

    @property
    def released(self) -> int:
        """How many of these have come back, and about how far those are that have not."""

    def asked(self, releases: int) -> None:
        """Counts releases."""

    def note(self, told: Told) -> None:
        """Takes in what codes stand for."""

    def lend(self, load: Load, number: int = 1) -> AbstractContextManager[list[Lent]]:
        """Lends so many workers at once, or as many as there can be.

        Raises:
            SampleError: none can be made to hold the load.
            Stopped: the run ends.
        """

    def stop(self) -> None:
        """Ends whatever goes on, now; everybody who waits gets Stopped."""


def at_once(calls: Sequence[Callable[[], T]], most: int) -> list[T]:
    """What some calls give that wait for workers; at the same time, since releases may be dear.

    Args:
        calls: each waits for one worker.
        most: workers there can be; if they are fewer, one call comes after the other.
    """
    if most < len(calls):
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls)) as threads:
        return [found.result() for found in [threads.submit(call) for call in calls]]


def called(kind: type[HostMechanism]) -> str:
    """The method of a box that is called."""
    return "release" if kind.gives_releases() else "sample"


def take_note(words: dict[int, str], told: Told) -> None:
    """Adds to a glossary what a worker said."""
    if len(words) < MOST_WORDS:
        words.update(told.words)


def not_handed_over(error: Exception) -> str:
    """Why a black box cannot be handed to another process."""
    return (
        "a black box runs in a process of its own, and this one cannot be handed over: "
        f"{type(error).__name__}: {message(error)}"
    )
