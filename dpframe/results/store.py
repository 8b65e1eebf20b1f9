"""Read, check and write records, and read the output of other commands.

A record that is read must agree with its digest and with the verdicts that its own numbers give.
P-values and bounds are not derived from the counts again: this would need the estimator's code,
which reading a record must never run, and its layout, which the record does not contain. The digest
finds accidents; `dpframe certify` and `dpframe verify` check a record from another source.
"""

import contextlib
import gc
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from dpframe import __version__
from dpframe.common.files import NotReadableError, read_folder, read_regular, replace
from dpframe.common.text import escape, shown
from dpframe.errors import OutputError, RecordError
from dpframe.results.model import SCHEMA, CellRecord, EstimateRecord, Record
from dpframe.results.strict_json import digest_of, profile_problem, strict
from dpframe.results.verdict import judged, surprising, totals

NAME = "record.json"
MET, UNMET, NOT_RUN = 0, 1, 3
SAME_NUMBER = 1e-9  # relative difference between two ways to compute the same
SCORE_KINDS = ("score", "score-one-run")
"""Kinds of score results, which figures and reports take like records."""
MOST_DOCUMENT_BYTES = 1 << 28  # bytes of a score result
MOST_RECORD_BYTES = 4 << 30  # Bytes of a record. A million cells take 3 GiB.
_SCORE_RESULT = re.compile(rb'\s*\{\s*"schema":\s*\d+,\s*"kind":\s*"score')
_MARKS = (b'"schema"', b'"cells"', b'"draw_group"')


def answer_at(path: Path) -> dict[str, Any] | None:
    """Return the output of `dpframe score --json` from a file, as JSON values; None if it has none.

    `path` may also be a directory that holds this file in place of a record. Raises RecordError if
    the file begins like a score result but is not JSON.
    """
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            if not _SCORE_RESULT.match(file.read(200)):
                return None
        document = json.loads(read_regular(path, MOST_DOCUMENT_BYTES))
    except (OSError, NotReadableError):
        return None  # reported when it is read as a record
    except ValueError as error:
        raise RecordError(f"{path}: not JSON: {error}") from None
    return document if isinstance(document, dict) and document.get("kind") in SCORE_KINDS else None


def dumps(record: Record | Mapping[str, Any]) -> str:
    """Return a record, or the result of another command, as strict JSON.

    Numbers that are not finite become "inf", "-inf" and "nan".
    """
    if isinstance(record, Record):
        return record.model_dump_json(indent=1, by_alias=True) + "\n"
    return json.dumps(strict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


document = dumps  # the report with the suffix .json


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
        raise RecordError(f"{file}: there is no such record") from None
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
    actual = "" if first["type"] == "missing" else f", not {shown(first['input'])}"
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"not a complete record: {place or 'the record'}: {message}{actual}{more}"


def subject(
    record: Record | Mapping[str, Any] | str | os.PathLike[str],
) -> Record | Mapping[str, Any]:
    """Return the subject of a figure or report: a record, or a score result.

    `record` is either of them, the path of one, or the directory of a run. Raises RecordError for
    anything else.
    """
    if isinstance(record, str | os.PathLike):
        return answer_at(Path(record)) or load(record)
    if isinstance(record, Mapping) and record.get("kind") in SCORE_KINDS:
        return record
    return as_record(record)


def exit_code(record: Record | Mapping[str, Any]) -> int:
    """Return the exit code of a run.

    Args:
        record: the result of `dpframe.audit`, or the content of a file of `dpframe run`.

    Returns:
        3 if a cell could not be run, or there is none; else 1 if a cell misses its expected
        verdict, is violated unexpectedly (by its draws, its stated distribution, or because its
        query exceeds its sensitivity), or was skipped although a verdict is expected; else 0.

    Raises:
        RecordError: it is not a record.
    """
    loaded = as_record(record)
    if not loaded.cells or any(cell.status == "failed" for cell in loaded.cells):
        return NOT_RUN
    unmet = any(map(surprising, loaded.cells)) or any(skip.expected for skip in loaded.skipped)
    return UNMET if unmet else MET


def disagreement(record: Record, contents: dict[str, Any]) -> str | None:
    """Return the first contradiction in a record and its JSON values; None if there is none."""
    if record.digest is None:
        return "it has no digest"
    if (problem := next(_disagreements(record), None)) is not None:
        return problem
    same = record.digest == digest_of(contents)
    return None if same else "its contents do not match its digest"


def _disagreements(record: Record) -> Iterator[str]:
    for name, number in Counter(cell.id for cell in record.cells).items():
        if number > 1:
            yield f"cell {shown(name)} occurs more than once"
    for cell in record.cells:
        for problem in _contradictions(cell):
            yield f"cell {shown(cell.id)}: {problem}"
    judged_again = judged(record.cells, record.summary.m, record.audit.multiplicity)
    same_words = record.environment.dpframe == __version__
    for cell, expected in zip(record.cells, judged_again, strict=True):
        name = shown(cell.id)
        if cell.verdict != expected.verdict:
            statement = f"its verdict is {cell.verdict}, but its numbers give {expected.verdict}"
            yield f"cell {name}: {statement}"
        if not _close(cell.p_adjusted, expected.p_adjusted):
            yield f"cell {name}: p_adjusted is {cell.p_adjusted}, not {expected.p_adjusted}"
        if same_words and cell.reason != expected.reason:
            yield f"cell {name}: its reason does not match its numbers: {expected.reason}"
    for name, value in totals(record.cells).items():
        if getattr(record.summary, name) != value:
            statement = getattr(record.summary, name)
            yield f"summary.{name} is {statement}, but its cells add up to {value}"
    tested = sum(map(_is_tested, record.cells))
    if not tested <= record.summary.m <= tested + record.summary.failed:
        yield f"summary.m is {record.summary.m}, but its cells give {tested}"


def _is_tested(cell: CellRecord) -> bool:
    """True if the cell has a claim and a certified bound, so that it has a verdict."""
    return cell.claim is not None and cell.estimate is not None and cell.estimate.certified


def _contradictions(cell: CellRecord) -> Iterator[str]:
    """Find parts of a cell that exclude each other; judges and reports rely on their absence."""
    estimate, tested = cell.estimate, _is_tested(cell)
    if (cell.status == "ok") != (estimate is not None):
        yield f"its status is {cell.status}, but it has {'an' if estimate else 'no'} estimate"
    if cell.status == "failed" and cell.reason is None:
        yield "it failed without a reason"
    for name in ("verdict", "p_adjusted", "basis"):
        if tested != (getattr(cell, name) is not None):
            yield f"it has {'no' if tested else 'a'} {name}"
    if estimate is not None:
        yield from _contradictions_of_estimate(cell, estimate)
    counted = sum(cell.trials)
    if cell.draws != (counted if cell.draw_group else 0):
        yield f"its trials add up to {counted} draws, not to {cell.draws}"
    if (cell.counts is None) != (cell.draw_group is None):
        yield "it has counts without draws, or draws without counts"
    if not _adds_up(cell):
        yield f"its counts do not add up to its trials {cell.trials}"
    if (exact := cell.exact) is not None:
        exceeding = exact.exceeding
        if bool(exceeding) != bool(exact.witnesses) or exceeding > exact.pairs:
            yield f"its query exceeds its sensitivity on {exceeding} of {exact.pairs} pairs"


def _contradictions_of_estimate(cell: CellRecord, estimate: EstimateRecord) -> Iterator[str]:
    lower, upper = estimate.epsilon_lower, estimate.epsilon_upper
    if not all(cell.trials):
        yield "it has an estimate, but no draws"
    if estimate.certified != (lower is not None):
        yield f"it is {'' if estimate.certified else 'not '}certified, but its bound is {lower}"
    if cell.p_value is None and _is_tested(cell):
        yield "it has no p-value, although its claim is tested"
    if cell.p_value is not None and not estimate.certified:
        yield "it has a p-value, although its bound is not certified"
    if lower is not None and upper is not None and not lower <= upper * (1 + 1e-6):
        yield f"its bound {lower} is above its limit {upper}"
    if (problem := profile_problem(estimate.profile_lower)) is not None:
        yield f"its profile_lower {problem}"
    if estimate.anytime != (cell.looks is None):
        yield "an anytime estimator has no looks; others do"
    if cell.looks is not None and cell.trials not in [look.trials for look in cell.looks]:
        yield f"its trials {cell.trials} are not among its looks"


def _adds_up(cell: CellRecord) -> bool:
    """True if the counts of decisions add up to the trials; other counts need not."""
    rows = cell.counts
    if rows is None or cell.statistic.get("name") != "DecisionCounts":
        return True
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 2 for r in rows):
        return False
    whole = all(type(count) is int and count >= 0 for row in rows for count in row)
    return whole and [sum(row) for row in rows] == cell.trials


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=SAME_NUMBER)
