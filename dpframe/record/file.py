"""The record of a run on disk: strict JSON, complete, and the only thing reports read."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

from dpframe.errors import OutputError, RecordError

SCHEMA = 1
NAME = "record.json"


def dumps(record: dict[str, Any]) -> str:
    """The record as strict JSON; non-finite numbers become "inf", "-inf" and "nan"."""
    return json.dumps(_strict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(record: dict[str, Any], directory: Path) -> Path:
    """Writes the record under a temporary name and renames it, so that it is never half there.

    Raises:
        OutputError: the directory cannot be written to.
    """
    target = directory / NAME
    temporary = directory / f".{NAME}.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(dumps(record))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise OutputError(f"{directory}: cannot write the record: {error.strerror}") from error
    return target


def read(path: Path) -> dict[str, Any]:
    """Reads a record.

    Args:
        path: the file, or the directory of a run.

    Raises:
        RecordError: it is not there, not JSON, or not a record this version understands.
    """
    file = path / NAME if path.is_dir() else path
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"{file}: no record there") from None
    except OSError as error:
        raise RecordError(f"{file}: cannot read it: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{file}: not a record, because it is not JSON: {error}") from error
    problem = _problem(record)
    if problem:
        raise RecordError(f"{file}: {problem}")
    found: dict[str, Any] = record
    return found


def number(value: float | str | None) -> float:
    """A number of the record as a float; None becomes NaN."""
    return math.nan if value is None else float(value)


_REQUIRED = ("spec", "environment", "seed", "plugins", "cells", "skipped", "summary")


def _problem(record: Any) -> str | None:
    if not isinstance(record, dict) or "schema" not in record:
        return "not a record of dpframe"
    if record["schema"] != SCHEMA:
        return f"record schema {record['schema']!r}; this dpframe reads {SCHEMA}"
    missing = [key for key in _REQUIRED if key not in record]
    if missing:
        return f"the record lacks {', '.join(missing)}"
    return None


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
