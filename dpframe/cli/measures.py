"""The commands score, compare and calibrate."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from dpframe.cli.options import (
    Json,
    Notes,
    Overrides,
    PluginFiles,
    Pythons,
    Quiet,
    Seed,
    Spec,
    Trials,
    Where,
    load,
)
from dpframe.cli.process import progress_display
from dpframe.cli.terminal import console, say, say_json
from dpframe.errors import DpframeError

REFUTED = 1  # exit code if a claim is refuted
UNTESTED = 3  # exit code if no estimator tested the claim


def score(
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE",
            help="A table of scores and memberships: .csv, .jsonl, .parquet, .npz or .npy.",
            show_default=False,
        ),
    ] = None,
    scores_in: Annotated[
        Path | None,
        typer.Option(
            "--scores1",
            "--in",
            metavar="FILE",
            help="Instead of a table: scores with the record in the data (D′). Old name: --in.",
            show_default=False,
        ),
    ] = None,
    scores_out: Annotated[
        Path | None,
        typer.Option(
            "--scores0",
            "--out",
            metavar="FILE",
            help="Scores without the record (D). Old name: --out.",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Title or position, from 1, of the column of scores. Default: score, mia_score or "
            "loss.",
        ),
    ] = None,
    member: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The same for memberships: 1, true or in with the record; 0, -1, false or out "
            "without it. Default: member, is_member, membership, or else label.",
        ),
    ] = None,
    lower_is_member: Annotated[
        bool | None,
        typer.Option(
            "--lower-is-member/--higher-is-member",
            help="Direction of the scores. Default: lower for a column named loss, else higher; "
            "then a twentieth of the scores, which no bound uses, tests if it is right.",
            show_default=False,
        ),
    ] = None,
    one_run: Annotated[
        Path | None,
        typer.Option(
            "--one-run",
            metavar="FILE",
            help="Instead of TABLE: a table of canaries of one run, each included by a fair coin.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        list[float] | None,
        typer.Option(
            metavar="DELTA",
            help="δ at which ε is estimated. Default: the claim's, or 0. Repeatable with "
            "--one-run.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            metavar="LEVEL",
            help="Confidence of each bound alone, or with --one-run of all bounds together.",
        ),
    ] = 0.95,
    claim: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,…",
            help="The claim to test, such as epsilon=1 or epsilon=1,delta=1e-5 or mu=1. The names "
            "select the kind of claim.",
        ),
    ] = None,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            metavar="NAME",
            help="Run only this estimator. Default: all that certify a bound. Repeatable.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a parameter of every estimator that has it: estimator.X=VALUE. VALUE is "
            "TOML, else a string. Repeatable.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Selects the scores that are set aside for a pilot."),
    ] = 0,
    notes: Notes = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also run estimators that certify no bound, and print the estimators left out "
            "and the curves.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the trade-off, the ROC on logarithmic axes and the certified bounds: .svg, "
            ".png or .pdf. Needs matplotlib.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a report: .html (its figure needs matplotlib), .md or .csv.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bound the loss from scores made elsewhere.

    Each bound holds alone (multiplicity none). With --one-run all bounds hold together.

    Exit code: 0; 1 if all estimators together refute the claim; 2 if the call is wrong; 3 if no
    estimator could test the claim.
    """
    from dpframe.claims.accounted import read_claim
    from dpframe.commands.plot import check_name, save
    from dpframe.commands.score import score as ask
    from dpframe.commands.score_one_run import score_one_run
    from dpframe.report.files import formats
    from dpframe.report.terminal.scores import render_scores
    from dpframe.results.store import dumps
    from dpframe.spec.sweep import read_parameters

    ways = (table is not None, one_run is not None, scores_in is not None or scores_out is not None)
    if sum(ways) != 1 or (scores_in is None) != (scores_out is None):
        raise DpframeError("give one of: TABLE, --scores1 FILE --scores0 FILE, --one-run FILE")
    if plot is not None:
        check_name(plot)
    if report is not None:
        formats.check(report, of_scores=True)
    common: dict[str, Any] = {
        "column": column,
        "member": member,
        "confidence": confidence,
        "claim": None if claim is None else read_claim(claim),
        "estimators": estimators,
        "parameters": read_parameters("estimator", overrides or ()),
        "seed": seed,
        "lower_is_member": lower_is_member,
        "every": every,
    }
    if one_run is None and delta and len(delta) > 1:
        raise DpframeError("--delta: one of them; several go with --one-run")
    if one_run is not None:
        found = score_one_run(one_run, delta=delta, **common)
    else:
        scores = (scores_in, scores_out) if table is None else (table, None)
        found = ask(*scores, delta=delta[0] if delta else None, **common)
    if as_json:
        say_json(dumps(found))
    else:
        render_scores(
            found, console(), remarks=notes, estimates=estimators is not None, every=every
        )
    if plot is not None:
        caption = save(found, plot).caption
        if not as_json:
            say(f"\n{plot}: {caption}")
    if report is not None:
        formats.write(found, report)
    raise typer.Exit(_score_exit(found))


def _score_exit(found: dict[str, Any]) -> int:
    """Return the exit code: an untested claim is not one that held."""
    if found["claim"] is None:
        return 0
    if found["refuted"] is None:
        return UNTESTED
    return REFUTED if found["refuted"] else 0


def compare(
    spec: Spec,
    overrides: Overrides = None,
    trials: Trials = None,
    seed: Seed = None,
    device: Where = None,
    plugin: PluginFiles = None,
    python: Pythons = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare estimators and attacks on the same draws.

    Each bound holds alone (multiplicity none). Writes no files.

    Exit code: 0, or 2 if the spec or the call is wrong.
    """
    from dpframe.commands.compare import ALONE, comparison
    from dpframe.commands.run import select_device
    from dpframe.report.terminal.comparison import render_comparison
    from dpframe.results.store import dumps

    display = progress_display(quiet=quiet)
    loaded = load(spec, [*(overrides or ()), ALONE], trials, seed, plugin, python)
    select_device(device.value if device else loaded.run.device)
    found = comparison(loaded, display)
    if as_json:
        say_json(dumps(found))
    else:
        render_comparison(found, console())


def calibrate(
    spec: Spec,
    repeats: Annotated[
        int, typer.Option(min=1, metavar="R", help="Audits per line, each on new draws.")
    ] = 10_000,
    overrides: Overrides = None,
    trials: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Draws per dataset. Overrides the spec. Repeatable."),
    ] = None,
    seed: Seed = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="W", help="Number of processes. Default: one per core."),
    ] = None,
    as_json: Json = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a page in Markdown.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Count how often bounds exceed the true ε in small audits.

    The spec names mechanisms of known ε. Each bound holds alone (multiplicity none). Runs on the
    CPU and writes no files.

    Exit code: 0 if every certifying estimator keeps its promise; 1 if one does not; 2 if the spec
    or the call is wrong; 3 if a line could not be run.
    """
    from dpframe.commands.calibrate import SETTINGS, calibration, exit_code
    from dpframe.commands.run import select_device
    from dpframe.report.calibration import calibration_page
    from dpframe.report.terminal.calibration import render_calibration
    from dpframe.results.store import dumps

    if as_json and as_markdown:
        raise DpframeError("--json and --markdown: one of them")
    display = progress_display(quiet=quiet, unit="estimates")
    own = list(overrides or ())
    loaded = [load(spec, [*own, *SETTINGS], n, seed) for n in (trials or (None,))]
    select_device("cpu")
    found = calibration(loaded, repeats, workers=workers, display=display)
    if as_json:
        say_json(dumps(found))
    elif as_markdown:
        again = _again(spec, repeats, own, trials or [], seed)
        say(calibration_page(found, again, datetime.date.today().isoformat()))
    else:
        render_calibration(found, console())
    raise typer.Exit(exit_code(found))


def _again(
    spec: Path, repeats: int, overrides: list[str], trials: list[int], seed: int | None
) -> str:
    """Return the command that makes a page again."""
    words = ["dpframe", "calibrate", str(spec), "--repeats", str(repeats)]
    for option, values in (("--set", overrides), ("--trials", trials), ("--seed", [seed])):
        words += [part for value in values if value is not None for part in (option, str(value))]
    return shlex.join([*words, "--markdown"])
