"""The command `dpframe accountants`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from dpframe.plugins import DpframeError
from dpframe_libraries.accountants.asking import (
    Accountant,
    AccountantProcess,
    Answer,
    ComparisonFile,
)
from dpframe_libraries.accountants.judging import AccountantRow
from dpframe_libraries.accountants.questions import AccountantQuestion

GRIDS = Path(__file__).parent / "grids"
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def accountants(
    grid: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Settings in TOML, or the name of a built-in grid: quick or nightly.",
        ),
    ] = "quick",
    python: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="Ask the accountants installed for this interpreter. Repeatable. Default: the one "
            "that runs dpframe.",
        ),
    ] = None,
    adapter: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            help="Ask the accountants of this module too, in each interpreter. Its code runs. "
            "Repeatable.",
        ),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="Ask accountants whose name contains this.")
    ] = "",
    loose: Annotated[
        float,
        typer.Option(metavar="FACTOR", help="Report an ε that exceeds the truth by this factor."),
    ] = 2.0,
    seconds: Annotated[float, typer.Option(metavar="S", help="Time limit of one question.")] = 60.0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep answers in this file, and continue from it after an interruption.",
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Write a report: .json, .csv or .svg. Repeatable."),
    ] = None,
) -> None:
    """Compare the ε of privacy accountants with an interval of the true ε.

    Each setting is a composition, a relation of neighbours and δ. The true ε lies between an
    optimistic and a pessimistic discretisation of the privacy loss. An accountant is asked only
    about the neighbours and the sampling that its library documents. An ε below the interval is a
    privacy bug, proved by arithmetic alone. Exceptions, hangs and loose bounds are also reported,
    each with the smallest setting that shows it.

    Exit code: 0 if no ε is wrong; 1 if one is below the truth, or a lower bound above it; 2 if the
    call is wrong; 3 if no accountant answered.
    """
    from dpframe_libraries.accountants import reporting
    from dpframe_libraries.accountants.asking import ADAPTERS, AccountantProcess, ComparisonFile
    from dpframe_libraries.accountants.judging import findings
    from dpframe_libraries.accountants.questions import read_grid

    if not loose > 1:
        raise DpframeError(f"--loose {loose:g}: must be a factor above 1")
    if not seconds > 0:
        raise DpframeError(f"--seconds {seconds:g}: must be a time above 0")
    for file in report or ():
        reporting.check(file)
    built_in = {path.stem: path for path in GRIDS.glob("*.toml")}
    if grid not in built_in and not Path(grid).is_file():
        names = " and ".join(sorted(built_in))
        raise DpframeError(f"--grid {grid}: no such file; {names} are built in")
    questions = read_grid(built_in.get(grid, Path(grid)))
    for file in adapter or ():
        if not file.is_file():
            raise DpframeError(f"--adapter {file}: no such file")
    interpreters = _interpreters(python or [])
    kept = None if out is None else ComparisonFile(out, adapter or (), seconds)
    with contextlib.ExitStack() as stack:
        found = [
            stack.enter_context(
                AccountantProcess(name, path, (*ADAPTERS, *(adapter or ())), seconds)
            )
            for name, path in interpreters
        ]
        asked = {
            accountant: environment
            for environment in found
            for accountant in environment.accountants
            if only.lower() in accountant.name.lower()
        }
        if not asked:
            reasons = {text for one in found for text in one.missing.values()}
            raise DpframeError("no accountant was found: " + "; ".join(sorted(reasons)))
        rows, spent = _ask_all(questions, asked, loose, kept)

        def again(accountant: Accountant, question: AccountantQuestion) -> Answer:
            return asked[accountant].ask(accountant, question)

        faults = findings(rows, again, loose)
    missing = {f"{one.name}: {name}": why for one in found for name, why in one.missing.items()}
    settings = sum(len(question.deltas) for question in questions)
    reporting.render(rows, faults, spent, settings, sys.stdout)
    for file in report or ():
        reporting.write(file, rows, faults, spent, missing)
    if all(row.epsilon is None for row in rows):
        raise typer.Exit(3)
    raise typer.Exit(1 if any(one.kind in ("below", "above") for one in faults) else 0)


# Help would keep the line breaks of a paragraph.
_PARAGRAPHS = inspect.cleandoc(accountants.__doc__ or "").split("\n\n")
app.command(help="\n\n".join(" ".join(part.split()) for part in _PARAGRAPHS))(accountants)


def _interpreters(given: list[str]) -> list[tuple[str, Path]]:
    found: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise DpframeError(f"--python {text}: should be NAME=PATH")
        if name in found:
            raise DpframeError(f"--python {text}: the name {name!r} is given twice")
        if not Path(path).is_file():
            raise DpframeError(f"--python {text}: no such interpreter")
        found[name] = Path(path)
    return list(found.items()) or [("", Path(sys.executable))]


def _ask_all(
    questions: list[AccountantQuestion],
    asked: dict[Accountant, AccountantProcess],
    loose: float,
    kept: ComparisonFile | None = None,
) -> tuple[list[AccountantRow], dict[str, float]]:
    """Ask all questions; return the rows, and the seconds of each accountant and of the truth."""
    from dpframe_libraries.accountants.judging import judged
    from dpframe_libraries.accountants.truth import intervals

    rows: list[AccountantRow] = []
    spent = dict.fromkeys(["truth", *map(str, asked)], 0.0)
    for question in _progress(questions):
        begin = time.perf_counter()
        known = functools.partial(intervals, question.steps, question.relation, question.deltas)
        truths = known() if kept is None else kept.truths(question, known)
        spent["truth"] += time.perf_counter() - begin
        for accountant, environment in asked.items():
            answer = None if kept is None else kept.answer(accountant, question)
            if answer is None:
                begin = time.perf_counter()
                answer = environment.ask(accountant, question)
                spent[str(accountant)] += time.perf_counter() - begin
                if kept is not None:
                    kept.put(accountant, question, answer)
            rows.extend(judged(question, accountant, truths, answer, loose))
    return rows, spent


def _progress(questions: list[AccountantQuestion]) -> Iterator[AccountantQuestion]:
    """Yield the questions; show a bar on a terminal, and a line for each tenth elsewhere."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        yield from track(questions, "compositions", console=console, transient=True)
        return
    for i, question in enumerate(questions):
        if len(questions) > 50 and i % (len(questions) // 10) == 0:
            console.print(f"{i} of {len(questions)} compositions")
        yield question
