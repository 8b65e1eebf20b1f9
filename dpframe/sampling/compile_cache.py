"""Compile programs for the device, and keep them between runs.

JAX's own cache finds a program by its lowered form, and lowering is most of the cost of a program
that is compiled already: 15 to 30 ms each, because the rounds of the generator are unrolled.
`CompiledProgram` finds it by its traced form, which takes 2 to 6 ms. The key describes every
operation, constant and setting of the trace, so it covers code that was replaced in memory and code
of any plugin. A trace that cannot be described in full has no key, and JAX's cache serves it.
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
import zlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from dpframe.common.arrays import is_jax_array, jax
from dpframe.common.files import write_whole
from dpframe.sampling import address, threefry
from dpframe.sampling.content import is_found_by_name

SWITCH = "DPFRAME_CACHE"
"""Environment variable: a directory, or "off". Default: the user's cache directory."""

QUIET = (0, 10, 2)
"""The first version of JAX in which XLA loads a program silently. Before, on recent processors, it
printed lists of their features, two thousand characters long, for every program."""

_kept_in: list[Path] = []  # the directory of programs, if they are kept


def keep_compiled_programs(warn: Callable[[str], None] = lambda _: None) -> Path | None:
    """Keep compiled programs from now on, unless JAX has a directory for them already.

    Return the directory, None if nothing is kept; `warn` receives the reason if it is unsafe.
    """
    wanted = os.environ.get(SWITCH, "")
    has_its_own = jax.config.values["jax_compilation_cache_dir"]
    if wanted.lower() in ("off", "0") or has_its_own or jax.__version_info__ < QUIET:
        return None
    directory = Path(wanted) if wanted else Path(platformdirs.user_cache_dir("dpframe")) / "jax"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return None  # a cache is a convenience
    problem = None  # a reason why a program from this directory should not be run
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        problem = "belongs to another user"
    elif hasattr(os, "geteuid") and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = "others can write to it"
    if problem:
        warn(f"{directory}: {problem}; compiled programs are not cached")
    if problem or not os.access(directory, os.W_OK):
        return None
    for name, value in (
        ("jax_compilation_cache_dir", str(directory)),
        ("jax_persistent_cache_min_compile_time_secs", 0.0),
        ("jax_persistent_cache_min_entry_size_bytes", 0),
    ):
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    _kept_in[:] = [directory]
    return directory


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
        self._loaded: dict[Any, Any] = {}
        self._locks: dict[Any, threading.Lock] = {}

    def __call__(self, *args: Any, **static: Any) -> Any:
        usual = jax.default_backend() == "cpu" and len(jax.devices()) == 1
        if not _kept_in or not usual or not static.keys() <= set(self._static):
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
        return jax.jit(
            self._function, static_argnames=self._static, compiler_options=compiler_options()
        )

    def programs(self) -> int:
        """Return the number of programs that it has been compiled to."""
        return int(self._jitted._cache_size()) + len(self._loaded)

    def _load_or_compile(self, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        traced = self._jitted.trace(*args, **static)
        try:
            file = _kept_in[0] / f"{_key(traced)}-program"
        except _UnknownError:
            return traced.lower().compile()
        from jax.experimental.serialize_executable import deserialize_and_load, serialize

        structures = jax.tree.structure((args, {})), jax.tree.structure(traced.out_info)
        with contextlib.suppress(Exception):  # none yet, or none that this version can load
            return deserialize_and_load(zlib.decompress(file.read_bytes()), *structures)
        before = _found_by_jax().number
        program = traced.lower().compile()
        if _found_by_jax().number == before:
            with contextlib.suppress(Exception):  # a program that cannot be kept still runs
                write_whole(file, zlib.compress(serialize(program)[0], 1))
        return program


class _FoundByJax(threading.local):
    """Counts the programs of a thread from JAX's cache; written again, they lack functions."""

    number = 0

    def listen(self, event: str, **_: Any) -> None:
        self.number += event == "/jax/compilation_cache/cache_hits"


@functools.cache
def _found_by_jax() -> _FoundByJax:
    found = _FoundByJax()
    jax.monitoring.register_event_listener(found.listen)
    return found


# The key of a program.


class _UnknownError(Exception):
    """A trace contains something that a key would not cover."""


def _key(traced: Any) -> str:
    """Return a digest of a trace and of everything that lowers and compiles it."""
    settings = [f"{k}={v}" for k, v in jax.config.values.items() if not re.search(_NO_EFFECT, k)]
    description = _Description([_surroundings(), *sorted(settings)])
    description.add(traced.jaxpr, {})
    return hashlib.blake2b("\0".join(description.parts).encode(), digest_size=16).hexdigest()


_GENERATOR = [Path(str(module.__file__)).read_text("utf-8") for module in (threefry, address)]
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
        described = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")
        processor = [line for line in lines if line.startswith(described)]
    return repr([versions, compiler_options(), sorted(flags), processor])


_NO_EFFECT = "cache|jax_platform"  # settings that change no program
_DERIVATIVES = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")  # parameters that only derivatives use
_text = functools.cache(repr)


class _Description:
    """A full description of a trace, as a list of texts."""

    def __init__(self, parts: list[str]) -> None:
        from jax.extend import core

        self.parts, self.core = parts, core

    def add(self, value: Any, numbers: dict[Any, int]) -> None:
        """Add a value inside the trace; variables have no names, so they get numbers.

        Raises _UnknownError for code of others, and for a value without a unique description.
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
                self.add([equation.primitive.name, equation.invars, equation.outvars], numbers)
                self.add(kept, numbers)
            self.add(value.outvars, numbers)
        elif isinstance(value, np.ndarray | np.generic) or is_jax_array(value):
            array = np.asarray(value)
            self.parts.append(f"{array.dtype} {array.shape} {array.tobytes().hex()}")
        elif isinstance(value, types.FunctionType):
            name = f"{value.__module__}:{value.__qualname__}"
            if not name.startswith(("jax.", "dpframe.")) or not is_found_by_name(value):
                raise _UnknownError(name)
            self.parts.append(name)
        else:
            text = repr(value)
            if " at 0x" in text or "..." in text:
                raise _UnknownError(text)
            self.parts.append(f"{type(value).__qualname__} {text}")


@functools.cache
def compiler_options() -> dict[str, Any]:
    """Return options for every program: 512-bit vectors if XLA has them.

    LLVM prefers 256 bits on every CPU; these loops run up to 1.9 times as fast with 512. A
    processor without them ignores the option; a version of XLA that does not know it raises.
    """
    if jax.default_backend() != "cpu":
        return {}
    options: dict[str, Any] = {"xla_cpu_prefer_vector_width": 512}
    try:  # a program without a kernel takes a third of the time of one that adds
        jax.jit(lambda x: x, compiler_options=options).lower(np.float32(0)).compile()
    except Exception:  # versions raise different errors about an option that they do not know
        return {}
    return options
