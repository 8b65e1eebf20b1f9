"""Which suffix stands for which report, and how a report gets into its file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from dpframe.errors import OutputError
from dpframe.results import store as folder

if TYPE_CHECKING:
    from dpframe.results.model import Record


class Format(Protocol):
    """What a module of this folder offers."""

    def document(self, record: Record) -> str:
        """The whole report."""


_HOME = {
    ".html": "dpframe.report.files.html",
    ".csv": "dpframe.report.files.table",
    ".md": "dpframe.report.files.markdown",
    ".xml": "dpframe.report.files.junit",
}
"""Imported when it is asked for: what one report needs, another does not."""

SUFFIXES = tuple(_HOME)


def report_as(suffix: str, record: Record) -> str:
    """A report as text.

    Args:
        suffix: one of `SUFFIXES`.
        record: of a run.

    Raises:
        OutputError: there is no such report, or what it needs is not installed.
    """
    return _format(suffix, f"a report as {suffix}").document(record)


def check(path: Path) -> None:
    """Finds out, before a long run, whether its report could be written.

    Raises:
        OutputError: as `write`.
    """
    _format(path.suffix, str(path))
    _prepare(path)


def write(record: Record, path: Path) -> None:
    """Writes a report; the file is never half there.

    Args:
        record: of a run.
        path: its suffix says which report; folders are made.

    Raises:
        OutputError: no report has this suffix, what it needs is not installed, or the file cannot
            be written.
    """
    text = _format(path.suffix, str(path)).document(record)
    target = _prepare(path)
    try:
        folder.replace(target, text)
    except OSError as error:
        raise _refused(path, error) from error


def _format(suffix: str, asked: str) -> Format:
    home = _HOME.get(suffix.lower())
    if home is None:
        known = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise OutputError(f"{asked}: which report? Its suffix is one of {known}")
    try:
        return cast("Format", importlib.import_module(home))
    except ImportError as error:
        needs = f"{asked}: needs {error.name}, which comes with: pip install 'dpframe[report]'"
        raise OutputError(needs) from None


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
