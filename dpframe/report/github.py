"""What a job of GitHub Actions is told: annotations, as lines that its runner reads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dpframe.printable import printable
from dpframe.report.outcome import Kind, outcome, skipped
from dpframe.report.place import called, called_skipped, repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpframe.record.model import Record

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
            yield cell.mechanism.label, called(cell, repeated=several), message
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
    shown = printable(text, "\r\n")
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
