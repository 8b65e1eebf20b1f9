"""Black boxes that are modules of functions, in an interpreter without dpframe.

A module gives `prepare(params, data)`, which returns a function that makes one release, and may
give `query(params, data)`, `sensitivity(params)`, `choices(params, data)` and `seed(number)`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from . import plain_data
from .answers import AnswerEncoder, Chunk
from .frames import Frame
from .query import Refused
from .sampler import Prepared, Sampler, serve


class ModuleSampler(Sampler):
    """A module with its parameters for each variant, as JSON values, and its packed datasets.

    `attributes` are read from objects in answers.
    """

    def __init__(
        self, module: Any, params: list[Any], data: list[bytes], attributes: Sequence[str]
    ) -> None:
        super().__init__(AnswerEncoder(attributes))
        self._module, self._params, self._data = module, params, data

    def black_boxes(self) -> Sequence[Any]:
        return [getattr(self._module, "prepare", None)]

    def questions(self, data: int) -> tuple[Callable[[], Any], Callable[[], Any] | None]:
        module, (params, own) = self._module, self._arguments(0, data)
        sensitivity = getattr(module, "sensitivity", None)
        stated = partial(sensitivity, params) if callable(sensitivity) else None
        return lambda: module.query(params, own), stated

    def stated(self, data: int) -> Any:
        return self._module.choices(*self._arguments(0, data))

    def outputs(self, task: dict[str, Any], chunk: int) -> Sequence[Any]:
        prepared, rows = self.prepared(0, task["data"]), task["rows"]
        if prepared.error is not None:
            raise prepared.error
        state = prepared.state
        releases = getattr(state, "releases", None)
        if not callable(releases):
            return [state() for _ in range(rows)]
        return list(_batch(releases, rows))

    def chunk(self, task: dict[str, Any], chunk: int) -> Chunk:
        prepared = self.prepared(task["variant"], task["data"])
        rows, state, terms = task["rows"], prepared.state, self.encoder.terms
        self.seed(task["stream"], chunk, task["dataset"])
        releases = getattr(state, "releases", None)
        if not callable(releases):
            return self.encoder.ask(state, rows, prepared.error)
        if terms.one or terms.time or terms.limit is not None:
            single = state if callable(state) else lambda: _batch(releases, 1)[0]
            return self.encoder.ask(single, rows)
        return self.encoder.chunk([self.encoder.held(one) for one in _batch(releases, rows)])

    def prepare(self, variant: int, data: int) -> Prepared:
        params, own = self._arguments(variant, data)
        state = self._module.prepare(params, own)
        if not callable(state) and not callable(getattr(state, "releases", None)):
            raise Refused(
                f"prepare(params, data) returned {type(state).__name__}; it returns a function of "
                "no arguments that makes one release, or something with releases(n)"
            )
        # `prepare` may change its copy of the data, but not the calls that follow.
        shared = [plain_data.SharedValue(one, whole=False) for one in (own, state)]
        return Prepared(state, None, shared)

    def seed(self, stream: Sequence[Any], chunk: int, dataset: int) -> bytes:
        seed = super().seed(stream, chunk, dataset)
        if callable(own := getattr(self._module, "seed", None)):
            own(int.from_bytes(seed[:8], "little"))
        return seed

    def _arguments(self, variant: int, data: int) -> tuple[Any, Any]:
        """Return copies of parameters and data, which the module may change."""
        params = json.loads(json.dumps(self._params[variant]))
        return params, plain_data.unpack(self._data[data])


def _batch(releases: Any, rows: int) -> Any:
    """Return the answers of one call of `releases`; an array becomes a list of plain numbers."""
    answers = releases(rows)
    if len(getattr(answers, "shape", ())) == 1 and hasattr(answers, "tolist"):
        answers = answers.tolist()
    try:
        number = len(answers)
    except TypeError:
        kind = type(answers).__name__
        raise Refused(f"releases({rows}) gave {kind}; {rows} answers are required") from None
    if number != rows:
        raise Refused(f"releases({rows}) gave {number} answers")
    return answers


class Modules:
    """Loads the one module of this process, with parameters and datasets that change."""

    def __init__(self) -> None:
        self._module: Any = None
        self._file = ""

    def load(self, task: Frame) -> ModuleSampler:
        """Load a module, its parameters and its datasets; a process loads one module only.

        Raises Refused if module or data cannot be used.
        """
        header = task.header
        limit_memory(header.get("memory"))
        try:
            data = list(plain_data.unpack(bytes(task.content)))
            for one in data:  # a missing library shows before anything is drawn
                plain_data.unpack(one)
        except plain_data.PackingError as error:
            raise Refused(f"the data cannot be made here: {error}") from None
        if self._module is None:
            self._file = header["program"]
            self._module = _run(self._file, header["digest"])
        if not callable(getattr(self._module, "prepare", None)):
            name = os.path.basename(header["program"])
            raise Refused(f"{name} has no function prepare(params, data)")
        return ModuleSampler(self._module, header["params"], data, header["attributes"])

    def describe(self, error: BaseException) -> str:
        """Describe an exception, like `ZeroDivisionError: division by zero (mean.py:14)`."""
        try:
            text = " ".join(str(error).split())[:500] or "no message"
        except Exception:  # a message that cannot be made
            text = "no message"
        lines = [
            f"{os.path.basename(frame.filename)}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == self._file
        ]
        return f"{type(error).__name__}: {text}" + (f" ({lines[-1]})" if lines else "")


def main() -> None:
    """Serve a run that needs this interpreter."""
    modules = Modules()
    serve(modules.load, modules.describe)


def limit_memory(more: int | None) -> None:
    """Make code that asks for more bytes than this raise MemoryError, on Linux."""
    if more is None:
        return
    try:
        import resource

        with open("/proc/self/status") as status:
            used = next(line.split() for line in status if line.startswith("VmData"))
        limit = (int(used[1]) << 10) + more
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (ImportError, OSError, ValueError, StopIteration):
        pass


def _run(path: str, digest: str) -> Any:
    """Run a file as a module; it can import files beside it."""
    with open(path, "rb") as file:
        source = file.read()
    if hashlib.sha256(source).hexdigest()[: len(digest)] != digest:
        raise ImportError(os.path.basename(path) + " has changed since the run began")
    name = "dpframe_program_" + os.path.splitext(os.path.basename(path))[0]
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    sys.path.append(os.path.dirname(path))
    exec(compile(source, path, "exec"), module.__dict__)
    return module
