"""A digest of the code behind a plugin, so that old counts are not taken for those of new code."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sys
from pathlib import Path


def code_digest(cls: type) -> str:
    """Digest of the Python files of the package that defines a class.

    A class from a single module is known by that module, one from a notebook by its own source.
    What a plugin imports from elsewhere is not part of it.

    Returns:
        Hex digits; other ones in every process where there is no source to read.
    """
    top = sys.modules.get(cls.__module__.partition(".")[0])
    try:
        if top is None or cls.__module__ == "__main__":
            return _hash(inspect.getsource(cls).encode())
        folders = getattr(top, "__path__", None)
        return _digest_of(tuple(folders) if folders else (inspect.getfile(cls),))
    except (OSError, TypeError):
        return _UNKNOWN


_UNKNOWN = os.urandom(8).hex()


@functools.cache
def _digest_of(places: tuple[str, ...]) -> str:
    files = [
        file
        for place in map(Path, places)
        for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    ]
    return _hash(*(part for file in files for part in (file.name.encode(), file.read_bytes())))


def _hash(*parts: bytes) -> str:
    hasher = hashlib.blake2b(digest_size=8)
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()
