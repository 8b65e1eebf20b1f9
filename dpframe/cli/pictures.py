"""Figures of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpframe.cli.terminal import say
from dpframe.errors import DpframeError


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

    Needs matplotlib: pip install 'dpframe[plot]'. The same record gives the same bytes. What is
    printed is a caption.

    Exit code: 0, or 2 if the call is wrong or the record cannot be drawn so.
    """
    from dpframe.commands.plot import ROC, save, subject
    from dpframe.record.model import Record
    from dpframe.report.figures import kinds

    if out is None:
        if kind or where or panels or beside:
            raise DpframeError("say with -o FILE where the figure goes")
        found = subject(record)
        fitting = kinds(found) if isinstance(found, Record) else {ROC: None}
        for name, reason in fitting.items():
            say(f"{name}: fits" if reason is None else f"{name}: does not fit: {reason}")
        return
    asked: dict[str, object] = {}
    for text in where or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise DpframeError(f"--where {text}: KEY=VALUE is wanted")
        known = asked.setdefault(key, [])
        assert isinstance(known, list)
        known.append(_value(value))
    shared = [text.split(",") for text in panels or ()]
    picture = save(record, out, kind, where=asked, panels=shared, beside=beside)
    say(f"{out}: {picture.caption}")


def _value(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text
