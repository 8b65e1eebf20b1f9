"""Reports for Python, files, notebooks and GitHub Actions."""

import html
import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpframe.builtin import dpframe_reports
from dpframe.common import files
from dpframe.common.text import escape
from dpframe.errors import DpframeError, OutputError
from dpframe.report import markdown, scores
from dpframe.report.findings import outcomes
from dpframe.report.number_format import plural
from dpframe.report.verdict_text import OutcomeKind
from dpframe.results import store
from dpframe.results.model import Record, SkipRecord

MOST_ANNOTATIONS = 10  # annotations of one kind that GitHub's runner shows for a step


class Report(str):
    """A report in HTML that a notebook shows in a frame, so that their styles do not mix."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        frame = "width:100%;height:40rem;border:1px solid #888"
        source = html.escape(self, quote=True)
        return f'<iframe sandbox style="{frame}" title="report" srcdoc="{source}"></iframe>'


def report(
    record: Record | Mapping[str, Any] | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
) -> Report | None:
    """Make a report of a record.

    Args:
        record: a record as `dpframe.audit` returns it, its file, or the folder of a run; or the
            answer of `dpframe.score` or `dpframe.score_one_run`, or the file of its JSON.
        path: the file of the report. Its suffix decides the format: .html, .md, .csv, .json
            (the record itself), or .xml (JUnit, only for audits). Without a path the HTML is
            returned, which a notebook shows.

    Raises:
        RecordError: it is not a record, or it was altered.
        OutputError: no report has this suffix, a library is missing, or the file cannot be
            written.
    """
    loaded = store.subject(record)
    if path is None:
        return Report(report_as(".html", loaded))
    write(loaded, Path(path))
    return None


def report_as(suffix: str, record: Record | Mapping[str, Any], prefix: str = "") -> str:
    """Return a report of a run, or of scores made elsewhere, as text.

    The suffix is that of a built-in format or of a plugin's. Raises OutputError if there is no such
    report; its message begins with `prefix`.
    """
    if isinstance(record, Mapping):
        return scores_document(record, suffix)
    return _writer(suffix, prefix or f"a report as {suffix}")(record)


def scores_document(answer: Mapping[str, Any], suffix: str) -> str:
    """Return the answer about scores, or its JSON, as the text of a file.

    Raises OutputError if there is no such report of scores, DpframeError if it is not such an
    answer.
    """
    _check_suffix(suffix)
    try:
        if suffix.lower() == ".json":
            return store.dumps(answer)
        if suffix.lower() == ".csv":
            return scores.as_csv(answer)
        if suffix.lower() == ".md":
            return markdown.document_of(scores.parts(answer, remarks=True, every=True))
        from dpframe.report.html import scores_page  # jinja2 takes long to import

        return scores_page(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DpframeError(f"not a complete output of dpframe score: {error!r}") from None


def _check_suffix(suffix: str) -> None:
    """Raise OutputError if no report of scores has this suffix."""
    if suffix.lower() not in (".html", ".md", ".csv", ".json"):
        raise OutputError(f"{suffix or 'no suffix'}: its format must be .html, .md, .csv or .json")


def check(path: Path, *, of_scores: bool = False) -> None:
    """Raise before a long run what `write` would raise after it."""
    if of_scores:
        _check_suffix(path.suffix)
    else:
        _writer(path.suffix, str(path))
    _prepare(path)


def write(record: Record | Mapping[str, Any], path: Path) -> None:
    """Write a report of a run, or of scores made elsewhere, and replace its file as a whole.

    The suffix selects the report; missing folders are made. Raises OutputError if no report has
    this suffix, or the file cannot be written.
    """
    text = report_as(path.suffix, record, str(path))
    target = _prepare(path)
    try:
        files.replace(target, text)
    except OSError as error:
        raise _refused(path, error) from error


def _writer(suffix: str, prefix: str) -> Callable[[Record], str]:
    """Return the writer of reports with a suffix; plugins are loaded only if no built-in fits."""
    formats: dict[str, Any] = dict(dpframe_reports())
    if suffix.lower() not in formats:
        from dpframe.interfaces import registry

        formats = dict(registry.load().reports)
    if suffix.lower() not in formats:
        *first, last = formats
        known = f"{', '.join(first)} or {last}"
        raise OutputError(f"{prefix}: a report's suffix must be {known}")
    writer_or_module = formats[suffix.lower()]
    module = (
        importlib.import_module(writer_or_module)
        if isinstance(writer_or_module, str)
        else writer_or_module
    )
    writer: Callable[[Record], str] = module.document
    return writer


def _prepare(path: Path) -> Path:
    """Return the path with links resolved, and make its folder."""
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            raise OutputError(f"{path}: exists, and is not a file")
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, error) from error
    return target


def _refused(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot write the report: {error.strerror or error}")


def brief(record: Record) -> str:
    """Return the verdict and a small table in HTML."""
    from dpframe.report.html import summary  # jinja2 takes long to import

    return summary(record)


Record.in_notebooks = brief
load = store.load  # `dpframe.load` is imported from here, which gives records their HTML


def alarms(record: Record, file: str, line: Callable[[str], int | None]) -> Iterator[str]:
    """Return annotations for GitHub Actions: a line for every cell that makes the job fail.

    `file` is the path of the spec from the root of the checkout, "" if the spec was not a file.
    `line` returns the line of the spec that names a mechanism, by its label. The last of at most
    `MOST_ANNOTATIONS` annotations counts those that are left out.
    """
    alarming = [
        (cell.mechanism if isinstance(cell, SkipRecord) else cell.mechanism.label, name, message)
        for cell, name, (kind, message) in outcomes(record)
        if kind in (OutcomeKind.BROKEN, OutcomeKind.FAILED)
    ]
    if not record.cells:
        alarming.append(("", record.audit.name, "no cell was run, so nothing was tested"))
    shown = alarming if len(alarming) <= MOST_ANNOTATIONS else alarming[: MOST_ANNOTATIONS - 1]
    for label, title, message in shown:
        yield _annotation(file, line(label), title, message)
    if rest := alarming[len(shown) :]:
        labels = Counter(label for label, _, _ in rest)
        counts = ", ".join(f"{number} of {label}" for label, number in labels.most_common(5))
        more = f", and {plural(len(labels) - 5, 'other mechanism')}" if len(labels) > 5 else ""
        text = f"{len(rest)} more cells: {counts}{more}"
        yield _annotation(file, None, f"and {len(rest)} more", text)


def _annotation(file: str, line: int | None, title: str, message: str) -> str:
    def escaped(text: str, also: str = "") -> str:
        shown = escape(text, "\r\n").replace("%", "%25")
        for char in f"\r\n{also}":
            shown = shown.replace(char, f"%{ord(char):02X}")
        return shown

    properties = {"file": file, "line": str(line) if line and file else "", "title": title}
    given = (f"{key}={escaped(value, ':,')}" for key, value in properties.items() if value)
    return f"::error {','.join(given)}::{escaped(message)}"
