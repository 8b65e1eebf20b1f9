"""Compile programs for the device at hand and keep them between runs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import stat
import threading
import zlib
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
import platformdirs

from dpframe.common.files import write_whole
from dpframe.sampling.program_keys import (
    UnknownError,
    forget,
    is_weak,
    program_key,
    settled,
    unchanged,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Entries that know their key: what is damaged, or was copied over another entry, is none.


DIGEST = 32
"""Bytes before the content."""


def sealed(key: str, content: bytes) -> bytes:
    """Content with a digest of it and its key."""
    return hashlib.blake2b(key.encode() + b"\0" + content, digest_size=DIGEST).digest() + content


def unsealed(key: str, entry: bytes) -> bytes:
    """The content of an entry.

    Raises:
        ValueError: it is not what was sealed under this key.
    """
    content = entry[DIGEST:]
    if sealed(key, content) != entry:
        raise ValueError("not what was written")
    return content


# Compiled programs that are found again without being traced.
#
# JAX keeps what it compiles under a key that is made of the lowered program, so that each process
# traces and lowers all of its programs anew: .05 s each, which is most of what a run with few
# draws
# takes. What has a `program_key` is kept under that.


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


# Compiled programs on disk: native code that will be run, so nobody else may write it.


SWITCH = "DPFRAME_CACHE"
"""Environment variable: a directory, or "off". Default: the user's cache directory."""


def keep_compiled_programs(warn: Callable[[str], None] = lambda _: None) -> Path | None:
    """Makes JAX keep what it compiles; a directory that JAX was given already stays.

    Args:
        warn: told why nothing is kept, where that is not asked for.

    Returns:
        The directory; None if nothing is kept.
    """
    forget()
    wanted = os.environ.get(SWITCH, "")
    if wanted.lower() in ("off", "0") or jax.config.values["jax_compilation_cache_dir"]:
        return None
    directory = Path(wanted) if wanted else Path(platformdirs.user_cache_dir("dpframe")) / "jax"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _unsafe(directory)
    except OSError:
        return None  # a cache is a convenience
    if problem:
        warn(f"{directory}: {problem}; compiled programs are not kept")
        return None
    if not os.access(directory, os.W_OK):
        return None
    _bind_entries()
    for name, value in (
        ("jax_compilation_cache_dir", str(directory)),
        ("jax_persistent_cache_min_compile_time_secs", 0.0),
        ("jax_persistent_cache_min_entry_size_bytes", 0),
    ):
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    keep_executables(directory)
    return directory


def _unsafe(directory: Path) -> str | None:
    """Why a program from this directory should not be run."""
    if not hasattr(os, "geteuid"):
        return None
    found = directory.stat()
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others can write to it"
    return None


class BoundCache:
    """A cache of JAX whose entries know their key: one that was copied over another is none."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        self._path = entries._path

    def get(self, key: str) -> bytes | None:
        """The entry, or None, and then there is room for a new one."""
        if ANEW.now:
            ANEW.asked = True
            return None
        found: bytes | None = self._entries.get(key)
        if found is None:
            return None
        try:
            return unsealed(key, found)
        except ValueError:
            with contextlib.suppress(OSError):
                (Path(self._path) / f"{key}-cache").unlink(missing_ok=True)
            return None

    def put(self, key: str, value: bytes) -> None:
        """Keeps an entry under its key."""
        if not ANEW.now:
            self._entries.put(key, sealed(key, value))


def _bind_entries() -> None:
    """Puts a `BoundCache` around what JAX opens; where it is made otherwise, entries stay as are.

    JAX has no public way to name a cache of one's own.
    """
    try:
        from jax._src import compilation_cache

        opened = compilation_cache.get_file_cache
    except (ImportError, AttributeError):
        return
    if getattr(opened, "binds", False):
        return

    def bound(path: str) -> Any:
        found = opened(path)
        return found and (BoundCache(found[0]), *found[1:])

    bound.binds = True  # type: ignore[attr-defined]
    compilation_cache.get_file_cache = bound


# Compiling for the device at hand.


def compiled(static: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Program]:
    """Decorates a function of arrays; it is compiled on first use, not on import.

    Args:
        static: names of the keyword arguments that select a program.
    """
    return lambda function: Program(function, static)


class Program:
    """A function that is compiled with the options that suit the device."""

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._static = function, static

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.keys() <= set(self._static):
            found = self.executables.find(args, kwargs)
            if found is not None:
                return found(*args)
        return self.jitted(*args, **kwargs)

    @functools.cached_property
    def executables(self) -> Executables:
        """Its programs that were found without being traced, or are kept to be."""

        def lower(*args: Any, **kwargs: Any) -> Any:
            return self.jitted.lower(*args, **kwargs)

        return Executables(self._function, lower)

    @functools.cached_property
    def jitted(self) -> Any:
        """The function under `jax.jit`."""
        return jax.jit(
            self._function, static_argnames=self._static, compiler_options=compiler_options()
        )

    def programs(self) -> int:
        """How many programs it has been compiled to."""
        return int(self.jitted._cache_size()) + len(self.executables)


@functools.cache
def compiler_options() -> dict[str, Any]:
    """Options for every program: 512-bit vectors where XLA knows of them.

    LLVM prefers 256 bits on every CPU; these loops run up to 1.9 times as fast with 512. A
    processor without them ignores the option; a version of XLA that does not know it raises.
    """
    if jax.default_backend() != "cpu":
        return {}
    options: dict[str, Any] = {"xla_cpu_prefer_vector_width": 512}
    try:
        # A program without a kernel takes a third of the time of one that adds.
        jax.jit(lambda x: x, compiler_options=options).lower(np.float32(0)).compile()
    except Exception:  # whatever this version says about an option it does not know
        return {}
    return options
