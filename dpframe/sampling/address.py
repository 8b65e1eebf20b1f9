"""Addresses of random draws, and the chunks that draws are cut into."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.interfaces.attack import BEFORE
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import as_traced
from dpframe.sampling import threefry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe.common.types import Array, HostArray, Key, Tree
    from dpframe.interfaces.pair import Pair
    from dpframe.spec.audit import Cell, RunSettings


# Where every random draw comes from: its address, and the key that is a hash of the address.
#
# The address of a draw is (seed, draw group, repeat, stream, chunk, dataset). The first four, a
# `Stream`, are hashed into a base key; chunk and dataset are folded in, by NumPy for all chunks
# of a
# segment at once, so that programs are handed keys and derive none. Keys are made here and
# nowhere
# else, and nothing ever stores one.


SCHEME = 1
"""Changes when addresses come to mean other draws, so that old counts are never mixed with new."""

HOST = "as the pair made them"
"""In the address of a black box in place of a precision; changes as the scheme does."""

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
        """Another stream of the same seed, draw group and repeat."""
        return self._replace(stream=name)


def draw_group(cell: Cell, *, data: str, precision: str, prng: str, rows: int) -> str:
    """Stable 64-bit hash, in hex, of everything that determines random draws and nothing else.

    Traced floats such as ε are not part of it, so all their values share one set of draws.

    Args:
        cell: gives the mechanism's distribution, name and static parameters, and the pair.
        data: digest of D and D′, which a pair may read from a file. Not used where the class says
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


def evidence_of(cell: Cell, *, data: str, precision: str) -> Stream:
    """What the looks at a cell's draws are kept under: all that its author did not choose to vary.

    Where other draws can be had without a word in the spec that says so, they are the same
    evidence, drawn again: with other chunks or another generator, and of a black box without a seed
    whatever seed there is.

    Args:
        cell: gives the mechanism's distribution, name and static parameters, and the pair.
        data: digest of D and D′.
        precision: as in `draw_group`.
    """
    group = draw_group(cell, data=data, precision=precision, prng="", rows=0)
    seeded = getattr(cell.mechanism.value, "seedable", True)
    return Stream(cell.seed if seeded else 0, group, cell.repeat, EVAL)


GENERATORS: dict[str, Any] = {threefry.NAME: threefry.IMPL, "threefry2x32": "threefry2x32"}
"""What JAX takes for each name that a spec may give; "threefry2x32" is JAX's own."""

_ROUNDS = {threefry.NAME: threefry.ROUNDS, "threefry2x32": 20}


def generator_name(name: str) -> str:
    """The generator's proper name, for the record."""
    return threefry.NAME if name == "default" else name


def base_key(stream: Stream, prng: str) -> Key:
    """The key of a stream; `chunk_key` goes on from it."""
    return _key(_words(stream, 8), prng)


def base_keys(streams: Sequence[Stream], prng: str) -> Key:
    """The keys of many streams at once, shape [streams]."""
    return _key(np.stack([_words(stream, 8) for stream in streams]), prng)


def chunk_key(base: Key, chunk: Array, dataset: Array) -> Key:
    """The key of one chunk of one dataset; traced. D and D′ never share draws."""
    key: Key = jax.random.fold_in(jax.random.fold_in(base, chunk), dataset)
    return key


def chunk_keys(stream: Stream, prng: str, dataset: int, first: int, stop: int) -> HostArray:
    """The words of what `chunk_key` gives for chunks first … stop − 1, uint32 [chunks, 2].

    Made by NumPy: a program that derives keys itself takes a third longer to compile.
    """
    chunks = np.arange(first, stop, dtype=np.uint32)
    rounds, none = _ROUNDS[prng], np.zeros_like(chunks)
    keys = tuple(_words(stream, 8)[:, None])
    for counter in (chunks, np.full_like(chunks, dataset)):
        keys = threefry.blocks(keys, (none, counter), rounds)
    return np.stack(keys, axis=-1)


def key_of(words: Any, prng: str) -> Key:
    """The key of two words that `chunk_keys` gave; traced."""
    key: Key = jax.random.wrap_key_data(words, impl=GENERATORS[prng])
    return key


def host_generator(stream: Stream, chunk: int = 0, dataset: int = 0) -> np.random.Generator:
    """NumPy's counterpart of `base_key` and `chunk_key`, for what JAX does not trace."""
    seeds = np.random.SeedSequence([*_words(stream, 32).tolist(), chunk, dataset])
    return np.random.Generator(np.random.PCG64DXSM(seeds))


def host_seeds(stream: Stream, chunk: int = 0, dataset: int = 0) -> Any:
    """Eight 32-bit words for generators that a whole process shares; others than those above."""
    place = _words(stream, 32).tobytes() + chunk.to_bytes(8, "little") + bytes([dataset])
    found = hashlib.blake2b(place, digest_size=32, person=b"shared").digest()
    return np.frombuffer(found, "<u4")


def _key(words: Any, prng: str) -> Key:
    key: Key = jax.random.wrap_key_data(jnp.asarray(words), impl=GENERATORS[prng])
    return key


@functools.lru_cache(maxsize=64)
def _words(stream: Stream, size: int) -> Any:
    """The hash of a stream, as 32-bit words."""
    return np.frombuffer(bytes.fromhex(digest(list(stream), size)), "<u4")


def digest(content: Any, size: int = 8) -> str:
    """Hash of JSON content as `size` bytes in hex; the same on every machine."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


# How draws are cut into chunks. A chunk is the unit of randomness, never of convenience.


CHUNK_ELEMENTS = 1 << 16
"""Output coordinates per chunk; a chunk of float32 then stays in the cache of one core."""

SEGMENT_ELEMENTS = 1 << 28
"""Output coordinates per device call: about a second of work, so that progress is smooth."""

HOST_ROWS = 16
"""Releases per chunk of a black box, each of which may take a second; what is begun is drawn whole,
and what is interrupted is lost. Few if a release is cheap: `[run] chunk` asks for more."""


class Segment(NamedTuple):
    """Consecutive chunks that one device call draws."""

    first: int
    stop: int
    limit: int
    """Rows counted of each chunk; below the chunk's rows only for a tail."""
    slices: tuple[tuple[int, int], ...] = ()
    """Rows of its only chunk that are counted apart, from the first up to the last of each; the
    counts then have one more axis, before all others."""


def rows_per_chunk(output_shape: tuple[int, ...], *, on_host: bool = False) -> int:
    """Rows of a chunk: a power of two, from the output's shape alone.

    Neither memory nor device may change it, because it is part of the address of every draw.

    Args:
        output_shape: of one output.
        on_host: whether plain Python makes it.
    """
    most = CHUNK_ELEMENTS // max(1, math.prod(output_shape))
    if on_host:
        most = min(most, HOST_ROWS)
    return 1 << max(0, most.bit_length() - 1)


def pieces(rows: int, elements: int) -> int:
    """Chunks that one call of a device draws, for about a second of work.

    Args:
        rows: rows per chunk.
        elements: coordinates per row.
    """
    return max(1, SEGMENT_ELEMENTS // (rows * max(1, elements)))


def segments(
    trials: int,
    rows: int,
    elements: int,
    done: int = 0,
    *,
    slow: bool = False,
    times: int = 1,
) -> Iterator[Segment]:
    """Cuts the chunks from `done` on into segments; a tail chunk is drawn whole and cut.

    Args:
        trials: rows wanted in all.
        rows: rows per chunk.
        elements: coordinates per row.
        done: whole chunks already counted.
        slow: whether every chunk is a segment of its own.
        times: how many times as large as usual segments are.
    """
    whole, tail = divmod(trials, rows)
    step = times * (1 if slow else pieces(rows, elements))
    for first in range(done, whole, step):
        yield Segment(first, min(first + step, whole), rows)
    if tail:
        yield Segment(whole, whole + 1, tail)


# What one output of a mechanism looks like.


class Asking(NamedTuple):
    """How a black box is asked that may answer with anything."""

    raises: bool = True
    """Whether an exception is an answer."""
    time: bool = False
    """Whether the time that each answer took is part of it."""
    one: bool = False
    """Whether `sample` is asked for one answer at a time."""
    limit: float | None = None
    """Seconds after which an answer is taken for a TimeoutError."""


class Shape(NamedTuple):
    """What one output of a mechanism looks like."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    asking: Asking | None = None
    """Of answers of any kind, which are then rows of 64-bit words: how they are asked for."""
    native: tuple[int, ...] | None = None
    """Of such answers: the shape of their numbers, where all came in one shape."""

    def __str__(self) -> str:
        if self.asking is not None:
            return f"answers of up to {self.width} numbers"
        return f"{self.dtype} outputs of shape {self.dims}"

    @property
    def width(self) -> int:
        """How many numbers of an answer are laid out."""
        return self.dims[0] - BEFORE


def of_answers(asking: Asking, numbers: int, native: Sequence[int] | None) -> Shape:
    """The shape of answers of any kind.

    Args:
        asking: how they are asked for.
        numbers: in the widest that came; rounded up, so that programs are shared.
        native: the shape of their numbers, where all came in one shape.
    """
    width = 1 << max(0, numbers - 1).bit_length()
    shape = None if native is None else tuple(native)
    return Shape((BEFORE + width,), np.dtype(np.uint64), asking, shape)


# A shard of a run: which part of the draws of each pass is counted here.


class Shard(NamedTuple):
    """One of several equal parts of a run, from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def chunks(self, trials: int, rows: int) -> range:
        """Whole chunks of each dataset that are counted in it; together the shards have all.

        The trials after the last whole chunk are left to whoever adds the shards up.

        Args:
            trials: of each dataset, in the whole run.
            rows: of a chunk.
        """
        whole = trials // rows
        return range(whole * (self.number - 1) // self.of, whole * self.number // self.of)

    def owns(self, place: int) -> bool:
        """Whether what cannot be divided is done in it.

        What is bet on in a round depends on all rounds before, so cells that bet, and searches, go
        to one shard whole.

        Args:
            place: among all that cannot be divided, from 0.
        """
        return place % self.of == self.number - 1


def windowed(key: str, window: range) -> str:
    """Under which a store keeps the counts of some chunks only.

    Args:
        key: of the counts of all.
        window: the chunks.
    """
    return f"{key}@{window.start}-{window.stop}"


def window_of(key: str) -> tuple[str, range] | None:
    """The key of the counts of all chunks, and which chunks these are; None if they are all."""
    found = re.fullmatch(r"(.*)@(\d+)-(\d+)", key)
    return found and (found[1], range(int(found[2]), int(found[3])))


# The precision of a run: in which dtype parameters, datasets and outputs are held.


def run_dtype(run: RunSettings) -> np.dtype[Any]:
    """The dtype of floating leaves and datasets."""
    return np.dtype(run.precision)


def precision_of(run: RunSettings) -> Any:
    """Context in which JAX has the run's precision; it belongs to a thread."""
    return jax.enable_x64(run.precision == "float64")


def dataset(made: Tree, dtype: np.dtype[Any]) -> Tree:
    """A dataset as a pair made it, with floating data in the run's dtype."""

    def held(data: Any) -> HostArray:
        array = np.asarray(data)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array

    return jax.tree.map(held, made)


def both_as_made(pair: Pair) -> tuple[Any, Any]:
    """D and D′ as the pair makes them, nothing rounded."""
    return pair.d0, pair.d1


def for_jax(made: tuple[Any, Any], dtype: np.dtype[Any]) -> tuple[Tree, Tree]:
    """D and D′ as a traced mechanism gets them: padded where their sizes differ.

    Args:
        made: as the pair made them.
        dtype: of floating data.
    """
    d0, d1 = as_traced(*made)
    return dataset(d0, dtype), dataset(d1, dtype)


def for_a_box(made: tuple[Any, Any]) -> tuple[Any, Any]:
    """D and D′ as a black box gets them: the pair's own values, in arrays that NumPy knows."""
    d0, d1 = (np.asarray(data) if isinstance(data, jax.Array) else data for data in made)
    return d0, d1


def shape_of_dataset(pair: Pair, dtype: np.dtype[Any]) -> Tree:
    """A dataset of zeros, shaped like those of a pair, that takes no memory."""

    def like(data: Any) -> HostArray:
        array = np.asarray(data)
        held = dtype if np.issubdtype(array.dtype, np.floating) else array.dtype
        return np.broadcast_to(np.zeros((), held), array.shape)

    return jax.tree.map(like, as_traced(pair.d0, pair.d1)[0])


def on_device(dtype: np.dtype[Any], run: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which an attack sees outputs: floating ones in the run's precision."""
    return run if jnp.issubdtype(dtype, jnp.floating) else dtype


def as_scored(outputs: HostArray, run: np.dtype[Any]) -> HostArray:
    """Outputs made outside of JAX, in the dtype in which attacks see them."""
    return outputs.astype(on_device(outputs.dtype, run))


def can_be_nan(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype can be NaN; NumPy alone does not know bfloat16."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))
