"""The record of a run on disk: strict JSON, complete, and the only thing reports read."""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from dpframe.errors import OutputError, RecordError
from dpframe.files import NotReadableError, read_regular
from dpframe.printable import printable
from dpframe.record import folder
from dpframe.record.consistency import disagreement
from dpframe.record.model import Record
from dpframe.record.model.record import SCHEMA
from dpframe.record.model.values import strict
from dpframe.record.old import upgraded
from dpframe.record.plain import shown

NAME = "record.json"

MOST_BYTES = 4 << 30
"""A million cells have 3 GiB."""


def dumps(record: Record | Mapping[str, Any]) -> str:
    """A record as strict JSON; non-finite numbers become "inf", "-inf" and "nan".

    Args:
        record: of a run, or what another command found.
    """
    if isinstance(record, Record):
        return record.model_dump_json(indent=1, by_alias=True) + "\n"
    return json.dumps(strict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(record: Record, directory: Path) -> Path:
    """Writes the record under a temporary name and renames it, so that it is never half there.

    Raises:
        OutputError: the directory cannot be written to.
    """
    target = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        folder.replace(target, dumps(record))
    except OSError as error:
        raise OutputError(f"{directory}: cannot write the record: {error.strerror}") from error
    return target


_MARKS = (b'"schema"', b'"cells"', b'"draw_group"')


def set_aside(directory: Path) -> Path | None:
    """Renames what lies in the place of the record, if a run did not write it.

    Returns:
        Its new place; None if it may be a record, however damaged.
    """
    file = directory / NAME
    try:
        content = folder.read(file)
    except OSError:
        return None
    if not content.strip() or any(mark in content for mark in _MARKS):
        return None
    number = 1
    while (kept := directory / f"{NAME}.kept-{number}").exists():
        number += 1
    file.rename(kept)
    return kept


def read(path: Path) -> Record:
    """Reads a record and makes sure that it agrees with itself.

    Args:
        path: the file, or the directory of a run.

    Raises:
        RecordError: it is not there, not JSON, not a record that this version understands, or was
            altered after it was written.
    """
    file = path / NAME if path.is_dir() else path
    try:
        content = read_regular(file, MOST_BYTES)
    except FileNotFoundError:
        raise RecordError(f"{file}: no record there") from None
    except IsADirectoryError:
        raise RecordError(f"{file}: is a directory; a record is a JSON file") from None
    except NotReadableError as error:
        raise RecordError(f"{file}: {error}") from error
    with _no_collection():
        try:
            contents = from_json(content, allow_inf_nan=False)
        except ValueError as error:
            raise RecordError(f"{file}: not a record, because it is not JSON: {error}") from None
        try:
            record = as_record(contents, content)
        except RecordError as error:
            raise RecordError(f"{file}: {error}") from None
        if problem := disagreement(record, contents):
            raise RecordError(f"{file}: altered after it was written: {problem}")
    return record


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps Python from looking for garbage among millions of new objects: half of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def as_record(contents: Any, content: bytes | None = None) -> Record:
    """A record from the dictionaries that it is made of.

    Args:
        contents: JSON values; numbers that are not finite may be floats.
        content: the same as text, if there is such a text.

    Raises:
        RecordError: it is no record, or not one that this version understands.
    """
    if isinstance(contents, Record):
        return contents
    if not isinstance(contents, Mapping) or "schema" not in contents:
        raise RecordError("not a record of dpframe")
    if kind := contents.get("kind"):
        raise RecordError(f"what another command wrote ({shown(kind)}), not the record of a run")
    if contents["schema"] != SCHEMA or isinstance(contents["schema"], bool):
        raise RecordError(f"record schema {shown(contents['schema'])}; this dpframe reads {SCHEMA}")
    try:
        return upgraded(Record.model_validate_json(content or dumps(contents)))
    except ValidationError as error:
        raise RecordError(_first_problem(error)) from None
    except (TypeError, ValueError) as error:  # ValidationError is a ValueError too
        raise RecordError(f"not a record, because it is not JSON: {error}") from None


def _first_problem(error: ValidationError) -> str:
    """Where the first mistake stands and what it is."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
    more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    place = printable(place.lstrip("."))
    given = "" if first["type"] == "missing" else f", not {shown(first['input'])}"
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"not a whole record: {place or 'the record'}: {message}{given}{more}"
