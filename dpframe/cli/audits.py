"""Commands about one audit: run it, plan it, show it again."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpframe.blame import SWITCH as TRACEBACK
from dpframe.cli.app import MISTAKE, NOT_RUN
from dpframe.cli.options import (
    Json,
    Overrides,
    PluginFiles,
    Pythons,
    Quiet,
    RecordPath,
    Seed,
    Spec,
    Trials,
    Where,
    load,
    print_json,
)
from dpframe.cli.output import results
from dpframe.cli.shards import Part, parsed, told
from dpframe.cli.signals import end_in_order
from dpframe.cli.terminal import complain, console, say, say_json
from dpframe.errors import DpframeError, OutputError

if TYPE_CHECKING:
    from dpframe.record.model import Record

Numbers = Annotated[
    bool | None,
    typer.Option(
        "--numbers/--no-numbers",
        help="Whether tables of numbers follow the map; default: if 24 cells or fewer are swept.",
        show_default=False,
    ),
]


def run(
    spec: Spec,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the record goes; default: runs/<audit name>/."),
    ] = None,
    overrides: Overrides = None,
    trials: Trials = None,
    seed: Seed = None,
    device: Where = None,
    plugin: PluginFiles = None,
    python: Pythons = None,
    resume: Annotated[
        bool,
        typer.Option("--resume/--fresh", help="Go on with what DIR holds, or discard it."),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record, and nothing else, to stdout.")
    ] = False,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Also write a report: .html, .md, .csv or .xml (JUnit). Repeatable.",
        ),
    ] = None,
    quiet: Quiet = False,
    numbers: Numbers = None,
    shard: Part = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Count on the workers of a Dask scheduler, or of local:N on N processes here.",
        ),
    ] = None,
    traceback: Annotated[
        bool,
        typer.Option("--traceback", help="Print the whole traceback of what a plugin raised."),
    ] = False,
) -> None:
    """Run an audit and report what it found.

    Exit code: 0 every expectation of the spec is met and no other claim is violated; 1 otherwise;
    2 the spec or the call is wrong; 3 a cell could not be run, or none was; 130 and 143 after an
    interruption; 70 a mistake in dpframe.
    """
    from dpframe.commands import run
    from dpframe.commands.github import announce
    from dpframe.record.verdict import exit_code
    from dpframe.report.files import formats
    from dpframe.report.progress import run_progress

    if traceback:
        os.environ[TRACEBACK] = "1"  # worker processes know it too
    display = end_in_order(functools.partial(run_progress, console(stderr=True), quiet=quiet))
    invocation = run.Invocation(out, device.value if device else None, resume, cluster)
    loaded = load(spec, overrides, trials, seed, plugin, python)
    for path in report or ():
        formats.check(path)
    if shard is not None:
        from dpframe.commands.shard import count

        if as_json or report:
            raise DpframeError("--shard judges nothing, so there is no record to print yet")
        part = parsed(shard)
        counted = count(loaded, part, invocation, display, warn=complain)
        told(counted.directory, part, counted.failed)
        raise typer.Exit(NOT_RUN if counted.failed else 0)
    record = run.run(
        loaded,
        invocation,
        display,
        warn=complain,
    )
    with contextlib.suppress(BrokenPipeError):  # who reads only the first lines, or none
        _print(record, as_json, numbers)
        results().flush()
    announce(record, os.environ, complain)
    written = _all_written(record, report or [])
    raise typer.Exit(exit_code(record) or (0 if written else MISTAKE))


def _all_written(record: Record, paths: list[Path]) -> bool:
    """Writes reports; one that cannot be written hides neither the others nor the verdict."""
    from dpframe.report.files import formats

    written = True
    for path in paths:
        try:
            formats.write(record, path)
        except OutputError as error:
            complain(str(error))
            written = False
    return written


def plan(
    spec: Spec,
    overrides: Overrides = None,
    trials: Trials = None,
    seed: Seed = None,
    plugin: PluginFiles = None,
    python: Pythons = None,
    rehearsal: Annotated[
        bool,
        typer.Option("--rehearsal/--no-rehearsal", help="Draw a little, to say how long it takes."),
    ] = True,
    as_json: Json = False,
) -> None:
    """Say what a run would do, and what it could find, without running it."""
    from dpframe.commands.plan import outlook
    from dpframe.report.terminal.plan import render_plan

    found = outlook(load(spec, overrides, trials, seed, plugin, python), rehearse=rehearsal)
    if as_json:
        print_json(found)
    else:
        render_plan(found, console())


def show(
    record: RecordPath,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record itself.")] = False,
    numbers: Numbers = None,
    notes: Annotated[
        bool, typer.Option("--notes", help="Also print what each estimator remarked.")
    ] = False,
    witness: Annotated[
        bool,
        typer.Option("--witness", help="Print the evidence of one cell as a spec of its own."),
    ] = False,
    as_test: Annotated[
        bool,
        typer.Option("--pytest", help="Print it as a test that fails while the claim is violated."),
    ] = False,
    cell: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which cell --witness and --pytest tell: its id, or its mechanism's label; "
            "default: the worst violated one.",
        ),
    ] = None,
) -> None:
    """Show the report of a run again."""
    from dpframe.record.file import read

    found = read(record)
    if witness or as_test:
        from dpframe.report import witness as told

        chosen = told.witness_of(found, cell)
        say((told.as_test if as_test else told.as_toml)(chosen, found).rstrip())
        return
    _print(found, as_json, numbers)
    if notes and not as_json:
        from dpframe.report.terminal.render import render_notes

        render_notes(found, console())


def _print(record: Record, as_json: bool, numbers: bool | None) -> None:
    if as_json:
        from dpframe.record.file import dumps

        say_json(dumps(record))
    else:
        from dpframe.report.terminal.render import render

        render(record, console(), numbers=numbers)
