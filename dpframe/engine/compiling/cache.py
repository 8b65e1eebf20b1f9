"""Compiled programs on disk: native code that will be run, so nobody else may write it."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import platformdirs

from dpframe.engine.compiling.executables import ANEW, keep_executables
from dpframe.engine.compiling.ingredients import forget
from dpframe.engine.compiling.sealed import sealed, unsealed

if TYPE_CHECKING:
    from collections.abc import Callable

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
