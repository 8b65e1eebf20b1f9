"""Compile programs for the device, and keep them between runs.

JAX keeps compiled programs under a key made from the lowered program, so each process must trace
and lower all of its programs again. That takes 0.05 s each, most of the time of a run with few
draws. Programs that have a `program_key` are kept under this key, and found without being traced.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import platformdirs

from dpframe.common.arrays import jax
from dpframe.common.files import write_whole
from dpframe.sampling import program_keys

T = TypeVar("T")

_kept_in: list[Path] = []  # the directory of programs, if they are kept


def keep_executables(directory: Path | None) -> None:
    """Keep whole programs in a directory from now on; None stops this.

    No other user may write to it, because its programs are run.
    """
    _kept_in[:] = [] if directory is None else [directory]


def directory() -> Path | None:
    """Return the directory of programs, if they are kept."""
    return _kept_in[0] if _kept_in else None


def compiled(static: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], CompiledProgram]:
    """Decorate a function of arrays; it is compiled on first use, not on import.

    `static` names the keyword arguments that select a program.
    """
    return lambda function: CompiledProgram(function, static)


class CompiledProgram:
    """A function that is compiled with the options that suit the device."""

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._static = function, static
        self._found: dict[Any, Any] = {}
        self._locks: dict[Any, threading.Lock] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.keys() <= set(self._static):
            found = self._find(args, kwargs)
            if found is not None:
                return found(*args)
        return self._jitted(*args, **kwargs)

    @functools.cached_property
    def _jitted(self) -> Any:
        return jax.jit(
            self._function, static_argnames=self._static, compiler_options=compiler_options()
        )

    def programs(self) -> int:
        """Return the number of programs that it has been compiled to."""
        kept = sum(found is not None for found in self._found.values())
        return int(self._jitted._cache_size()) + kept

    def _find(self, args: tuple[Any, ...], static: dict[str, Any]) -> Callable[..., Any] | None:
        """Find or compile the program for some arguments; None if `jax.jit` has to do it."""
        kept = directory()
        if kept is None or jax.default_backend() != "cpu" or len(jax.devices()) != 1:
            return None
        leaves, structure = jax.tree.flatten(args)
        if not all(isinstance(leaf, np.ndarray | np.generic | jax.Array) for leaf in leaves):
            return None
        arrays = tuple((leaf.dtype, leaf.shape, program_keys.is_weak(leaf)) for leaf in leaves)
        try:
            place = (kept, structure, arrays, tuple(static.items()), _settings())
        except program_keys.UnknownError:
            return None
        if place not in self._found:
            with self._locks.setdefault(place, threading.Lock()):
                if place not in self._found:
                    self._found[place] = self._load_or_compile(args, static)
        found: Callable[..., Any] | None = self._found[place]
        return found

    def _load_or_compile(self, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        entry = _Entry.of(self._function, args, static, "program")
        if entry is None:
            return None
        with contextlib.suppress(Exception):  # none yet, or none that this version can load
            return _loaded(entry.read(), args)
        lowered = self._lowered(args, static)
        with _compiled_anew() as anew:
            found = lowered.compile()
        if anew.asked:
            entry.write(lambda: _content(found))
        return found

    def _lowered(self, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        return self._jitted.lower(*args, **static)


def remembered(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    static: dict[str, Any],
    find: Callable[[], T],
) -> T:
    """Return the result of a trace, from the cache if it was made before.

    Args:
        function: the traced function; its key must cover everything that the result depends on.
        args: arrays of the trace.
        static: keyword arguments of the trace.
        find: makes the trace; its result can be pickled.
    """
    entry = _Entry.of(function, args, static, "trace")
    if entry is None:
        return find()
    with contextlib.suppress(Exception):  # none yet
        known: T = pickle.loads(entry.read())
        return known
    found = find()
    entry.write(lambda: pickle.dumps(found))
    return found


class _Entry(NamedTuple):
    """The file of a program, or of the result of a trace, under the key of the program."""

    key: str
    file: Path
    is_unchanged: Callable[[], bool]

    @classmethod
    def of(
        cls, function: Callable[..., Any], args: Any, static: dict[str, Any], kind: str
    ) -> _Entry | None:
        """Return the entry of a call; None if nothing is kept or the program has no key."""
        if (kept := directory()) is None:
            return None
        try:
            key = program_keys.program_key(function, settings_in_words(), args, static)
        except program_keys.UnknownError:
            return None
        return cls(
            key, kept / f"{key}-{kind}", lambda: program_keys.unchanged(function, args, static)
        )

    def read(self) -> bytes:
        """Return the content; raise OSError or ValueError if there is none."""
        return _unsealed(self.key, self.file.read_bytes())

    def write(self, content: Callable[[], bytes]) -> None:
        """Keep the content if it certainly belongs to the key."""
        with contextlib.suppress(Exception):  # a program that cannot be kept still runs
            made = content()
            if self.is_unchanged() and program_keys.settled():
                write_whole(self.file, _sealed(self.key, made))


_DIGEST = 32  # bytes before the content of a file


def _sealed(key: str, content: bytes) -> bytes:
    """Put a digest of content and key before it, so that damaged or copied entries are found."""
    return hashlib.blake2b(key.encode() + b"\0" + content, digest_size=_DIGEST).digest() + content


def _unsealed(key: str, entry: bytes) -> bytes:
    """Return the content of an entry; raise ValueError if it was not sealed under this key."""
    content = entry[_DIGEST:]
    if _sealed(key, content) != entry:
        raise ValueError("not what was written")
    return content


class _Anew(threading.local):
    """State of a thread that compiles without JAX's own cache.

    A program loaded from there lacks its functions, so it cannot be serialised.
    """

    now = False
    asked = False  # True once JAX asked its cache, which then answered that it has no entry


_ANEW = _Anew()


@contextlib.contextmanager
def _compiled_anew() -> Iterator[_Anew]:
    """Compile without JAX's own cache inside the context, in this thread."""
    _ANEW.now, _ANEW.asked = True, False
    try:
        yield _ANEW
    finally:
        _ANEW.now = False


def _settings() -> tuple[Any, ...]:
    """Return all settings of JAX that change programs, including those of this thread.

    They have no public name. Raises UnknownError if this version of JAX does not have them.
    """
    try:
        from jax._src import config

        found: tuple[Any, ...] = config.trace_context()
    except (ImportError, AttributeError) as error:
        raise program_keys.UnknownError("settings") from error
    return found


def settings_in_words() -> tuple[str, ...]:
    """Return these settings and those of the process as texts, some values by their type alone.

    The directory of compiled programs is left out because it changes no program, and the choice of
    the device because the device itself is in the key.
    """
    whole = {
        name: value
        for name, value in jax.config.values.items()
        if "cache" not in name and name not in ("jax_platforms", "jax_platform_name")
    }
    return *map(_worded, _settings()), *map(_worded, sorted(whole.items()))


def _worded(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_worded, value))})"
    plain = isinstance(value, str | int | float | Enum | None)
    return repr(value) if plain else type(value).__qualname__


def _content(program: Any) -> bytes:
    from jax.experimental.serialize_executable import serialize

    payload, _, structure = serialize(program)
    # A structure cannot be pickled, a value of that structure can.
    example = jax.tree.unflatten(structure, range(structure.num_leaves))
    return zlib.compress(pickle.dumps((payload, example)), 1)


def _loaded(content: bytes, args: tuple[Any, ...]) -> Any:
    from jax.experimental.serialize_executable import deserialize_and_load

    payload, example = pickle.loads(zlib.decompress(content))
    inside, outside = jax.tree.structure((args, {})), jax.tree.structure(example)
    return deserialize_and_load(payload, inside, outside)


SWITCH = "DPFRAME_CACHE"
"""Environment variable: a directory, or "off". Default: the user's cache directory."""


QUIET = (0, 10, 2)
"""The first version of JAX in which XLA loads a program silently. Before, on recent processors, it
printed lists of their features, two thousand characters long, for every program."""


def keep_compiled_programs(warn: Callable[[str], None] = lambda _: None) -> Path | None:
    """Make JAX keep compiled programs, unless JAX has a directory for them already.

    Args:
        warn: receives the reason if the user's directory cannot be used.

    Returns:
        The directory; None if nothing is kept.
    """
    program_keys.forget()
    wanted = os.environ.get(SWITCH, "")
    if wanted.lower() in ("off", "0") or jax.config.values["jax_compilation_cache_dir"]:
        return None
    if jax.__version_info__ < QUIET:
        return None
    directory = Path(wanted) if wanted else Path(platformdirs.user_cache_dir("dpframe")) / "jax"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _unsafe(directory)
    except OSError:
        return None  # a cache is a convenience
    if problem:
        warn(f"{directory}: {problem}; compiled programs are not cached")
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
    """Return the reason why a program from this directory should not be run."""
    if not hasattr(os, "geteuid"):
        return None
    found = directory.stat()
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others can write to it"
    return None


class BoundCache:
    """A cache of JAX whose entries contain their key, so a copy under another key is rejected."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        self._path = entries._path

    def get(self, key: str) -> bytes | None:
        """Return the entry; None if it is absent or invalid, and an invalid one is removed."""
        if _ANEW.now:
            _ANEW.asked = True
            return None
        found: bytes | None = self._entries.get(key)
        if found is None:
            return None
        try:
            return _unsealed(key, found)
        except ValueError:
            with contextlib.suppress(OSError):
                (Path(self._path) / f"{key}-cache").unlink(missing_ok=True)
            return None

    def put(self, key: str, value: bytes) -> None:
        """Keep an entry under its key."""
        if not _ANEW.now:
            self._entries.put(key, _sealed(key, value))


def _bind_entries() -> None:
    """Wrap the cache that JAX opens in a `BoundCache`; JAX has no public way to set one.

    Versions of JAX that open it differently keep their entries unbound.
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


@functools.cache
def compiler_options() -> dict[str, Any]:
    """Return options for every program: 512-bit vectors if XLA has them.

    LLVM prefers 256 bits on every CPU; these loops run up to 1.9 times as fast with 512. A
    processor without them ignores the option; a version of XLA that does not know it raises.
    """
    if jax.default_backend() != "cpu":
        return {}
    options: dict[str, Any] = {"xla_cpu_prefer_vector_width": 512}
    try:
        # A program without a kernel takes a third of the time of one that adds.
        jax.jit(lambda x: x, compiler_options=options).lower(np.float32(0)).compile()
    except Exception:  # versions raise different errors about an option that they do not know
        return {}
    return options
