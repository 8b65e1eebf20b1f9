"""Addresses of random draws, and the chunks that draws are cut into.

The address of a draw is (seed, draw group, repeat, stream, chunk, dataset). The first four, a
`Stream`, are hashed into a base key. Chunk and dataset are folded in by NumPy, for all chunks of a
segment at once, so programs receive keys and derive none. Keys are never stored. `threefry` turns
them into JAX's.

Processes of black boxes do not need JAX, so it is imported inside the functions that use it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import is_floating, is_jax_array, jax
from dpframe.interfaces.attack import BEFORE
from dpframe.interfaces.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.common.types import HostArray, Tree
    from dpframe.interfaces.pair import Pair
    from dpframe.spec.audit import Cell, RunSettings


SCHEME = 1
"""Must change if an address gets other draws, so that old counts are never mixed with new."""

HOST = "as the pair made them"
"""Replaces the precision in the address of a black box; part of the scheme."""

FIT, LEARNER, PILOT, EVAL = "fit", "fit-learner", "pilot", "eval"
"""Streams for learning, for the randomness of attacks, for choices, and for bounds."""

PROBE, SPLIT = "probe", "score"
"""Streams outside an audit: for shapes of outputs, and for splits of scores from files."""


class Stream(NamedTuple):
    """A draw's address without chunk and dataset."""

    seed: int
    group: str
    repeat: int
    stream: str

    def of(self, name: str) -> Stream:
        """Return another stream of the same seed, draw group and repeat."""
        return self._replace(stream=name)


def draw_group(cell: Cell, *, data: str, precision: str, prng: str, rows: int) -> str:
    """Hash everything that determines random draws, and nothing else, to 64 bits in hex.

    Traced floats such as ε are left out, so all their values share one set of draws.

    Args:
        cell: gives the mechanism's distribution, name and static parameters, and the pair.
        data: digest of D and D′, which a pair may read from a file. Not used if the pair's
            parameters determine its data.
        precision: "float32" or "float64"; black boxes know neither.
        prng: name of the generator.
        rows: rows per chunk.
    """
    mechanism = cell.mechanism.value
    static = {
        name: value
        for name, value in mechanism.params().items()
        if name not in mechanism.leaves or value is None
    }
    pair = [cell.pair.distribution, cell.pair.use, cell.pair.value.params()]
    return digest(
        {
            "scheme": SCHEME,
            "mechanism": [cell.mechanism.distribution, cell.mechanism.use, static],
            "pair": pair if cell.pair.value.parameters_say_all else [*pair, data],
            "precision": HOST if isinstance(mechanism, HostMechanism) else precision,
            "prng": prng,
            "rows": rows,
        }
    )


def evidence_of(cell: Cell, *, data: str) -> Stream:
    """Return the name under which the looks at a cell's draws are stored.

    It names the distribution that is drawn from but not the method: with another precision, chunk
    size or generator, draws are the same evidence. For black boxes without a seed, the seed is left
    out.
    """
    group = draw_group(cell, data=data, precision=HOST, prng="", rows=0)
    seeded = getattr(cell.mechanism.value, "seedable", True)
    return Stream(cell.seed if seeded else 0, group, cell.repeat, EVAL)


def generator_name(name: str) -> str:
    """Return the name of a generator for the record; "default" becomes its own name."""
    return THREEFRY if name == "default" else name


# The block cipher under the keys of draws, for NumPy's arrays and for JAX's.


THREEFRY: Final = "threefry2x32-13"
"""The generator that is used unless a spec names another; see `dpframe.draw.threefry`."""

GENERATORS: Final = {THREEFRY: 13, "threefry2x32": 20}
"""Rounds of the generators that a spec may name; "threefry2x32" is JAX's own."""

_ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY: Final = np.uint32(0x1BD11BDA)


def blocks(key: Any, counter: Any, rounds: int = GENERATORS[THREEFRY]) -> Any:
    """Encrypt counters under a key; in NumPy's arrays or in JAX's.

    Args:
        key: two uint32 arrays.
        counter: two uint32 arrays; broadcast against the key.
        rounds: number of rounds.

    Returns:
        Two uint32 arrays: words 0 and 1 of every block.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0 = counter[0] + schedule[0]
    x1 = counter[1] + schedule[1]
    for number in range(rounds):
        turn = _ROTATIONS[number % 8]
        x0 = x0 + x1
        x1 = ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))) ^ x0
        if number % 4 == 3:
            step = number // 4 + 1
            x0 = x0 + schedule[step % 3]
            x1 = x1 + (schedule[(step + 1) % 3] + np.uint32(step))
    return x0, x1


def chunk_keys(stream: Stream, prng: str, dataset: int, first: int, stop: int) -> HostArray:
    """Return the words of the keys of chunks first … stop − 1, uint32 [chunks, 2].

    They are those of `threefry.base_key` with chunk and dataset folded in, so D and D′ never share
    draws. NumPy makes them, because a program that derives keys itself takes a third longer to
    compile.
    """
    chunks = np.arange(first, stop, dtype=np.uint32)
    rounds, none = GENERATORS[prng], np.zeros_like(chunks)
    keys = tuple(words_of(stream, 8)[:, None])
    for counter in (chunks, np.full_like(chunks, dataset)):
        keys = blocks(keys, (none, counter), rounds)
    return np.stack(keys, axis=-1)


def host_generator(stream: Stream, chunk: int = 0, dataset: int = 0) -> np.random.Generator:
    """Return a NumPy generator for an address, for code that JAX does not trace."""
    seeds = np.random.SeedSequence([*words_of(stream, 32).tolist(), chunk, dataset])
    return np.random.Generator(np.random.PCG64DXSM(seeds))


@functools.lru_cache(maxsize=64)
def words_of(stream: Stream, size: int) -> Any:
    """Hash a stream to 32-bit words."""
    return np.frombuffer(bytes.fromhex(digest(list(stream), size)), "<u4")


# Taken before a black box runs in this process, because it may replace what modules hold.
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode


def digest(content: Any, size: int = 8) -> str:
    """Hash JSON content to `size` bytes in hex; the same on every machine."""
    text = _encode(content)
    return blake2b(text.encode(), digest_size=size).hexdigest()


CHUNK_ELEMENTS = 1 << 16
"""Output coordinates per chunk: a chunk of float32 fits into the cache of one core."""

SEGMENT_ELEMENTS = 1 << 28
"""Output coordinates per device call: about a second of work, so that progress is smooth."""

HOST_ROWS = 16
"""Releases per chunk of a black box; each may take a second, and an interrupted chunk is lost. For
cheap releases `[run] chunk` should be larger."""


class Segment(NamedTuple):
    """Consecutive chunks that one device call draws."""

    first: int
    stop: int
    limit: int  # rows counted of each chunk; below the chunk's rows only for a tail
    slices: tuple[tuple[int, int], ...] = ()
    """Ranges of rows of its only chunk that are counted separately, on the first axis of counts."""


def chunks_in_words(first: int, stop: int, dataset: int) -> str:
    """Name consecutive chunks of a dataset in a message."""
    which = f"chunk {first}" if stop - first <= 1 else f"chunks {first} to {stop - 1}"
    return f"{which} of {('D', 'D′')[dataset]}"


def rows_per_chunk(output_shape: tuple[int, ...], *, on_host: bool = False) -> int:
    """Return the rows of a chunk: a power of two, from the output's shape alone.

    Neither memory nor device may change it, because it is part of the address of every draw.
    """
    most_rows = CHUNK_ELEMENTS // max(1, math.prod(output_shape))
    if on_host:
        most_rows = min(most_rows, HOST_ROWS)
    return 1 << max(0, most_rows.bit_length() - 1)


def pieces(rows: int, elements: int) -> int:
    """Return the number of chunks that a device draws in one call, in about a second."""
    return max(1, SEGMENT_ELEMENTS // (rows * max(1, elements)))


def segments(
    trials: int,
    rows: int,
    elements: int,
    done: int = 0,
    *,
    slow: bool = False,
    times: int = 1,
    parts: int = 1,
) -> Iterator[Segment]:
    """Divide the chunks from `done` on into segments; the tail is drawn as a whole chunk and cut.

    `slow` makes every chunk a segment, `times` enlarges segments, and `parts` is the least number
    of segments of all whole chunks.
    """
    whole, tail = divmod(trials, rows)
    step = min(times * (1 if slow else pieces(rows, elements)), max(1, whole // parts))
    for first in range(done, whole, step):
        yield Segment(first, min(first + step, whole), rows)
    if tail:
        yield Segment(whole, whole + 1, tail)


class Asking(NamedTuple):
    """The settings under which a black box gives answers of any kind."""

    raises: bool = True  # an exception is an answer
    time: bool = False  # the time of an answer is a part of it
    one: bool = False  # `sample` is asked for one answer at a time
    limit: float | None = None  # seconds after which an answer counts as a TimeoutError
    messages: bool = False  # the message of an exception is a part of it
    only: tuple[str, ...] = ()  # paths of its parts that count; all of it if empty


class Shape(NamedTuple):
    """The shape and type of one output of a mechanism."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    asking: Asking | None = None
    """For answers of any kind, which are rows of 64-bit words: the terms of asking."""
    native: tuple[int, ...] | None = None
    """For such answers: the shape of their numbers, if all came in one shape."""

    def __str__(self) -> str:
        if self.asking is not None:
            return f"answers of up to {self.width} numbers"
        return f"{self.dtype} outputs of shape {self.dims}"

    @property
    def width(self) -> int:
        """Number of columns for the numbers of an answer."""
        return self.dims[0] - BEFORE


def of_answers(asking: Asking, numbers: int, native: Sequence[int] | None) -> Shape:
    """Return the shape of answers of any kind.

    `numbers` is the number of numbers in the widest answer; it is rounded up, so that programs are
    shared. `native` is the shape of the numbers, if all answers have the same.
    """
    width = 1 << max(0, numbers - 1).bit_length()
    shape = None if native is None else tuple(native)
    return Shape((BEFORE + width,), np.dtype(np.uint64), asking, shape)


class Shard(NamedTuple):
    """One of several equal parts of a run, numbered from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def chunks(self, trials: int, rows: int) -> range:
        """Return the whole chunks of each dataset that this shard counts.

        Trials after the last whole chunk are counted by the command that merges the shards.
        """
        whole = trials // rows
        return range(whole * (self.number - 1) // self.of, whole * self.number // self.of)

    def owns(self, place: int) -> bool:
        """True if this shard does a piece of indivisible work, numbered from 0.

        A bet depends on all earlier rounds, so one shard counts a whole cell that bets, or a whole
        search.
        """
        return place % self.of == self.number - 1


def windowed(key: str, window: range) -> str:
    """Return the key of the counts of some chunks, given that of all chunks."""
    return f"{key}@{window.start}-{window.stop}"


def window_of(key: str) -> tuple[str, range] | None:
    """Split the key of the counts of some chunks, see `windowed`; None for a key of all chunks."""
    match = re.fullmatch(r"(.*)@(\d+)-(\d+)", key)
    return match and (match[1], range(int(match[2]), int(match[3])))


def precision_of(run: RunSettings, *, on_host: bool = False) -> Any:
    """Return a context in which JAX has the run's precision, in this thread only.

    For a black box it does not import JAX: what needs JAX there sets its precision itself.
    """
    if on_host and "jax" not in sys.modules:
        return contextlib.nullcontext()
    return jax.enable_x64(run.precision == "float64")


def both_as_made(pair: Pair) -> tuple[Any, Any]:
    """Return D and D′ as the pair makes them."""
    return pair.d0, pair.d1


def for_jax(made: tuple[Any, Any], dtype: np.dtype[Any]) -> tuple[Tree, Tree]:
    """Return D and D′ for a traced mechanism: padded, floating data in the run's dtype."""
    from dpframe.interfaces.pair import as_traced

    def held(data: Any) -> HostArray:
        array = np.asarray(data)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    d0, d1 = (trees.map(held, data) for data in as_traced(*made))
    return d0, d1


def for_black_box(made: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return D and D′ for a black box: the values of the pair, with NumPy arrays for JAX's."""
    d0, d1 = (np.asarray(data) if is_jax_array(data) else data for data in made)
    return d0, d1


def shape_of_dataset(pair: Pair, dtype: np.dtype[Any]) -> Tree:
    """Return a dataset of zeros, shaped like those of a pair, that takes no memory."""
    from dpframe.interfaces.pair import as_traced

    def like(data: Any) -> HostArray:
        array = np.asarray(data)
        element_type = dtype if np.issubdtype(array.dtype, np.floating) else array.dtype
        return np.broadcast_to(np.zeros((), element_type), array.shape)

    return trees.map(like, as_traced(pair.d0, pair.d1)[0])


def on_device(dtype: np.dtype[Any], run: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which an attack sees outputs: floating ones in the run's precision."""
    return run if is_floating(dtype) else dtype


def as_scored(outputs: HostArray, run: np.dtype[Any]) -> HostArray:
    """Convert outputs made outside JAX to the dtype in which attacks see them."""
    return outputs.astype(on_device(outputs.dtype, run))


def can_be_nan(dtype: np.dtype[Any]) -> bool:
    """True if values of a dtype can be NaN; NumPy alone does not know bfloat16."""
    return is_floating(dtype) or np.issubdtype(dtype, np.complexfloating)
