"""Reports for Python, notebooks and GitHub Actions."""

from __future__ import annotations

import html
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.common.text import escape
from dpframe.report import sentences
from dpframe.report.files import formats
from dpframe.report.group import called_place, called_skipped, repeated
from dpframe.report.sentences import Kind, outcome, skipped
from dpframe.results import store as records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dpframe.results.model import Record


# Reports for who works in Python: as a file, as a value, as what a notebook shows.


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


# What a job of GitHub Actions is told: annotations, as lines that its runner reads.


MOST = 10
"""The runner shows no more of one kind in a step."""

_ALARMING = (Kind.BROKEN, Kind.FAILED)


def alarms(
    record: Record, file: str, line: Callable[[str], int | None], most: int = MOST
) -> Iterator[str]:
    """A line for every cell that makes the job fail, as long as they are few.

    A violation that the spec expects is none of them.

    Args:
        record: of a run.
        file: path of the spec from the root of the checkout; "" if it was no file.
        line: where in the spec a mechanism stands, by its label.
        most: annotations, the last of which counts those that are left out.
    """
    found = list(_alarms(record))
    shown = found if len(found) <= most else found[: most - 1]
    for label, title, message in shown:
        yield _command(file, line(label), title, message)
    if rest := found[len(shown) :]:
        labels = Counter(label for label, _, _ in rest)
        of = ", ".join(f"{number} of {label}" for label, number in labels.most_common(5))
        more = f", and {len(labels) - 5} other mechanisms" if len(labels) > 5 else ""
        yield _command(file, None, f"and {len(rest)} more", f"{len(rest)} more cells: {of}{more}")


def _alarms(record: Record) -> Iterator[tuple[str, str, str]]:
    """Label of the mechanism, title and message of each."""
    several = repeated(record.cells)
    for cell in record.cells:
        kind, message = outcome(cell)
        if kind in _ALARMING:
            yield cell.mechanism.label, called_place(cell, repeated=several), message
    for skip in record.skipped:
        kind, message = skipped(skip)
        if kind in _ALARMING:
            yield skip.mechanism, called_skipped(skip), message
    if not record.cells:
        yield "", record.audit.name, "no cell was run, so nothing was tested"


def _command(file: str, line: int | None, title: str, message: str) -> str:
    properties = {"file": file, "line": str(line) if line and file else "", "title": title}
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::error {given}::{_data(message)}"


def _data(text: str) -> str:
    shown = escape(text, "\r\n")
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
