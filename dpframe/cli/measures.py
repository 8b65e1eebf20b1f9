"""The commands score, compare and calibrate, and those that read records: report, plot, diff."""

import datetime
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from dpframe.cli import options
from dpframe.cli.process import progress_display
from dpframe.cli.terminal import console, print_json, say
from dpframe.errors import DpframeError

REFUTED = 1  # exit code if a claim is refuted
UNTESTED = 3  # exit code if no estimator tested the claim


def score(
    table: Annotated[Path | None, typer.Argument(metavar="TABLE")] = None,
    scores_in: Annotated[Path | None, typer.Option("--scores1", "--in", metavar="FILE")] = None,
    scores_out: Annotated[Path | None, typer.Option("--scores0", "--out", metavar="FILE")] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    member: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    members: options.File = None,
    lower_is_member: Annotated[
        bool | None, typer.Option("--lower-is-member/--higher-is-member")
    ] = None,
    one_run: Annotated[Path | None, typer.Option("--one-run", metavar="FILE")] = None,
    delta: Annotated[list[float] | None, typer.Option(metavar="DELTA")] = None,
    confidence: Annotated[float, typer.Option(metavar="LEVEL")] = 0.95,
    claim: Annotated[str | None, typer.Option(metavar="NAME=VALUE,…")] = None,
    estimators: Annotated[list[str] | None, typer.Option("--estimator", metavar="NAME")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N")] = 0,
    notes: options.Notes = False,
    every: Annotated[bool, typer.Option("--all")] = False,
    assume: Annotated[options.Assumption | None, typer.Option()] = None,
    plot: options.File = None,
    report: options.File = None,
    as_json: options.Json = False,
) -> None:
    """Bound the loss from scores made elsewhere.

    Each bound holds alone (multiplicity none). With --one-run all bounds hold together.

    Exit code: 0; 1 if all estimators together refute the claim; 2 if the call is wrong; 3 if no
    estimator could test the claim.

    Args:
        table: A table of scores and memberships: .csv, .tsv, .json, .jsonl, .parquet, .npz or .npy,
            also packed as .gz.
        scores_in: Instead of a table: scores with the record in the data (D′). Old name: --in.
        scores_out: Scores without the record (D). Old name: --out.
        column: Title or position, from 1, of the column of scores. Default: the column called
            score, loss, confidence or similar, or the only one left.
        member: The same for memberships: 1, true or in with the record; 0, -1, false or out without
            it. Default: the column called member, in_train, split or similar.
        members: A file with a membership for each row of TABLE or of --one-run FILE.
        lower_is_member: Direction of the scores. Default: lower for a column named loss, else
            higher, checked on a twentieth of the scores that no bound uses.
        one_run: Instead of TABLE: a table of canaries of one run, each included by a fair coin.
        delta: δ at which ε is estimated. Default: the claim's, or 0. Repeatable with --one-run.
        confidence: Confidence of each bound alone, or with --one-run of all bounds together.
        claim: The claim to test, such as epsilon=1 or epsilon=1,delta=1e-5 or mu=1. The names
            select the kind of claim.
        estimators: Run only this estimator. Default: all that certify a bound. Repeatable.
        overrides: Set a parameter of every estimator that has it: estimator.X=VALUE. VALUE is TOML;
            anything else is a string. Repeatable.
        seed: Selects the scores that are set aside for a pilot.
        every: Also run estimators that certify no bound, and print the estimators left out.
        assume: With --one-run: bounds and verdicts that hold only if canaries are drawn alike, and
            the score of each depends on no coin but its own.
        plot: Draw the trade-off, the ROC on logarithmic axes and the certified bounds, those of
            canaries over δ: .svg, .png or .pdf. Needs matplotlib.
        report: Write a report: .html (its figure needs matplotlib), .md or .csv.
    """
    from dpframe.claims.accounted import read_claim
    from dpframe.commands.plot import check_name, save
    from dpframe.commands.score import score as ask
    from dpframe.commands.score_one_run import score_one_run
    from dpframe.report import delivery, scores as answers
    from dpframe.report.terminal.text import show_parts
    from dpframe.scores.sides import SeveralRunsError
    from dpframe.spec.sweep import read_parameters

    _check_sources(table, one_run, (scores_in, scores_out), members)
    if one_run is None and delta and len(delta) > 1:
        raise DpframeError("--delta: give only one; several require --one-run")
    if assume is not None and one_run is None:
        raise DpframeError("--assume: requires --one-run")
    if plot is not None:
        check_name(plot)
    if report is not None:
        delivery.check(report, of_scores=True)
    common: dict[str, Any] = {
        "column": column,
        "member": member,
        "members": members,
        "confidence": confidence,
        "claim": None if claim is None else read_claim(claim),
        "estimators": estimators,
        "parameters": read_parameters("estimator", overrides or ()),
        "seed": seed,
        "lower_is_member": lower_is_member,
        "every": every,
    }
    if one_run is not None:
        given = None if assume is None else assume.value
        answer = score_one_run(one_run, delta=delta, assume=given, **common)
    else:
        scores = (scores_in, scores_out) if table is None else (table, None)
        try:
            answer = ask(*scores, delta=delta[0] if delta else None, **common)
        except SeveralRunsError:
            answer = score_one_run(table, delta=delta, **common)
    if as_json:
        print_json(answer)
    else:
        estimates = estimators is not None
        parts = answers.parts(answer, remarks=notes, estimates=estimates, every=every)
        show_parts(console(), parts)
    if plot is not None:
        caption = save(answer, plot).caption
        if not as_json:
            say(f"\n{plot}: {caption}")
    if report is not None:
        delivery.write(answer, report)
    raise typer.Exit(_score_exit(answer))


def _check_sources(
    table: Path | None, one_run: Path | None, sides: tuple[Path | None, Path | None], members: Any
) -> None:
    """Raise DpframeError unless scores are given in one way."""
    ways = (table is not None, one_run is not None, any(sides))
    if sum(ways) != 1 or any(sides) != all(sides):
        raise DpframeError("give one of: TABLE, --scores1 FILE --scores0 FILE, --one-run FILE")
    if members is not None and any(sides):
        raise DpframeError("--members FILE belongs to TABLE or --one-run FILE, not to --scores1")


def _score_exit(answer: dict[str, Any]) -> int:
    """Return the exit code; a claim that nothing tested has its own code."""
    if answer["claim"] is None:
        return 0
    if answer["refuted"] is None:
        return UNTESTED
    return REFUTED if answer["refuted"] else 0


def compare(
    spec: options.Spec,
    overrides: options.Overrides = None,
    trials: options.Trials = None,
    seed: options.Seed = None,
    device: options.Where = None,
    plugin: options.PluginFiles = None,
    python: options.Pythons = None,
    allow_command: options.AllowCommand = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare estimators and attacks on the same draws.

    Each bound holds alone (multiplicity none). Writes no files.

    Exit code: 0, or 2 if the spec or the call is wrong.
    """
    from dpframe.commands.compare import UNADJUSTED, comparison
    from dpframe.commands.run import select_device
    from dpframe.report.calibration import comparison_parts
    from dpframe.report.terminal.text import show_parts

    display = progress_display(quiet=quiet)
    loaded = options.load(
        spec, [*(overrides or ()), UNADJUSTED], trials, seed, plugin, python, allow_command
    )
    select_device(device.value if device else loaded.run.device)
    result = comparison(loaded, display)
    if as_json:
        print_json(result)
    else:
        show_parts(console(), comparison_parts(result))


def calibrate(
    spec: options.Spec,
    repeats: Annotated[int, typer.Option(min=1, metavar="R")] = 10_000,
    overrides: options.Overrides = None,
    trials: Annotated[list[int] | None, typer.Option(metavar="N")] = None,
    seed: options.Seed = None,
    workers: Annotated[int | None, typer.Option(min=1, metavar="W")] = None,
    as_json: options.Json = False,
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Count how often bounds exceed the true ε in small audits.

    The spec names mechanisms of known ε. Each bound holds alone (multiplicity none). Runs on the
    CPU and writes no files.

    Exit code: 0 if every certifying estimator keeps its promise; 1 if one does not; 2 if the spec
    or the call is wrong; 3 if a line could not be run.

    Args:
        repeats: Audits per line, each on new draws.
        trials: Draws per dataset. Overrides the spec. Repeatable.
        workers: Number of processes. Default: one per core.
        as_markdown: Print a page in Markdown.
    """
    from dpframe.commands.calibrate import SETTINGS, calibration, exit_code
    from dpframe.commands.run import select_device
    from dpframe.report.calibration import calibration_page, parts
    from dpframe.report.terminal.text import show_parts

    if as_json and as_markdown:
        raise DpframeError("--json and --markdown: use only one of them")
    display = progress_display(quiet=quiet, unit="estimates")
    settings = list(overrides or ())
    loaded = [options.load(spec, [*settings, *SETTINGS], n, seed) for n in (trials or (None,))]
    select_device("cpu")
    result = calibration(loaded, repeats, workers=workers, display=display)
    if as_json:
        print_json(result)
    elif as_markdown:
        again = _again(spec, repeats, settings, trials or [], seed)
        say(calibration_page(result, again, datetime.date.today().isoformat()))
    else:
        show_parts(console(), parts(result))
    raise typer.Exit(exit_code(result))


def _again(
    spec: Path, repeats: int, overrides: list[str], trials: list[int], seed: int | None
) -> str:
    """Return the command that reproduces a page."""
    words = ["dpframe", "calibrate", str(spec), "--repeats", str(repeats)]
    for option, values in (("--set", overrides), ("--trials", trials), ("--seed", [seed])):
        words += [part for value in values if value is not None for part in (option, str(value))]
    return shlex.join([*words, "--markdown"])


def report(
    record: options.SubjectPath, out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")]
) -> None:
    """Write a report of a run or of scores, as a page or a table.

    Args:
        out: The report to write: .html, .md, .csv, .json or .xml (JUnit).
    """
    from dpframe.report import delivery
    from dpframe.results.model import Record
    from dpframe.results.store import subject

    loaded = subject(record)
    delivery.check(out, of_scores=not isinstance(loaded, Record))
    delivery.write(loaded, out)


def diff(old: options.RecordPath, new: options.RecordPath, as_json: options.Json = False) -> None:
    """List the changes between two runs beyond noise.

    Exit code: 0 if no verdict got worse; 1 if one did; 2 if the call is wrong or a record cannot be
    read.
    """
    from dpframe.report import diff as reporting
    from dpframe.results.store import load

    before, after = load(old), load(new)
    changes = reporting.changes(before, after)
    if as_json:
        print_json(reporting.as_json(before, after, changes))
    else:
        say("\n".join(reporting.lines(before, after, changes)))
    raise typer.Exit(1 if changes.worse else 0)


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
    from dpframe.commands.plot import save
    from dpframe.report.figures import kinds, score_kinds
    from dpframe.results.model import Record
    from dpframe.results.store import subject

    if out is None:
        if kind or where or panels or beside:
            raise DpframeError("name the file of the figure with -o FILE")
        loaded = subject(record)
        fitting = kinds(loaded) if isinstance(loaded, Record) else score_kinds(loaded)
        for name, reason in fitting.items():
            say(f"{name}: fits" if reason is None else f"{name}: does not fit: {reason}")
        return
    conditions: dict[str, list[object]] = {}
    for text in where or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise DpframeError(f"--where {text}: should be KEY=VALUE")
        conditions.setdefault(key, []).append(_value(value))
    shared = [text.split(",") for text in panels or ()]
    picture = save(record, out, kind, where=conditions, panels=shared, beside=beside)
    say(f"{out}: {picture.caption}")


def _value(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text
