"""Compiled programs that are found again without being traced.

JAX keeps what it compiles under a key that is made of the lowered program, so that each process
traces and lowers all of its programs anew: .05 s each, which is most of what a run with few draws
takes. What has a `program_key` is kept under that.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import zlib
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from dpframe.engine.compiling.ingredients import is_weak, program_key, settled, unchanged
from dpframe.engine.compiling.reached import UnknownError
from dpframe.engine.compiling.sealed import sealed, unsealed
from dpframe.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_kept_in: list[Path] = []
"""Where programs are kept, if they are."""


def keep_executables(directory: Path | None) -> None:
    """Keeps whole programs in a directory from now on; None: no longer.

    Args:
        directory: nobody else may write to it, since what it holds is run.
    """
    _kept_in[:] = [] if directory is None else [directory]


def directory() -> Path | None:
    """Where programs are kept."""
    return _kept_in[0] if _kept_in else None


class Executables:
    """The programs of one function.

    Args:
        function: what is traced.
        lower: gives what `jax.jit` lowers a call to.
    """

    def __init__(self, function: Callable[..., Any], lower: Callable[..., Any]) -> None:
        self._function, self._lower = function, lower
        self._found: dict[Any, Any] = {}
        self._locks: dict[Any, threading.Lock] = {}

    def __len__(self) -> int:
        return sum(found is not None for found in self._found.values())

    def find(self, args: tuple[Any, ...], static: dict[str, Any]) -> Callable[..., Any] | None:
        """The program for some arguments.

        Args:
            args: arrays, and trees of them.
            static: the keyword arguments that select a program; it is called without them.

        Returns:
            None where `jax.jit` has to do it.
        """
        kept = directory()
        if kept is None or jax.default_backend() != "cpu" or len(jax.devices()) != 1:
            return None
        leaves, structure = jax.tree.flatten(args)
        if not all(isinstance(leaf, np.ndarray | np.generic | jax.Array) for leaf in leaves):
            return None
        arrays = tuple((leaf.dtype, leaf.shape, is_weak(leaf)) for leaf in leaves)
        try:
            place = (kept, structure, arrays, tuple(static.items()), settings())
        except UnknownError:
            return None
        if place not in self._found:
            with self._locks.setdefault(place, threading.Lock()):
                if place not in self._found:
                    self._found[place] = self._made(kept, args, static)
        found: Callable[..., Any] | None = self._found[place]
        return found

    def _made(self, kept: Path, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        try:
            key = program_key(self._function, settings_in_words(), args, static)
        except UnknownError:
            return None
        file = kept / f"{key}-program"
        try:
            return _loaded(unsealed(key, file.read_bytes()), args)
        except Exception:  # none yet, or none that this version can load
            lowered = self._lowered(args, static)
        with compiled_anew() as anew:
            found = lowered.compile()
        with contextlib.suppress(Exception):  # a program that cannot be kept runs as well
            content = _content(found)
            if anew.asked and unchanged(self._function, args, static) and settled():
                write_whole(file, sealed(key, content))
        return found

    def _lowered(self, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        return self._lower(*args, **static)


def remembered(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    static: dict[str, Any],
    find: Callable[[], T],
) -> T:
    """What a trace shows, without the trace where it was made before.

    Args:
        function: what is traced; what is found depends on what its key does, and on no more.
        args: for which arrays.
        static: for which keyword arguments.
        find: traces; what it gives can be pickled.
    """
    if (kept := directory()) is None:
        return find()
    try:
        key = program_key(function, settings_in_words(), args, static)
    except UnknownError:
        return find()
    file = kept / f"{key}-trace"
    with contextlib.suppress(Exception):  # none yet
        known: T = pickle.loads(unsealed(key, file.read_bytes()))
        return known
    found = find()
    with contextlib.suppress(Exception):
        if unchanged(function, args, static) and settled():
            write_whole(file, sealed(key, pickle.dumps(found)))
    return found


class _Anew(threading.local):
    """Whether this thread compiles something that must not come from JAX's own cache.

    What was loaded from there cannot be written out again: it lacks its functions.
    """

    now = False
    asked = False
    """Whether JAX asked its cache, and was told that there is nothing."""


ANEW = _Anew()


@contextlib.contextmanager
def compiled_anew() -> Iterator[_Anew]:
    """Keeps JAX's own cache out of what is compiled meanwhile, by this thread."""
    ANEW.now, ANEW.asked = True, False
    try:
        yield ANEW
    finally:
        ANEW.now = False


def settings() -> tuple[Any, ...]:
    """All settings of JAX that make other programs; those of this thread, too.

    Raises:
        UnknownError: this version of JAX does not tell them: they have no public name.
    """
    try:
        from jax._src import config

        found: tuple[Any, ...] = config.trace_context()
    except (ImportError, AttributeError) as error:
        raise UnknownError("settings") from error
    return found


def settings_in_words() -> tuple[str, ...]:
    """The same as texts, and those of the whole process, too; of some only what they are.

    Where compiled programs lie makes no other program, nor does how the device was chosen: which
    one it is, is another part of the key.
    """
    whole = {
        name: value
        for name, value in jax.config.values.items()
        if "cache" not in name and name not in ("jax_platforms", "jax_platform_name")
    }
    return *map(_said, settings()), *map(_said, sorted(whole.items()))


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_said, value))})"
    plain = isinstance(value, str | int | float | Enum | None)
    return repr(value) if plain else type(value).__qualname__


def _content(program: Any) -> bytes:
    from jax.experimental.serialize_executable import serialize

    payload, _, structure = serialize(program)
    # A structure cannot be pickled, what is so structured can.
    example = jax.tree.unflatten(structure, range(structure.num_leaves))
    return zlib.compress(pickle.dumps((payload, example)), 1)


def _loaded(content: bytes, args: tuple[Any, ...]) -> Any:
    from jax.experimental.serialize_executable import deserialize_and_load

    payload, example = pickle.loads(zlib.decompress(content))
    inside, outside = jax.tree.structure((args, {})), jax.tree.structure(example)
    return deserialize_and_load(payload, inside, outside)
