"""Report formats by suffix, and the files that reports are written to."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.builtin import dpframe_reports
from dpframe.common import files
from dpframe.errors import OutputError
from dpframe.report.files import scores

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.results.model import Record


def report_as(suffix: str, record: Record | Mapping[str, Any]) -> str:
    """Return a report of a run, or of scores made elsewhere, as text.

    The suffix is that of a built-in format, or of one that a plugin provides. Raises
    OutputError if there is no such report.
    """
    if isinstance(record, Mapping):
        return scores.document(record, suffix)
    return _writer(suffix, f"a report as {suffix}")(record)


def check(path: Path, *, of_scores: bool = False) -> None:
    """Find out, before a long run, if its report could be written; raise as `write` does."""
    if of_scores:
        scores.check(path.suffix)
    else:
        _writer(path.suffix, str(path))
    _prepare(path)


def write(record: Record | Mapping[str, Any], path: Path) -> None:
    """Write a report of a run, or of scores made elsewhere; the file is never half there.

    The suffix says which report; folders are made. Raises OutputError if no report has this
    suffix, or the file cannot be written.
    """
    if isinstance(record, Mapping):
        text = scores.document(record, path.suffix)
    else:
        text = _writer(path.suffix, str(path))(record)
    target = _prepare(path)
    try:
        files.replace(target, text)
    except OSError as error:
        raise _refused(path, error) from error


def _writer(suffix: str, asked: str) -> Callable[[Record], str]:
    """Return the function that writes reports with a suffix; plugins load for others' alone."""
    formats: dict[str, Any] = dict(dpframe_reports())
    if suffix.lower() not in formats:
        from dpframe.interfaces import registry

        formats = dict(registry.load().reports)
    if suffix.lower() not in formats:
        *first, last = formats
        known = f"{', '.join(first)} or {last}"
        raise OutputError(f"{asked}: which report? Its suffix is one of {known}")
    found = formats[suffix.lower()]
    module = importlib.import_module(found) if isinstance(found, str) else found
    writer: Callable[[Record], str] = module.document
    return writer


def _prepare(path: Path) -> Path:
    """The file itself, whatever link leads there, in a folder that exists."""
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            raise OutputError(f"{path}: is there, and is no file")
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, error) from error
    return target


def _refused(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot write the report: {error.strerror or error}")
