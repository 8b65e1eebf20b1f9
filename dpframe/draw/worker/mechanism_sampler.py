"""Draw from black boxes in dpframe's own interpreter, and encode answers in batches by NumPy."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pickle import dumps, loads
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.common.machine import adopt, descendants, end, free_bytes, within
from dpframe.common.text import error_message
from dpframe.draw.streams import Stream, host_generator

from . import codes, libraries
from .answers import BEFORE, AnswerEncoder, Chunk, is_real, native_shapes
from .encoding import encode, of_array
from .plain_data import SharedValue
from .query import Refused
from .sampler import Prepared, Sampler, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from dpframe.common.types import Floats, HostArray

_MOST_BYTES = 1 << 30  # bytes that one call may return

CHANGED = "sample changed the dataset, which is the input of every later draw: copy it first"


def main() -> None:
    """Serve a run whose mechanisms are pickled."""
    adopt()
    sys.meta_path.insert(0, _EntryPoints())
    own = os.getpid()  # read before a black box can replace the function
    with within(free_bytes()):  # code that asks for more memory gets an exception
        serve(
            lambda task: MechanismSampler(*loads(task.content)),
            error_message,
            lambda: end(descendants(own)),
        )


class _EntryPoints(MetaPathFinder):
    """Tolerates broken entry points if a black box reads any: see `entry_points.tolerate`.

    Importing `importlib.metadata` takes a quarter of a worker's start, and few black boxes need it.
    """

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """See `MetaPathFinder`: find the module, which is changed once it is loaded."""
        if fullname != "importlib.metadata":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        assert spec is not None
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            from dpframe.common.entry_points import tolerate

            tolerate()

        loader.exec_module = exec_module
        return spec


class MechanismSampler(Sampler):
    """Mechanisms, one per variant, with a pair of datasets."""

    def __init__(self, mechanisms: tuple[Any, ...], data: tuple[Any, ...]) -> None:
        super().__init__(ArrayEncoder(mechanisms[0].attributes if mechanisms else ()))
        self.mechanisms = mechanisms
        self._copies = [copier(value) for value in data]

    def black_boxes(self) -> Sequence[Any]:
        return self.mechanisms

    def questions(self, data: int) -> tuple[Callable[[], Any], None]:
        return partial(self.mechanisms[0].query, self._copies[data]()), None

    def stated(self, data: int) -> Any:
        return self.mechanisms[0].choices(self._copies[data]())

    def outputs(self, task: dict[str, Any], chunk: int) -> Sequence[Any]:
        mechanism, rows = self.mechanisms[0], task["rows"]
        rng = host_generator(Stream(*task["stream"]), chunk, task["dataset"])
        data = self.prepared(0, task["data"])
        if data.error is not None:
            raise data.error
        return list(mechanism.sample(rng, data.state, rows))

    def chunk(self, task: dict[str, Any], chunk: int) -> Chunk:
        """Draw one chunk; `dims` and `dtype` of one output are null if not known yet."""
        mechanism, rows = self.mechanisms[task["variant"]], task["rows"]
        rng = host_generator(Stream(*task["stream"]), chunk, task["dataset"])
        releases, arrays = mechanism.gives_releases(), task.get("answers") is None
        data = self.prepared(task["variant"], task["data"])
        self.seed(task["stream"], chunk, task["dataset"])
        if releases and not (arrays and task["dims"] is not None):
            return self.encoder.ask(partial(mechanism.release, rng, data.state), rows, data.error)
        if not arrays and (data.error is not None or self.encoder.terms.one):
            return self.encoder.ask(partial(_only, mechanism, rng, data.state), rows, data.error)
        if data.error is not None:
            raise data.error
        outputs = mechanism.sample(rng, data.state, rows)
        # An array would lose masks, and the structure of rows with several parts.
        more = isinstance(outputs, tuple) and not _is_plain(outputs)
        more = more or isinstance(outputs, list) or libraries.is_masked(outputs)
        if not arrays or (task["dims"] is None and more):
            return self.encoder.chunk(self._held(outputs, rows))
        array = _array(outputs)
        _check(array, task)
        dtype = array.dtype.name if array.dtype.kind == "V" else array.dtype.str
        return Chunk(array.tobytes(), array.shape, dtype)

    def prepare(self, variant: int, data: int) -> Prepared:
        """Return the state of a mechanism that prepares one, or a copy of the dataset."""
        own, mechanism = self._copies[data](), self.mechanisms[variant]
        if not mechanism.prepares():
            return Prepared(own, None, [SharedValue(own, whole=True, fault=CHANGED)], made=False)
        dataset = SharedValue(own, whole=True)
        try:
            state = mechanism.prepare(own)
        finally:
            if dataset.changed():
                raise Refused(CHANGED)
        return Prepared(state, None, [dataset, SharedValue(state, whole=False)])

    def _held(self, outputs: Any, rows: int) -> Any:
        """Return the answers of one call of `sample`, one per row."""
        if not isinstance(outputs, list | tuple) and not libraries.is_masked(outputs):
            array = _array(outputs)
            if array.shape[:1] == (rows,) and array.dtype.kind in "OSTUVmM":
                return [self.encoder.held(answer) for answer in array]
            _check(array, {"rows": rows, "dims": None, "dtype": None})
            return [self.encoder.held(row) for row in array] if self.encoder.terms.only else array
        if len(outputs) != rows:
            raise Refused(f"sample(…, n={rows}) gave {len(outputs)} answers")
        return [self.encoder.held(answer) for answer in outputs]


def _only(mechanism: Any, rng: Any, data: Any) -> Any:
    """Return the only row of a sample of size one."""
    answer = mechanism.sample(rng, data, 1)
    try:
        number = len(answer)
    except TypeError:
        number = None
    if number != 1:
        raise codes.UnreadableError("sample(…, n=1) gave something other than one row")
    return answer[0]


_SCALARS = {int, float, bool, complex}
_ARRAYS = ("numpy", "jax", "jaxlib", "torch", "tensorflow", "ml_dtypes")
"""Packages whose arrays hold nothing but numbers, except for `numpy.ma`."""


def _is_plain(outputs: Any) -> bool:
    """True if NumPy converts the value to an array without loss."""
    kind = type(outputs)
    if kind in _SCALARS:
        return True
    if kind is list or kind is tuple:
        return all(map(_is_plain, outputs))
    supported = kind.__module__.partition(".")[0] in _ARRAYS and hasattr(outputs, "__array__")
    return supported and not libraries.is_masked(outputs)


def _array(outputs: Any) -> HostArray:
    """Return an array of outputs; raises Refused if NumPy would drop a part of them."""
    name = type(outputs).__name__
    if not isinstance(outputs, list | tuple | int | float) and not hasattr(outputs, "__array__"):
        raise Refused(f"sample returned {name}, not an array with one row per run")
    if not _is_plain(outputs):
        raise Refused(
            f"sample returned {name}, which may contain more than numbers, such as names or a "
            "mask: return numpy.asarray of it if the numbers are all, else a list of n answers"
        )
    if hasattr(outputs, "detach"):  # a tensor of torch, perhaps with a gradient
        outputs, wide = libraries.of_tensor(outputs)
        if wide:
            raise Refused(f"sample gave {wide} values, which NumPy lacks: return outputs.float()")
    array: HostArray = libraries.exact(np.asarray(outputs))
    return array


def _check(outputs: HostArray, task: dict[str, Any]) -> None:
    """Raise Refused unless outputs are numbers, one per row, of the shape and type so far."""
    rows, dims, dtype = task["rows"], task["dims"], task["dtype"]
    own = outputs.dtype
    # JAX adds small types to NumPy's, such as bfloat16.
    small = own.kind == "V" and own.names is None and own.name != f"void{8 * own.itemsize}"
    if own.kind not in "biufc" and not small:
        raise Refused(f"sample gave {own} values; outputs are numbers")
    if outputs.nbytes > _MOST_BYTES:
        raise Refused(
            f"sample(…, n={rows}) gave {outputs.nbytes / _MOST_BYTES:.3g} GiB at once, more than "
            "1 GiB: smaller outputs are needed, or fewer rows"
        )
    if outputs.shape[:1] != (rows,):
        raise Refused(f"sample(…, n={rows}) gave shape {outputs.shape}; the first axis must be n")
    if dims is not None and outputs.shape != (rows, *dims):
        raise Refused(f"sample gave shape {outputs.shape}, not {(rows, *dims)} as before")
    if dtype is not None and outputs.dtype.name != dtype:
        raise Refused(f"sample gave {outputs.dtype}, and {dtype} before")


def copier(value: Any) -> Callable[[], Any]:
    """Return a function that copies a dataset; an array is not copied, but cannot be changed."""
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return partial(loads, dumps(value))
    content = value.tobytes() or bytes(value.dtype.itemsize)  # no array lies over no bytes
    array = np.frombuffer(content, value.dtype)[: value.size].reshape(value.shape)
    return lambda: array


class ArrayEncoder(AnswerEncoder):
    """Encodes batches of one type at once, to the same codes as `AnswerEncoder`."""

    def fixed(self, answer: Any) -> Any:
        if isinstance(answer, np.generic) and is_real(answer.dtype):
            return answer
        if type(answer) is np.ndarray and is_real(answer.dtype):
            return answer.copy()
        return super().fixed(answer)

    def chunk(self, answers: Any, seconds: Sequence[float] = ()) -> Chunk:
        block = _block(answers)
        if block is None:
            return super().chunk(answers, seconds)
        n, dims = len(block), block.shape[1:]
        if not dims and block.dtype.kind in "biu":
            once, places = np.unique(block, return_inverse=True)
            kind = encode(block[0])[0]
            values = np.array([codes.code(encode(one)[1]) for one in once], np.uint64)[places]
        else:
            before, kind = of_array(block.dtype, dims, scalar=not dims)
            before += codes.sized_prefix(block[0].nbytes)
            if isinstance(answers[0], float):  # NumPy's is one, too
                before, kind = b"f", "float"
            values = _codes(before, np.ascontiguousarray(block).reshape(n, -1))
        self.notice(answers, values[:64].tolist())
        numbers = block.reshape(n, -1)[:, : codes.MOST_NUMBERS].astype(np.float64)
        width = numbers.shape[1] if self.terms.width is None else self.terms.width
        rows = np.full((n, BEFORE + width), codes.ABSENT, np.uint64)
        rows[:, 0], rows[:, 1] = self._kinds(kind, numbers), values
        rows[:, 2] = np.array(seconds, np.float64).view(np.uint64) if seconds else 0
        numbers[np.isnan(numbers)] = codes.NAN
        count = min(width, numbers.shape[1])
        rows[:, BEFORE : BEFORE + count] = numbers[:, :count].view(np.uint64)
        return Chunk(rows.tobytes(), rows.shape, "<u8", frozenset(native_shapes(answers)))

    def _kinds(self, title: str, numbers: Floats) -> HostArray:
        """Return kinds of rows: one for each pattern of NaN and infinities."""
        kinds = np.full(len(numbers), self.kind(title), np.uint64)
        odd = ~np.isfinite(numbers).all(axis=1)
        if odd.any():
            marks = np.select([numbers != numbers, np.isinf(numbers)], [1, np.sign(numbers) + 3], 0)
            _, examples, which = np.unique(
                marks[odd], axis=0, return_index=True, return_inverse=True
            )
            texts = [title + codes.flags(numbers[odd][at].tolist()) for at in examples]
            each = np.array([self.kind(codes.short(text)) for text in texts], np.uint64)
            kinds[odd] = each[which.reshape(-1)]
        return kinds


def _block(answers: Any) -> HostArray | None:
    """Return answers of one type and shape as an array; None for others."""
    first: Any = answers[0] if len(answers) else None
    if getattr(first, "nbytes", 0) > codes.WHOLE:  # its codes need a digest
        return None
    if isinstance(answers, np.ndarray):
        return answers if is_real(answers.dtype) and len(answers) else None
    kinds = set(map(type, answers))
    if kinds == {float}:
        return np.array(answers, np.float64)
    if kinds == {np.ndarray} and first.ndim:
        equal = all(one.shape == first.shape and one.dtype == first.dtype for one in answers)
        return np.stack(answers) if equal else None
    return (
        np.array(answers, first.dtype)
        if len(kinds) == 1 and isinstance(first, np.generic)
        else None
    )


def _codes(before: bytes, rows: HostArray) -> HostArray:
    """Return the code of each row, in which `before` precedes its bytes."""
    pieces = [row.tobytes() for row in rows]
    each = {piece: codes.code(before + piece) for piece in set(pieces)}
    return np.array([each[piece] for piece in pieces], np.uint64)
