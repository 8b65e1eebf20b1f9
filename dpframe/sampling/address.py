"""Addresses of random draws, and the chunks that draws are cut into.

The address of a draw is (seed, draw group, repeat, stream, chunk, dataset). The first four, a
`Stream`, are hashed into a base key. Chunk and dataset are folded in, by NumPy for all chunks of a
segment at once, so that programs are handed keys and derive none. Keys are made here and nowhere
else, and nothing ever stores one.

The processes of black boxes need no JAX, so it is imported where it is used.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.interfaces.attack import BEFORE
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.sampling.threefry import GENERATORS, THREEFRY, blocks

if TYPE_CHECKING:
    from dpframe.common.types import HostArray, Key, Tree
    from dpframe.interfaces.pair import Pair
    from dpframe.spec.audit import Cell, RunSettings


SCHEME = 1
"""Must change if addresses come to mean other draws: old counts are never mixed with new."""

HOST = "as the pair made them"
"""Stands in the address of a black box in place of a precision; part of the scheme."""

FIT, LEARNER, PILOT, EVAL = "fit", "fit-learner", "pilot", "eval"
"""Streams: what attacks learn from, their own randomness, what chooses, what bounds."""

PROBE, SPLIT = "probe", "score"
"""Streams beside an audit: what only looks at shapes, and what splits scores made elsewhere."""


class Stream(NamedTuple):
    """All of a draw's address but chunk and dataset."""

    seed: int
    group: str
    repeat: int
    stream: str

    def of(self, name: str) -> Stream:
        """Return another stream of the same seed, draw group and repeat."""
        return self._replace(stream=name)


def draw_group(cell: Cell, *, data: str, precision: str, prng: str, rows: int) -> str:
    """Hash everything that determines random draws and nothing else: 64 bits, in hex.

    Traced floats such as ε are not part of it, so all their values share one set of draws.

    Args:
        cell: gives the mechanism's distribution, name and static parameters, and the pair.
        data: digest of D and D′, which a pair may read from a file. Not used if the class declares
            that its parameters say all.
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
    """Return the name under which the looks at a cell's draws are kept.

    It holds what is drawn from, and no setting of the draws: in another precision, with other
    chunks or another generator the same evidence is drawn again. So it is by a black box that takes
    no seed, whatever the seed.
    """
    group = draw_group(cell, data=data, precision=HOST, prng="", rows=0)
    seeded = getattr(cell.mechanism.value, "seedable", True)
    return Stream(cell.seed if seeded else 0, group, cell.repeat, EVAL)


def generator_name(name: str) -> str:
    """Return the generator's proper name, for the record."""
    return THREEFRY if name == "default" else name


def base_key(stream: Stream, prng: str) -> Key:
    """Return the key of a stream; keys of chunks go on from it."""
    import jax.numpy as jnp

    return key_of(jnp.asarray(_words(stream, 8)), prng)


def chunk_keys(stream: Stream, prng: str, dataset: int, first: int, stop: int) -> HostArray:
    """Return the words of the keys of chunks first … stop − 1, uint32 [chunks, 2].

    They are those of `base_key` with chunk and dataset folded in, so D and D′ never share draws.
    NumPy makes them, because a program that derives keys itself takes a third longer to compile.
    """
    chunks = np.arange(first, stop, dtype=np.uint32)
    rounds, none = GENERATORS[prng], np.zeros_like(chunks)
    keys = tuple(_words(stream, 8)[:, None])
    for counter in (chunks, np.full_like(chunks, dataset)):
        keys = blocks(keys, (none, counter), rounds)
    return np.stack(keys, axis=-1)


def key_of(words: Any, prng: str) -> Key:
    """Return the key of two words that `chunk_keys` gave; traced."""
    import jax

    from dpframe.sampling import threefry

    implementation: Any = threefry.implementation() if prng == THREEFRY else prng
    key: Key = jax.random.wrap_key_data(words, impl=implementation)
    return key


def host_generator(stream: Stream, chunk: int = 0, dataset: int = 0) -> np.random.Generator:
    """Return NumPy's counterpart of the keys of chunks, for what JAX does not trace."""
    seeds = np.random.SeedSequence([*_words(stream, 32).tolist(), chunk, dataset])
    return np.random.Generator(np.random.PCG64DXSM(seeds))


@functools.lru_cache(maxsize=64)
def _words(stream: Stream, size: int) -> Any:
    """Hash a stream to 32-bit words."""
    return np.frombuffer(bytes.fromhex(digest(list(stream), size)), "<u4")


# Taken before a black box runs in this process, because it may replace what modules hold.
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode


def digest(content: Any, size: int = 8) -> str:
    """Hash JSON content to `size` bytes in hex; the same on every machine."""
    text = _encode(content)
    return blake2b(text.encode(), digest_size=size).hexdigest()


# A chunk is the unit of randomness, never of convenience.

CHUNK_ELEMENTS = 1 << 16
"""Output coordinates per chunk; a chunk of float32 then stays in the cache of one core."""

SEGMENT_ELEMENTS = 1 << 28
"""Output coordinates per device call: about a second of work, so that progress is smooth."""

HOST_ROWS = 16
"""Releases per chunk of a black box, each of which may take a second. A chunk is drawn whole, or
lost if it is interrupted. If releases are cheap, `[run] chunk` should ask for more."""


class Segment(NamedTuple):
    """Consecutive chunks that one device call draws."""

    first: int
    stop: int
    limit: int  # rows counted of each chunk; below the chunk's rows only for a tail
    slices: tuple[tuple[int, int], ...] = ()
    """Rows of its only chunk that are counted apart, from the first up to the last of each; the
    counts then have one more axis, before all others."""


def chunks_in_words(first: int, stop: int, dataset: int) -> str:
    """Name consecutive chunks of a dataset in a message."""
    which = f"chunk {first}" if stop - first <= 1 else f"chunks {first} to {stop - 1}"
    return f"{which} of {('D', 'D′')[dataset]}"


def rows_per_chunk(output_shape: tuple[int, ...], *, on_host: bool = False) -> int:
    """Return the rows of a chunk: a power of two, from the output's shape alone.

    Neither memory nor device may change it, because it is part of the address of every draw.
    """
    most = CHUNK_ELEMENTS // max(1, math.prod(output_shape))
    if on_host:
        most = min(most, HOST_ROWS)
    return 1 << max(0, most.bit_length() - 1)


def pieces(rows: int, elements: int) -> int:
    """Return the number of chunks that one call of a device draws in about a second."""
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
    """Cut the chunks from `done` on into segments; a tail chunk is drawn whole and cut.

    `slow` makes every chunk a segment of its own, `times` enlarges segments, and `parts` is the
    number of segments that the whole chunks make at least.
    """
    whole, tail = divmod(trials, rows)
    step = min(times * (1 if slow else pieces(rows, elements)), max(1, whole // parts))
    for first in range(done, whole, step):
        yield Segment(first, min(first + step, whole), rows)
    if tail:
        yield Segment(whole, whole + 1, tail)


class Asking(NamedTuple):
    """The terms on which a black box is asked that may answer with anything."""

    raises: bool = True  # an exception is an answer
    time: bool = False  # the time that each answer took is part of it
    one: bool = False  # `sample` is asked for one answer at a time
    limit: float | None = None  # seconds after which an answer counts as a TimeoutError
    messages: bool = False  # the message of an exception is part of it


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
        """Number of numbers of an answer that are laid out."""
        return self.dims[0] - BEFORE


def of_answers(asking: Asking, numbers: int, native: Sequence[int] | None) -> Shape:
    """Return the shape of answers of any kind.

    `numbers` are those of the widest that came; they are rounded up, so that programs are shared.
    `native` is the shape of their numbers, if all came in one shape.
    """
    width = 1 << max(0, numbers - 1).bit_length()
    shape = None if native is None else tuple(native)
    return Shape((BEFORE + width,), np.dtype(np.uint64), asking, shape)


class Shard(NamedTuple):
    """One of several equal parts of a run, from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def chunks(self, trials: int, rows: int) -> range:
        """Return the whole chunks of each dataset that are counted in it; the shards share all.

        The trials after the last whole chunk are left to the command that adds the shards up.
        """
        whole = trials // rows
        return range(whole * (self.number - 1) // self.of, whole * self.number // self.of)

    def owns(self, place: int) -> bool:
        """True if this shard does a piece of indivisible work, numbered from 0.

        A bet depends on all rounds before, so cells that bet, and searches, go to one shard whole.
        """
        return place % self.of == self.number - 1


def windowed(key: str, window: range) -> str:
    """Return the key of the counts of some chunks, given the key of the counts of all."""
    return f"{key}@{window.start}-{window.stop}"


def window_of(key: str) -> tuple[str, range] | None:
    """Return the key of the counts of all chunks, and these chunks; None if they are all."""
    found = re.fullmatch(r"(.*)@(\d+)-(\d+)", key)
    return found and (found[1], range(int(found[2]), int(found[3])))


def precision_of(run: RunSettings) -> Any:
    """Return a context in which JAX has the run's precision; it belongs to a thread."""
    import jax

    return jax.enable_x64(run.precision == "float64")


def both_as_made(pair: Pair) -> tuple[Any, Any]:
    """Return D and D′ as the pair makes them, nothing rounded."""
    return pair.d0, pair.d1


def for_jax(made: tuple[Any, Any], dtype: np.dtype[Any]) -> tuple[Tree, Tree]:
    """Return D and D′ as a traced mechanism gets them: padded, floating data in the run's dtype."""
    import jax

    from dpframe.interfaces.pair import as_traced

    def held(data: Any) -> HostArray:
        array = np.asarray(data)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    d0, d1 = (jax.tree.map(held, data) for data in as_traced(*made))
    return d0, d1


def for_a_box(made: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return D and D′ as a black box gets them: the pair's own values, NumPy arrays for JAX's."""
    import jax

    d0, d1 = (np.asarray(data) if isinstance(data, jax.Array) else data for data in made)
    return d0, d1


def shape_of_dataset(pair: Pair, dtype: np.dtype[Any]) -> Tree:
    """Return a dataset of zeros, shaped like those of a pair, that takes no memory."""
    import jax

    from dpframe.interfaces.pair import as_traced

    def like(data: Any) -> HostArray:
        array = np.asarray(data)
        held = dtype if np.issubdtype(array.dtype, np.floating) else array.dtype
        return np.broadcast_to(np.zeros((), held), array.shape)

    return jax.tree.map(like, as_traced(pair.d0, pair.d1)[0])


def on_device(dtype: np.dtype[Any], run: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which an attack sees outputs: floating ones in the run's precision."""
    import jax.numpy as jnp

    return run if jnp.issubdtype(dtype, jnp.floating) else dtype


def as_scored(outputs: HostArray, run: np.dtype[Any]) -> HostArray:
    """Convert outputs made outside of JAX to the dtype in which attacks see them."""
    return outputs.astype(on_device(outputs.dtype, run))


def can_be_nan(dtype: np.dtype[Any]) -> bool:
    """True if values of a dtype can be NaN; NumPy alone does not know bfloat16."""
    import jax.numpy as jnp

    return bool(jnp.issubdtype(dtype, jnp.inexact))
