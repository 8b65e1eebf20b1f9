"""The commands report, plot and diff."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpframe.cli.options import Json, RecordPath
from dpframe.cli.terminal import say, say_json
from dpframe.errors import DpframeError


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
    from dpframe.report.files import formats
    from dpframe.results.store import read

    formats.check(out)
    formats.write(read(record), out)


def diff(old: RecordPath, new: RecordPath, as_json: Json = False) -> None:
    """Say what changed between two runs beyond noise: verdicts, bounds, claims.

    Exit code: 0 no verdict got worse; 1 one did; 2 the call is wrong or a record cannot be read.
    """
    from dpframe.report import diff as reporting
    from dpframe.results.store import dumps, read

    before, after = read(old), read(new)
    found = reporting.changes(before, after)
    if as_json:
        say_json(dumps(reporting.as_json(before, after, found)))
    else:
        say("\n".join(reporting.lines(before, after, found)))
    raise typer.Exit(1 if found.worse else 0)


def plot(
    record: Annotated[
        Path,
        typer.Argument(
            help="A record, the directory of a run, or what `dpframe score --json` printed.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where the figure goes: .svg, .png or .pdf. Without it the kinds are listed.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Kind of figure; default: the first that fits."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Only these cells: mechanism, attack or estimator and a label, or a swept key "
            "and a value. Repeatable; one key with several values means any of them.",
        ),
    ] = None,
    panels: Annotated[
        list[str] | None,
        typer.Option(
            "--panel",
            metavar="LABEL,…",
            help="Of the kind sweep: mechanisms that share a panel. Repeatable; default: a panel "
            "for each mechanism.",
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of the kinds sweep and compositions: a CSV of numbers from elsewhere, to be "
            "drawn too. Columns mechanism, epsilon and swept keys.",
        ),
    ] = None,
) -> None:
    """Draw a figure of a record, for a paper or a page.

    Needs matplotlib: pip install 'dpframe[plot]'. The same record gives the same bytes. Prints a
    caption.

    Exit code: 0, or 2 if the call is wrong or the record cannot be drawn so.
    """
    from dpframe.commands.plot import ROC, save, subject
    from dpframe.report.figures import kinds
    from dpframe.results.model import Record

    if out is None:
        if kind or where or panels or beside:
            raise DpframeError("say with -o FILE where the figure goes")
        found = subject(record)
        fitting = kinds(found) if isinstance(found, Record) else {ROC: None}
        for name, reason in fitting.items():
            say(f"{name}: fits" if reason is None else f"{name}: does not fit: {reason}")
        return
    asked: dict[str, list[object]] = {}
    for text in where or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise DpframeError(f"--where {text}: KEY=VALUE is wanted")
        asked.setdefault(key, []).append(_value(value))
    shared = [text.split(",") for text in panels or ()]
    picture = save(record, out, kind, where=asked, panels=shared, beside=beside)
    say(f"{out}: {picture.caption}")


def _value(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text
