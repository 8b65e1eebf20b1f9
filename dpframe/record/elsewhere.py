"""Answers about scores made elsewhere, on disk: no records, but figures are drawn of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from dpframe.errors import RecordError
from dpframe.files import NotReadableError, read_regular

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = ("score", "score-one-run")
"""Their kinds."""
MOST_BYTES = 1 << 28
_BEGINS = re.compile(rb'\s*\{\s*"schema":\s*\d+,\s*"kind":\s*"score')


def answer_at(path: Path) -> dict[str, Any] | None:
    """The answer in a file, as JSON values; None where the file is something else, or not there.

    Args:
        path: of what `dpframe score --json` printed.

    Raises:
        RecordError: it begins like an answer, and is none.
    """
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            if not _BEGINS.match(file.read(200)):
                return None
        found = json.loads(read_regular(path, MOST_BYTES))
    except (OSError, NotReadableError):
        return None  # whoever reads it as a record says why
    except ValueError as error:
        raise RecordError(f"{path}: not JSON: {error}") from None
    return found if isinstance(found, dict) and found.get("kind") in ANSWERS else None
