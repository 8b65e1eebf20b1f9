"""Draw from black boxes in this process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from dpframe.common.text import error_message
from dpframe.draw import requests
from dpframe.draw.worker import generators
from dpframe.draw.worker.frames import Frame
from dpframe.draw.worker.mechanism_sampler import MechanismSampler
from dpframe.draw.worker.query import Refused
from dpframe.errors import SampleError


class InProcessWorkers(requests.WorkerSource):
    """Draws in this process: for tests, and if the process is a worker already.

    A black box that hangs or crashes takes the process with it.
    """

    def __init__(self, interpreters: Mapping[str, str] | None = None) -> None:
        del interpreters  # black boxes run under this interpreter only
        super().__init__()
        self.turn = threading.Lock()
        """Held while a black box runs, because it may use global state of the process."""

    def __enter__(self) -> InProcessWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextlib.contextmanager
    def lend(
        self, load: requests.BlackBoxPayload, number: int = 1
    ) -> Iterator[list[requests.WorkerLease]]:
        try:
            sampler = MechanismSampler(*load.content)
        except Exception as error:  # what cannot be copied
            raise SampleError(requests.sending_error(error)) from error
        yield [_Inline(self, sampler)] * number


class _Inline(requests.WorkerLease):
    """See `WorkerLease`; nothing ends a black box that hangs."""

    def __init__(self, here: InProcessWorkers, sampler: MechanismSampler) -> None:
        self.here, self.sampler = here, sampler

    def draw(self, request: requests.Request, deadline: float | None) -> Iterator[requests.Drawn]:
        what = requests.called(type(self.sampler.mechanisms[request.variant]))
        self.here.count_releases((request.stop - request.first) * request.rows)
        try:
            drawing, left = self.sampler.draw(request.as_task()), request
            while (frame := self._next(drawing)) is not None:
                drawn = requests.drawn(frame, left, what)
                assert drawn is not None
                self.here.note(drawn.words)
                left = left._replace(first=left.first + len(drawn.outputs) // request.rows)
                yield drawn
                if deadline is not None and time.monotonic() >= deadline:
                    raise requests.DeadlinePassed
        except (requests.DeadlinePassed, GeneratorExit):
            raise
        except Refused as refused:
            raise SampleError(str(refused)) from None
        except BaseException as error:
            memory = isinstance(error, MemoryError)
            kind = requests.OutOfMemoryError if memory else requests.RaisedError
            raise kind(f"{what} raised {error_message(error)}") from error

    def reply(self, question: Mapping[str, Any], deadline: float | None) -> Frame:
        del deadline
        what = question["request"]
        with self.here.turn:
            drawn = question.get("draws")  # draws seed the generators of this process
            restore = generators.keep(self.sampler.kept_generators()) if drawn else None
            try:
                return self.sampler.reply(dict(question))
            except Refused as refused:
                raise SampleError(str(refused)) from None
            except Exception as error:
                raise requests.RaisedError(f"{what} raised {error_message(error)}") from error
            finally:
                if restore is not None:
                    restore()

    def _next(self, drawing: Iterator[Frame]) -> Frame | None:
        """Return the next outputs, and restore the generators of the process."""
        with self.here.turn:
            restore = generators.keep(self.sampler.kept_generators())
            try:
                return next(drawing, None)
            finally:
                restore()
