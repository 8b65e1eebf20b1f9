"""Entries that know their key: what is damaged, or was copied over another entry, is none."""

from __future__ import annotations

import hashlib

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
