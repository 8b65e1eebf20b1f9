"""The commands report, plot and diff."""

from pathlib import Path
from typing import Annotated

import typer

from dpframe.cli import options
from dpframe.cli.terminal import say, say_json
from dpframe.errors import DpframeError


def report(
    record: options.SubjectPath, out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")]
) -> None:
    """Write a report of a run or of scores, as a page or a table.

    Args:
        out: The report to write: .html, .md, .csv or .xml (JUnit).
    """
    from dpframe.report import made
    from dpframe.results.model import Record
    from dpframe.results.store import subject

    found = subject(record)
    made.check(out, of_scores=not isinstance(found, Record))
    made.write(found, out)


def diff(old: options.RecordPath, new: options.RecordPath, as_json: options.Json = False) -> None:
    """List the changes between two runs beyond noise.

    Exit code: 0 if no verdict got worse; 1 if one did; 2 if the call is wrong or a record cannot be
    read.
    """
    from dpframe.report import diff as reporting
    from dpframe.results.store import dumps, load

    before, after = load(old), load(new)
    found = reporting.changes(before, after)
    if as_json:
        say_json(dumps(reporting.as_json(before, after, found)))
    else:
        say("\n".join(reporting.lines(before, after, found)))
    raise typer.Exit(1 if found.worse else 0)


def plot(
    record: options.SubjectPath,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND")] = None,
    where: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None,
    panels: Annotated[list[str] | None, typer.Option("--panel", metavar="LABEL,…")] = None,
    beside: options.File = None,
) -> None:
    """Draw a figure of a record, for a paper or a web page.

    Needs matplotlib: pip install 'dpframe[plot]'. Prints a caption. The same record always gives
    the same bytes.

    Exit code: 0, or 2 if the call is wrong or this kind does not fit the record.

    Args:
        out: The figure to write: .svg, .png or .pdf. Without -o, list the kinds of figures.
        kind: Kind of figure. Default: the first that fits.
        where: Draw only these cells. KEY is mechanism, attack or estimator with a label, or a swept
            key. Repeatable; repeat a key to allow several values.
        panels: For the kind sweep: mechanisms that share a panel. Default: one panel for each
            mechanism. Repeatable.
        beside: For the kinds sweep and compositions: also draw these numbers, a CSV with the
            columns mechanism, epsilon and swept keys.
    """
    from dpframe.commands.plot import ROC, save
    from dpframe.report.figures import kinds
    from dpframe.results.model import Record
    from dpframe.results.store import subject

    if out is None:
        if kind or where or panels or beside:
            raise DpframeError("name the file of the figure with -o FILE")
        found = subject(record)
        fitting = kinds(found) if isinstance(found, Record) else {ROC: None}
        for name, reason in fitting.items():
            say(f"{name}: fits" if reason is None else f"{name}: does not fit: {reason}")
        return
    asked: dict[str, list[object]] = {}
    for text in where or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise DpframeError(f"--where {text}: should be KEY=VALUE")
        asked.setdefault(key, []).append(_value(value))
    shared = [text.split(",") for text in panels or ()]
    picture = save(record, out, kind, where=asked, panels=shared, beside=beside)
    say(f"{out}: {picture.caption}")


def _value(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text
