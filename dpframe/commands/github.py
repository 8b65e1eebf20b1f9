"""Tells GitHub Actions what a run found, where the run is part of a job of theirs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli

from dpframe.report import github
from dpframe.report.files import markdown
from dpframe.spec.locate import Locator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpframe.record.model import Record

MOST_SUMMARY = 1 << 20
"""Bytes of a step's summary; of a longer one nothing is shown."""


def announce(record: Record, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Says annotations and adds the report to the summary of the step; elsewhere does nothing.

    Args:
        record: of a run.
        environment: environment variables.
        say: prints a line where the runner reads it; told of a summary that cannot be written too.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        file = _from_checkout(record.spec.path, environment.get("GITHUB_WORKSPACE"))
        for line in github.alarms(record, file, lines_of(record).get):
            say(line)
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        try:
            _append(record, Path(summary))
        except OSError as error:
            say(f"the summary of the step cannot be written: {error.strerror or error}")


def lines_of(record: Record) -> dict[str, int]:
    """Where in its spec each mechanism stands, by label; of one that is not found nothing."""
    try:
        spec: dict[str, Any] = tomli.loads(record.spec.text)
    except ValueError:
        return {}
    mechanisms = spec.get("mechanism")
    locator = Locator(record.spec.text.replace("\r\n", "\n"))
    found = {}
    for index, table in enumerate(mechanisms if isinstance(mechanisms, list) else []):
        label = table.get("label", table.get("use")) if isinstance(table, dict) else None
        line = locator.line(("mechanism", index))
        if isinstance(label, str) and line:
            found[label] = line
    return found


def _from_checkout(path: str, checkout: str | None) -> str:
    """A path as the runner wants it: from the root of the checkout, if it lies in there."""
    if not path or not checkout:
        return path
    full, root = os.path.abspath(path), os.path.abspath(checkout)  # noqa: PTH100  # no link
    try:
        inside = os.path.commonpath([full, root]) == root
    except ValueError:  # on different drives
        inside = False
    return Path(os.path.relpath(full, root)).as_posix() if inside else path


def _append(record: Record, summary: Path) -> None:
    there = summary.stat().st_size if summary.exists() else 0
    text = markdown.document(record, most=MOST_SUMMARY - there - 1).encode()
    with summary.open("ab") as out:
        out.write(b"\n" * bool(there) + text)
