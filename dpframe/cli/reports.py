"""Commands about records: a report of one, the difference between two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpframe.cli.options import RecordPath


def report(
    record: RecordPath,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The report; .html, .md, .csv or .xml (JUnit) says which.",
            show_default=False,
        ),
    ],
) -> None:
    """Write a report of a run: a page, a table, or what CI shows as tests."""
    from dpframe.record.file import read
    from dpframe.report.files import formats

    formats.check(out)
    formats.write(read(record), out)
