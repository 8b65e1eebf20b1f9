"""Read and write records, and read the answers of other commands."""

import contextlib
import gc
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from dpframe.common.files import NotReadableError, read_folder, read_regular, replace
from dpframe.common.text import escape, shown
from dpframe.errors import OutputError, RecordError
from dpframe.results.consistency import disagreement
from dpframe.results.model import SCHEMA, Record
from dpframe.results.strict_json import strict

NAME = "record.json"
ANSWERS = ("score", "score-one-run")
"""Kinds of answers about scores made elsewhere, which figures and reports take like records."""
MOST_BYTES = 1 << 28  # bytes of an answer
MOST_RECORD_BYTES = 4 << 30  # Bytes of a record. A million cells take 3 GiB.
_ANSWER = re.compile(rb'\s*\{\s*"schema":\s*\d+,\s*"kind":\s*"score')
_MARKS = (b'"schema"', b'"cells"', b'"draw_group"')


def answer_at(path: Path) -> dict[str, Any] | None:
    """Return the output of `dpframe score --json` from a file, as JSON values; None if it has none.

    `path` may also be a directory that holds this file in place of a record. Raises RecordError if
    the file begins like an answer but is not JSON.
    """
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            if not _ANSWER.match(file.read(200)):
                return None
        found = json.loads(read_regular(path, MOST_BYTES))
    except (OSError, NotReadableError):
        return None  # reported when it is read as a record
    except ValueError as error:
        raise RecordError(f"{path}: not JSON: {error}") from None
    return found if isinstance(found, dict) and found.get("kind") in ANSWERS else None


def dumps(record: Record | Mapping[str, Any]) -> str:
    """Return a record, or the result of another command, as strict JSON.

    Numbers that are not finite become "inf", "-inf" and "nan".
    """
    if isinstance(record, Record):
        return record.model_dump_json(indent=1, by_alias=True) + "\n"
    return json.dumps(strict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(record: Record, directory: Path) -> Path:
    """Write the record of a run; raises OutputError if the directory cannot be written to."""
    target = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        replace(target, dumps(record))
    except OSError as error:
        raise OutputError(f"{directory}: cannot write the record: {error.strerror}") from error
    return target


def set_aside(directory: Path) -> Path | None:
    """Rename a file that has the record's name but was written by no run; return its new path.

    Returns None if the file may be a damaged record, or cannot be read.
    """
    file = directory / NAME
    try:
        content = read_folder(file)
    except OSError:
        return None
    if not content.strip() or any(mark in content for mark in _MARKS):
        return None
    number = 1
    while (kept := directory / f"{NAME}.kept-{number}").exists():
        number += 1
    file.rename(kept)
    return kept


def load(path: str | os.PathLike[str]) -> Record:
    """Read a record that a run has written, and check it for contradictions.

    Args:
        path: the file, or the directory of a run.

    Raises:
        RecordError: there is no such file, it is not a record that this version understands, or it
            was altered.
    """
    file = Path(path)
    file = file / NAME if file.is_dir() else file
    try:
        content = read_regular(file, MOST_RECORD_BYTES)
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
    """Suspend the garbage collector, which takes half of the time of millions of new objects."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def as_record(contents: Any, content: bytes | None = None) -> Record:
    """Return a record from its JSON values; numbers that are not finite may be floats.

    `content` is the JSON text of the same values, if known. Raises RecordError if they are not a
    record that this version understands.
    """
    if isinstance(contents, Record):
        return contents
    if not isinstance(contents, Mapping) or "schema" not in contents:
        raise RecordError("not a record of dpframe")
    if kind := contents.get("kind"):
        raise RecordError(f"the output of another command ({shown(kind)}), not the record of a run")
    if contents["schema"] != SCHEMA or isinstance(contents["schema"], bool):
        raise RecordError(f"record schema {shown(contents['schema'])}; this dpframe reads {SCHEMA}")
    try:
        return Record.model_validate_json(content or dumps(contents))
    except ValidationError as error:
        raise RecordError(_first_problem(error)) from None
    except (TypeError, ValueError) as error:  # ValidationError is a ValueError too
        raise RecordError(f"not a record, because it is not JSON: {error}") from None


def _first_problem(error: ValidationError) -> str:
    """Return the first mistake and its place."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
    more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    place = escape(place.lstrip("."))
    given = "" if first["type"] == "missing" else f", not {shown(first['input'])}"
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"not a complete record: {place or 'the record'}: {message}{given}{more}"


def subject(
    record: Record | Mapping[str, Any] | str | os.PathLike[str],
) -> Record | Mapping[str, Any]:
    """Return the subject of a figure or report: a record, or an answer about scores.

    `record` is either of them, the path of one, or the directory of a run. Raises RecordError for
    anything else.
    """
    if isinstance(record, str | os.PathLike):
        return answer_at(Path(record)) or load(record)
    if isinstance(record, Mapping) and record.get("kind") in ANSWERS:
        return record
    return as_record(record)
