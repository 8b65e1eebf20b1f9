"""Commands about records: a report of one, the difference between two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpframe.cli.options import Json, RecordPath
from dpframe.cli.terminal import say, say_json


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


def diff(
    old: RecordPath,
    new: RecordPath,
    as_json: Json = False,
) -> None:
    """Say what changed between two runs beyond noise: verdicts, bounds, claims.

    Exit code: 0 no verdict got worse; 1 one did; 2 the call is wrong or a record cannot be read.
    """
    from dpframe.record.file import dumps, read
    from dpframe.report.diff import told
    from dpframe.report.diff.changes import changes

    before, after = read(old), read(new)
    found = changes(before, after)
    if as_json:
        say_json(dumps(told.as_json(before, after, found)))
    else:
        say("\n".join(told.lines(before, after, found)))
    raise typer.Exit(1 if found.worse else 0)
