"""The commands `dpframe scan` and `dpframe write`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

scan_app = typer.Typer(add_completion=False, rich_markup_mode=None)
write_app = typer.Typer(add_completion=False, rich_markup_mode=None)

_PACKAGE = "A package: the requirement to install, such as statlib or statlib==1.0."
_LIST = "List the callables that would be called, and call none."
_OUT = "Directory of tests, assumptions and results. Default: runs/scan-PACKAGE."
_SECONDS = "Processor time of all searches together."
_PYTHON = "An interpreter that has the package. Default: build an environment for it."
_WITH = "A further requirement of the environment, such as 'numpy<2'. Repeatable."
_ASSUME = "Assumptions of an earlier scan, edited; they take the place of guesses."
_MODULE = "The name by which the package is imported. Default: that of its distribution."
_ONLY = "Scan only callables whose dotted name contains this text. Repeatable."
_TARGET = "The dotted name of a callable, or its last parts."

VIOLATED, NOTHING = 1, 3
"""Exit codes of `scan`: a claim is refuted, and that depends on no guess; nothing was searched."""

Python = Annotated[str | None, typer.Option(metavar="PATH", help=_PYTHON)]
Further = Annotated[list[str] | None, typer.Option("--with", metavar="REQUIREMENT", help=_WITH)]
Assume = Annotated[Path | None, typer.Option(metavar="FILE", help=_ASSUME)]
Module = Annotated[str | None, typer.Option(metavar="NAME", help=_MODULE)]


@scan_app.command()
def scan(
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help=_PACKAGE)],
    only_list: Annotated[bool, typer.Option("--list", help=_LIST)] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help=_OUT)] = None,
    seconds: Annotated[float, typer.Option(min=1, help=_SECONDS)] = 600.0,
    python: Python = None,
    further: Further = None,
    module: Module = None,
    only: Annotated[list[str] | None, typer.Option(metavar="TEXT", help=_ONLY)] = None,
    assume: Assume = None,
) -> None:
    """Audit each public callable of a package that takes a privacy budget.

    The package is imported in an environment of its own. Its callables are called on made-up data
    in a temporary folder, and a search looks for neighbours that refute each claim. Each finding is
    written as a test. All that was assumed is printed, and written to a file that you can edit.

    Exit code: 0; 1 if a claim is refuted, unless that depends on a guess; 2 if the call is wrong or
    the package cannot be imported; 3 if nothing could be searched; 130 after an interruption.
    """
    from dpframe_scan import findings
    from dpframe_scan.scanning import Package, Scan

    with Package(package, python, further or (), module, _notify) as opened:
        given = {} if assume is None else findings.read(assume, opened.module)
        targets = opened.chosen(only or (), given)
        if only_list:
            taking = [one for one in targets if one.budgets]
            for one in taking:
                typer.echo(f"{one.name}({', '.join(p.name for p in one.parameters)})")
            for one in targets:
                if not one.budgets:
                    _notify(f"{one.name}: not a budget: {'; '.join(one.no_budgets)}")
            _notify(f"{len(taking)} callables with a budget parameter; none was called")
            return
        folder = out if out is not None else Path("runs") / f"scan-{opened.slug}"
        running = Scan(opened, targets, given, folder, seconds, _notify)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        try:
            running.run()
        except KeyboardInterrupt:
            _notify("interrupted: what was found is kept")
            raise
        finally:
            typer.echo(_printable(running.finish(width)), nl=False)
    if running.searched == 0:
        raise typer.Exit(NOTHING)
    if running.found:
        raise typer.Exit(VIOLATED)


@write_app.command()
def write(
    target: Annotated[str, typer.Argument(metavar="PACKAGE.FUNCTION", help=_TARGET)],
    python: Python = None,
    further: Further = None,
    package: Annotated[
        str | None, typer.Option(metavar="REQUIREMENT", help="What to install for it.")
    ] = None,
    assume: Assume = None,
) -> None:
    """Print a test of a callable, with everything that was assumed; search nothing.

    The callable is called a few times on made-up data, to see that the test would run. Its pair of
    datasets is only an example.

    Exit code: 0; 2 if the callable is not found or cannot be called.
    """
    from dpframe_scan import findings
    from dpframe_scan.scanning import Package, example_of

    module = target.partition(".")[0]
    with Package(package or module, python, further or (), module, _notify) as opened:
        given = {} if assume is None else findings.read(assume, opened.module)
        typer.echo(_printable(example_of(opened, target, given)), nl=False)


def _printable(text: str) -> str:
    """Escape control characters that a package might contain."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def _notify(text: str) -> None:
    print(_printable(text), file=sys.stderr, flush=True)  # noqa: T201
