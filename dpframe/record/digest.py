"""A hash of a record's contents: an edit that forgets it is noticed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

FIELD = "digest"


def digest_of(contents: dict[str, Any]) -> str:
    """Hash of everything in a record but the digest itself.

    Anyone can compute it anew. It shows accidents and careless edits, not forgery: against that,
    a record can be run again.

    Args:
        contents: the record as JSON values, non-finite numbers in words.
    """
    rest = {key: value for key, value in contents.items() if key != FIELD}
    written = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(written.encode()).hexdigest()
