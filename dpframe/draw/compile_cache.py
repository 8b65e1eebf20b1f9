"""Compile programs for the device, and keep them between runs.

JAX's own cache finds a program by its lowered form, and lowering takes 15 to 30 ms, because the
rounds of the generator are unrolled. `CompiledProgram` finds it by its traced form in 2 to 6 ms.
The key describes every operation, constant and setting of the trace, so it covers any code, also if
it was replaced in memory. A trace that cannot be described in full is left to JAX's cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import stat
import threading
import types
import warnings
import zlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from dpframe.common.arrays import is_jax_array, jax
from dpframe.common.files import write_whole
from dpframe.draw import streams, threefry
from dpframe.draw.value_digest import is_found_by_name

SWITCH = "DPFRAME_CACHE"  # environment variable: a directory, or "off"

QUIET = (0, 10, 2)
"""The first JAX that loads a program without printing the features of the processor."""

OPTIONS: dict[str, Any] = {"xla_cpu_prefer_vector_width": 512}
"""LLVM prefers 256 bits on every CPU; these loops run up to 1.9 times as fast with 512. A processor
without them ignores the option."""

_kept_in: list[Path] = []  # the directory of programs, if they are kept


def keep_compiled_programs(warn: Callable[[str], None] = lambda _: None) -> Path | None:
    """Keep compiled programs from now on, unless JAX has a directory for them already.

    Return the directory, None if nothing is kept; `warn` receives the reason if it is unsafe.
    """
    wanted = os.environ.get(SWITCH, "")
    has_its_own = jax.config.values["jax_compilation_cache_dir"]
    if wanted.lower() in ("off", "0") or has_its_own or jax.__version_info__ < QUIET:
        return None
    directory = Path(wanted or f"{platformdirs.user_cache_dir('dpframe')}/programs")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return None  # a cache is a convenience
    foreign = hasattr(os, "geteuid") and status.st_uid != os.geteuid()
    if foreign or (os.name == "posix" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        problem = "belongs to another user" if foreign else "others can write to it"
        warn(f"{directory}: {problem}; compiled programs are not cached")
        return None
    if not os.access(directory, os.W_OK):
        return None
    # A run that was killed may leave half an entry, which JAX never replaces.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation", UserWarning)
    for name, value in (
        ("jax_compilation_cache_dir", str(directory)),
        ("jax_persistent_cache_min_compile_time_secs", 0.0),
        ("jax_persistent_cache_min_entry_size_bytes", 0),
    ):
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    _kept_in[:] = [directory]
    return directory


def compiled(static: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], CompiledProgram]:
    """Compile a function of arrays on first use; `static` names keywords that select a program."""
    return lambda function: CompiledProgram(function, static)


class CompiledProgram:
    """A function that is compiled with the options that suit the device."""

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._static = function, static
        self._loaded: dict[Any, Any] = {}
        self._locks: dict[Any, threading.Lock] = {}

    def __call__(self, *args: Any, **static: Any) -> Any:
        usual = bool(_kept_in) and jax.default_backend() == "cpu" and len(jax.devices()) == 1
        if not usual or not static.keys() <= set(self._static):
            return self._jitted(*args, **static)
        leaves, structure = jax.tree.flatten(args)
        precision: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        place = structure, (*map(jax.typeof, leaves),), tuple(static.items()), precision
        if place not in self._loaded:
            with self._locks.setdefault(place, threading.Lock()):
                if place not in self._loaded:
                    self._loaded[place] = self._load_or_compile(args, static)
        return self._loaded[place](*args)

    @functools.cached_property
    def _jitted(self) -> Any:
        return self._jit(compiler_options=compiler_options())

    def _jit(self, **options: Any) -> Any:
        @functools.wraps(self._function)
        def named(*args: Any, **static: Any) -> Any:
            return self._function(*args, **static)

        # JAX's key contains the name, so its cache has no program that is not in this one, too.
        named.__name__ += "_" + hashlib.blake2b(_surroundings().encode(), digest_size=4).hexdigest()
        return jax.jit(named, static_argnames=self._static, **options)

    def programs(self) -> int:
        """Return the number of programs that it has been compiled to."""
        return int(self._jitted._cache_size()) + len(self._loaded)

    def _load_or_compile(self, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        traced = self._jit().trace(*args, **static)  # the options take long to find
        try:
            file = _kept_in[0] / f"{_key(traced)}-program"
        except Exception:  # an unknown part, or a version of JAX whose traces are other objects
            return traced.lower().compile(compiler_options())
        from jax.experimental.serialize_executable import deserialize_and_load, serialize

        structures = jax.tree.structure((args, {})), jax.tree.structure(traced.out_info)
        with contextlib.suppress(Exception):  # none yet, or none that this version can load
            return deserialize_and_load(zlib.decompress(file.read_bytes()), *structures)
        before = _found_by_jax().number
        program = traced.lower().compile(compiler_options())
        if _found_by_jax().number == before:
            with contextlib.suppress(Exception):  # a program that cannot be kept still runs
                write_whole(file, zlib.compress(serialize(program)[0], 1))
        return program


class _FoundByJax(threading.local):
    """Counts the programs of a thread from JAX's cache; written again, they lack functions."""

    number = 0


@functools.cache
def _found_by_jax() -> _FoundByJax:
    def listen(event: str, **_: Any) -> None:
        hits.number += event == "/jax/compilation_cache/cache_hits"

    hits = _FoundByJax()
    jax.monitoring.register_event_listener(listen)
    return hits


# The key of a program.


def _key(traced: Any) -> str:
    """Return a digest of a trace and of everything that lowers and compiles it."""
    settings = [f"{k}={v}" for k, v in jax.config.values.items() if not re.search(_NO_EFFECT, k)]
    description = _Description([_surroundings(), *sorted(settings)])
    if not isinstance(traced.jaxpr, description.core.ClosedJaxpr):
        raise TypeError("not a trace of this version of JAX")
    description.add(traced.jaxpr, {})
    return hashlib.blake2b("\0".join(description.parts).encode(), digest_size=16).hexdigest()


_GENERATOR = [Path(str(module.__file__)).read_text("utf-8") for module in (threefry, streams)]
"""A trace names the generator's functions, which are called when it is lowered."""


@functools.cache
def _surroundings() -> str:
    """Describe versions, the device and this processor."""
    device = jax.devices()[0]
    versions = [jax.__version__, version("jaxlib"), *_GENERATOR]
    versions += [device.platform, device.device_kind, device.client.platform_version]
    flags = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(("XLA", "LIBTPU"))]
    processor = [*platform.uname()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        processor = [line for line in lines if line.startswith(_PROCESSOR)]
    return repr([versions, OPTIONS, sorted(flags), processor])


_PROCESSOR = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")
_NO_EFFECT = "cache|jax_platform"  # settings that change no program
_MORE_LINALG = ("geqrf", "geqp3")  # parts of qr that JAX does not export
_DERIVATIVES = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")  # parameters that only derivatives use
_text = functools.cache(repr)


@functools.cache
def _loaded_when_lowered() -> frozenset[str]:
    """Return operations that call native code which JAX loads only when it lowers them.

    A kept program that contains one would call address 0 in a process that lowers none.
    """
    linalg = [one.name for one in vars(jax.lax.linalg).values() if hasattr(one, "bind")]
    return frozenset([*linalg, *_MORE_LINALG, "ffi_call"])


def _kept_operation(name: str) -> str:
    if name in _loaded_when_lowered():
        raise ValueError(name)
    return name


class _Description:
    """A full description of a trace, as a list of texts."""

    def __init__(self, parts: list[str]) -> None:
        from jax.extend import core

        self.parts, self.core = parts, core

    def add(self, value: Any, numbers: dict[Any, int]) -> None:
        """Add a value inside the trace; variables have no names, so they get numbers.

        Raises ValueError for code of others, and for a value without a unique description.
        """
        if isinstance(value, self.core.Var):
            self.parts.append(f"{numbers.setdefault(value, len(numbers))} {_text(value.aval)}")
        elif isinstance(value, tuple | list):
            self.parts.append(f"{type(value).__qualname__} of {len(value)}")
            for one in value:
                self.add(one, numbers)
        elif isinstance(value, self.core.Literal):
            self.add([_text(value.aval), value.val], numbers)
        elif isinstance(value, self.core.ClosedJaxpr):
            self.add([value.jaxpr, value.consts], {})
        elif isinstance(value, self.core.Jaxpr):
            self.add([value.constvars, value.invars], numbers)
            for equation in value.eqns:
                kept = [item for item in equation.params.items() if item[0] not in _DERIVATIVES]
                operation = _kept_operation(equation.primitive.name), _text(equation.ctx)
                self.add([operation, equation.invars, equation.outvars, kept], numbers)
            self.add(value.outvars, numbers)
        elif isinstance(value, np.ndarray | np.generic) or is_jax_array(value):
            array = np.asarray(value)
            self.parts.append(f"{array.dtype} {array.shape} {array.tobytes().hex()}")
        elif isinstance(value, types.FunctionType):
            name = f"{value.__module__}:{value.__qualname__}"
            if not name.startswith(("jax.", "dpframe.")) or not is_found_by_name(value):
                raise ValueError(name)
            self.parts.append(name)
        else:
            text = repr(value)
            if " at 0x" in text or "..." in text:
                raise ValueError(text)
            self.parts.append(f"{type(value).__qualname__} {text}")


@functools.cache
def compiler_options() -> dict[str, Any]:
    """Return OPTIONS, unless XLA does not know them."""
    if jax.default_backend() != "cpu":
        return {}
    try:  # a program without a kernel takes a third of the time of one that adds
        jax.jit(lambda x: x, compiler_options=OPTIONS).lower(np.float32(0)).compile()
    except Exception:  # versions raise different errors about an option that they do not know
        return {}
    return OPTIONS
