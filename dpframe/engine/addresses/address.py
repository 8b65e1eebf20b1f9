"""Where every random draw comes from: its address, and the key that is a hash of the address.

The address of a draw is (seed, draw group, repeat, stream, chunk, dataset). The first four, a
`Stream`, are hashed into a base key; chunk and dataset are folded in, by NumPy for all chunks of a
segment at once, so that programs are handed keys and derive none. Keys are made here and nowhere
else, and nothing ever stores one.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.engine.addresses import threefry
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.spec.audit import Cell
    from dpframe.types import Array, HostArray, Key

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
