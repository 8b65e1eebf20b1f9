"""The commands run, plan, check, show, merge."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpframe.cli import options
from dpframe.cli.app import MISTAKE, NOT_RUN
from dpframe.cli.process import progress_display
from dpframe.cli.terminal import complain, console, print_json, results, say
from dpframe.common.notifier import notified
from dpframe.common.text import SWITCH as TRACEBACK
from dpframe.errors import DpframeError, OutputError

if TYPE_CHECKING:
    from dpframe.draw.streams import Shard
    from dpframe.results.model import Record


BROKEN = 1  # exit code if a plugin breaks a promise


def check(
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC")] = None,
    overrides: options.Overrides = None,
    trials: options.Trials = None,
    seed: options.Seed = None,
    plugin: Annotated[
        list[str] | None, typer.Option(metavar="NAME|FILE.py", autocompletion=options.plugin_names)
    ] = None,
    python: options.Pythons = None,
    allow_command: options.AllowCommand = False,
    as_json: options.Json = False,
) -> None:
    """Check a spec, and list every mistake with file and line.

    An expectation that no cell can meet is also a mistake. With --plugin and without a spec, check
    plugins instead.

    Exit code: 0; 1 if a plugin breaks a promise; 2 if the spec or the call is wrong.

    Args:
        spec: The audit: a TOML file.
        plugin: With a spec: run this Python file and use its plugins. Repeatable. Without a spec:
            check that the plugin NAME, or every plugin in FILE.py, does what its kind requires.
            --set then sets its parameters, and mechanism.use and pair.use.
    """
    given = plugin or []
    files = [Path(one) for one in given if one.endswith(".py")]
    names = [one for one in given if not one.endswith(".py")]
    if spec is not None and not names and not as_json:
        _check_spec(spec, options.load(spec, overrides, trials, seed, files, python, allow_command))
        return
    if spec is not None or len(names) > 1 or not given:
        raise DpframeError(
            "give either a spec or --plugin NAME (with a spec, --plugin takes files, FILE.py); "
            "--json works only with the latter"
        )
    if trials is not None or seed is not None:
        raise DpframeError("--trials and --seed need a spec")
    from dpframe.commands.check import as_json as plain, conformance
    from dpframe.report.terminal.plugins import render_conformance

    conformances = conformance(names[0] if names else None, overrides or (), files)
    if as_json:
        print_json(plain(conformances))
    else:
        for one in conformances:
            render_conformance(one, console())
    if not all(one.kept for one in conformances):
        raise typer.Exit(BROKEN)


def _check_spec(spec: Path, loaded: Any) -> None:
    from dpframe.commands.check import check as check_expectations

    size = check_expectations(loaded)
    skipped = f", {len(loaded.skipped)} skipped" if loaded.skipped else ""
    takes = f"; takes about {size / 2**20:,.0f} MiB of memory"
    say(f"{spec}: {len(loaded.cells)} cells{skipped}; no mistakes found{takes}")
    for reason, number in Counter(skip.reason for skip in loaded.skipped).items():
        say(f"   {number} skipped: {reason}")


MOST_SHARDS = 1_000_000  # shards of one run


def _shard(text: str) -> Shard:
    """Parse I/N as a shard; raise DpframeError if this fails."""
    from dpframe.draw.streams import Shard

    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= MOST_SHARDS:
        raise DpframeError(
            f"--shard {text}: should be the number of the shard and of all shards, such as "
            "3/16; the first is 1/16"
        )
    return Shard(int(match[1]), int(match[2]))


def merge(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR…")],
    out: Annotated[Path, typer.Option(metavar="DIR")],
    spec: options.File = None,
    plugin: options.PluginFiles = None,
    python: options.Pythons = None,
    allow_command: options.AllowCommand = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Combine the shards of a run and report the verdicts.

    Counts and verdicts equal those of a single run. Shards of different specs, seeds or code,
    duplicates and missing shards are rejected. The exit codes are those of run.

    Args:
        directories: The directories of all shards, in any order.
        out: Directory for the record.
        spec: The spec. Default: its path when the shards were counted.
    """
    from dpframe.commands import shard
    from dpframe.results.store import exit_code

    display = progress_display(quiet=quiet)
    load = partial(options.load, files=plugin, pythons=python, allow_command=allow_command)
    record = shard.merge(directories, out, spec, display, load, complain)
    with contextlib.suppress(BrokenPipeError):
        _print(record, as_json, False)
        results().flush()
    raise typer.Exit(exit_code(record))


Numbers = Annotated[
    bool,
    typer.Option(
        "--numbers/--no-numbers",
        help="Print a table of numbers after the map. Cells without a map are always in one.",
        show_default=False,
    ),
]


def run(
    spec: options.Spec,
    out: options.Folder = None,
    overrides: options.Overrides = None,
    trials: options.Trials = None,
    seed: options.Seed = None,
    device: options.Where = None,
    plugin: options.PluginFiles = None,
    python: options.Pythons = None,
    allow_command: options.AllowCommand = False,
    resume: Annotated[bool, typer.Option("--resume/--fresh")] = True,
    as_json: options.Json = False,
    report: Annotated[list[Path] | None, typer.Option(metavar="FILE")] = None,
    quiet: options.Quiet = False,
    numbers: Numbers = False,
    shard: Annotated[str | None, typer.Option(metavar="I/N")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    blocks: Annotated[int, typer.Option(metavar="N", min=0, max=10**6)] = 0,
    notify: Annotated[str | None, typer.Option(metavar="COMMAND")] = None,
    traceback: Annotated[bool, typer.Option("--traceback")] = False,
) -> None:
    """Run an audit and report the verdicts.

    Exit code: 0 if every expectation of the spec is met and no other claim is violated; 1 if not;
    2 if the spec or the call is wrong; 3 if a cell could not be run, or none was; 130 or 143 after
    an interruption; 70 after a mistake in dpframe.

    Args:
        out: Directory for the record. Default: runs/<audit name>/.
        resume: Continue from the counts in DIR, or discard them.
        report: Also write a report: .html, .md, .csv, .json or .xml (JUnit). Repeatable.
        shard: Count only part I of N equal parts of the draws. Combine them with dpframe merge.
        cluster: Count on a Dask scheduler's workers.
        blocks: Keep the counts of N parts of the draws, for dpframe verify to draw again.
        notify: Run this command at the end, without a shell; it has the outcome on standard input.
        traceback: Print full tracebacks of exceptions in plugins.
    """
    from dpframe.commands import run
    from dpframe.report import delivery
    from dpframe.results.store import exit_code

    if traceback:
        os.environ[TRACEBACK] = "1"  # worker processes inherit it
    with notified(notify, complain) as outcome:
        display = progress_display(quiet=quiet)
        invocation = run.Invocation(
            out, device.value if device else None, resume, cluster, (*(plugin or ()),), blocks
        )
        loaded = options.load(spec, overrides, trials, seed, plugin, python, allow_command)
        for path in report or ():
            delivery.check(path)
        if shard is not None:
            from dpframe.commands.shard import count

            if as_json or report:
                raise DpframeError(
                    "--shard computes no verdicts, so there is no record to print yet"
                )
            part = _shard(shard)
            counted = count(loaded, part, invocation, display, warn=complain)
            for cell, reason in counted.failed.items():
                complain(f"{cell}: {reason}")
            say(f"shard {part} is counted: {counted.directory}")
            say(f"once all {part.of} are: dpframe merge DIR… --out DIR")
            raise typer.Exit(NOT_RUN if counted.failed else 0)
        record = run.run(loaded, invocation, display, warn=complain)
        outcome.update(run.outcome(record, loaded, invocation))
        with contextlib.suppress(BrokenPipeError):  # the reader wants only the first lines, or none
            _print(record, as_json, numbers)
            results().flush()
        run.announce(record, os.environ, complain)
        written = _all_written(record, report or [])
        raise typer.Exit(exit_code(record) or (0 if written else MISTAKE))


def verify(
    directory: Annotated[Path, typer.Argument(metavar="RUN")],
    share: Annotated[float, typer.Option(metavar="F", min=0, max=1)] = 0.01,
    spec: options.File = None,
    plugin: options.PluginFiles = None,
    python: options.Pythons = None,
    allow_command: options.AllowCommand = False,
) -> None:
    """Draw a random share of a run again and compare.

    Blocks of the draws (run --blocks), or whole passes and searches, are chosen at random and drawn
    again from their addresses; counts, and all numbers derived from them, must be equal bit for
    bit. Decisions of black boxes without a seed are tested against fresh ones.

    Exit code: 0 if all cells were checked and agree; 1 if something differs; 2 if the call is
    wrong or the record cannot be read; 3 if a cell was not checked.

    Args:
        directory: The directory of a run.
        share: Share of the blocks to redraw, at least one block.
        spec: The spec. Default: its path when the run was made.
    """
    from dpframe.commands import verify

    load = partial(options.load, files=plugin, pythons=python, allow_command=allow_command)
    verified = verify.verify(directory, share, spec, load)
    say("\n".join(verified.lines()))
    raise typer.Exit(1 if verified.differences else NOT_RUN if verified.unchecked else 0)


def _all_written(record: Record, paths: list[Path]) -> bool:
    """Write all reports that can be written; return False if one cannot."""
    from dpframe.report import delivery

    written = True
    for path in paths:
        try:
            delivery.write(record, path)
        except OutputError as error:
            complain(str(error))
            written = False
    return written


def plan(
    spec: options.Spec,
    overrides: options.Overrides = None,
    trials: options.Trials = None,
    seed: options.Seed = None,
    plugin: options.PluginFiles = None,
    python: options.Pythons = None,
    allow_command: options.AllowCommand = False,
    power: Annotated[float | None, typer.Option(metavar="P")] = None,
    against: Annotated[float | None, typer.Option(metavar="X")] = None,
    report: options.File = None,
    as_json: options.Json = False,
) -> None:
    """Predict the cost of a run and the bounds it could certify.

    Args:
        power: Also print the smallest true loss that is detected with this probability.
        against: With --power: the trials needed if the true loss were X times the claimed one.
        report: With --power: draw power against trials, as .svg, .png or .pdf, or write an .html
            page with the table too. Figures need matplotlib.
    """
    from dpframe.commands.plan import outlook
    from dpframe.commands.plot import check_name, write as write_picture
    from dpframe.report import figures
    from dpframe.report.terminal.plan import render_plan

    audit = options.load(spec, overrides, trials, seed, plugin, python, allow_command)
    if power is not None and any(type(cell.estimator.value).anytime for cell in audit.cells):
        say(
            "The power of bets is simulated, which takes a few seconds for each claim.", stderr=True
        )
    if report is not None:
        if power is None:
            raise DpframeError("--report FILE needs --power P")
        if not (page := report.suffix.lower() == ".html"):
            check_name(report, ", a page as .html")
    prediction = outlook(
        audit,
        probability=power,
        against=against,
        drawn=report is not None,
    )
    if as_json:
        print_json(prediction)
    else:
        render_plan(prediction, console())
    if report is not None:
        if page:
            from dpframe.report import html  # jinja2 takes long to import

            write_picture(html.power(prediction), report)
            caption = "power as a table, and against trials"
        else:
            write_picture(picture := figures.draw_power(prediction), report)
            caption = picture.caption or ""
        say(f"{report}: {caption}", stderr=as_json)


def show(
    record: options.RecordPath,
    as_json: options.Json = False,
    numbers: Numbers = False,
    slack: Annotated[bool, typer.Option("--slack")] = False,
    notes: options.Notes = False,
    witness: Annotated[bool, typer.Option("--witness")] = False,
    as_test: Annotated[bool, typer.Option("--pytest")] = False,
    cell: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    finding: Annotated[int, typer.Option(metavar="N")] = 1,
    next_: Annotated[bool, typer.Option("--next")] = False,
) -> None:
    """Print the report of a stored run or of scores.

    Args:
        slack: Print the parts of claimed − certified ε of each cell that is not violated.
        witness: Print the evidence of one cell as a separate spec.
        as_test: Print it as a test that fails while the claim is violated.
        cell: The cell for --witness and --pytest: its id, or its mechanism's label. Default: the
            worst violated cell.
        finding: The leak of that cell to print, from 1.
        next_: Print the spec table that searches for further leaks.
    """
    from dpframe.results.store import answer_at, load

    if (answer := answer_at(record)) is not None:
        if next_ or witness or as_test:
            raise DpframeError(f"{record}: scores made elsewhere have no witness")
        if as_json:
            print_json(answer)
        else:
            from dpframe.report.scores import parts
            from dpframe.report.terminal.text import show_parts

            show_parts(console(), parts(answer, remarks=notes, every=numbers))
        return
    stored = load(record)
    if next_:
        from dpframe.report.witness import next_of

        say(next_of(stored))
        return
    if witness or as_test:
        from dpframe.report import witness as witnesses

        chosen = witnesses.with_finding(witnesses.witness_of(stored, cell), finding)
        say((witnesses.as_test if as_test else witnesses.as_toml)(chosen, stored).rstrip())
        return
    _print(stored, as_json, numbers, slack)
    if notes and not as_json:
        from dpframe.report.terminal.render import render_notes

        render_notes(stored, console())


def _print(record: Record, as_json: bool, numbers: bool, slack: bool = False) -> None:
    if as_json:
        print_json(record)
    else:
        from dpframe.report.terminal.render import render

        render(record, console(), numbers=numbers, slack=slack)
