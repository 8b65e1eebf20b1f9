"""Compiled programs on disk, so that the second run of a spec starts at once."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import platformdirs

SWITCH = "DPFRAME_CACHE"
"""Environment variable: a directory, or "off". Default: the user's cache directory."""


def keep_compiled_programs() -> Path | None:
    """Makes JAX keep what it compiles; a directory that JAX was given already stays.

    Returns:
        The directory; None if nothing is kept.
    """
    wanted = os.environ.get(SWITCH, "")
    if wanted.lower() in ("off", "0") or jax.config.values["jax_compilation_cache_dir"]:
        return None
    directory = Path(wanted) if wanted else Path(platformdirs.user_cache_dir("dpframe")) / "jax"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # a cache is a convenience
    if not os.access(directory, os.W_OK):
        return None
    for name, value in (
        ("jax_compilation_cache_dir", str(directory)),
        ("jax_persistent_cache_min_compile_time_secs", 0.0),
        ("jax_persistent_cache_min_entry_size_bytes", 0),
    ):
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    return directory
