"""Reports for who works in Python: as a file, as a value, as what a notebook shows."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.record import file as records
from dpframe.report import sentences
from dpframe.report.files import formats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.record.model import Record


class Report(str):
    """A report in HTML; a notebook shows it, in a frame so that neither alters the other."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        frame = "width:100%;height:40rem;border:1px solid #888"
        source = html.escape(self, quote=True)
        return f'<iframe sandbox style="{frame}" title="report" srcdoc="{source}"></iframe>'


def report(
    record: Record | Mapping[str, Any] | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
) -> Report | None:
    """Makes a report of a record.

    Args:
        record: what `dpframe.audit` returns, or a record's file, or the folder of a run.
        path: where the report goes. Its suffix says which one: .html, .md, .csv or .xml (JUnit).
            Without it the HTML comes back, which a notebook shows.

    Raises:
        RecordError: it is no record, or was altered.
        OutputError: no report has this suffix, what it needs is not installed, or the file cannot
            be written.
    """
    if isinstance(record, str | os.PathLike):
        found = records.read(Path(record))
    else:
        found = records.as_record(record)
    if path is None:
        return Report(formats.report_as(".html", found))
    formats.write(found, Path(path))
    return None


def brief(record: Record) -> str:
    """The verdict and a small table in HTML; without jinja2 the verdict alone."""
    try:
        from dpframe.report.files.html import summary
    except ImportError:
        return f"<p>{html.escape(str(sentences.verdict(record)))}</p>"
    return summary(record)
