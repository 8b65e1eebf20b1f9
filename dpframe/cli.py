"""The command line. Imports nothing heavy before a command needs it."""

from __future__ import annotations

import functools
import json
import signal
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer

from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

MISTAKE, INTERNAL, INTERRUPTED, TERMINATED = 2, 70, 130, 143

_GO_ON = "what was counted is kept, and the same command goes on from there"

P = ParamSpec("P")
T = TypeVar("T")

app = typer.Typer(
    name="dpframe",
    help="Audits differential privacy empirically: simulates a mechanism on two neighbouring "
    "datasets, attacks the outputs, and compares the loss it can show with the claim.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Device(StrEnum):
    """Where JAX runs."""

    cpu = "cpu"
    gpu = "gpu"


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; whoever lets Ctrl-C through lets this through too."""


def guarded(command: Callable[P, T]) -> Callable[P, T]:
    """Turns what a command raises into a message and an exit code.

    Exit code 1 is left to the verdict: an unhandled exception must never look like a violation.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except typer.Exit:
            raise
        except DpframeError as error:
            _leave(str(error), MISTAKE)
        except Terminated:
            _leave(f"terminated; {_GO_ON}", TERMINATED)
        except KeyboardInterrupt:
            _leave(f"interrupted; {_GO_ON}", INTERRUPTED)
        except BrokenPipeError:
            sys.stderr.close()  # the reader left; nobody is there to be told
            raise SystemExit(0) from None
        except Exception:
            traceback.print_exc()
            _leave("this is a mistake in dpframe; please report it with the lines above", INTERNAL)

    return run


def _leave(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(code)


Spec = Annotated[Path, typer.Argument(help="The audit: a TOML file.", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change the spec: mechanism.X, pair.X, attack.X, estimator.X, audit.X or run.X. "
        "VALUE is TOML, else a string. Repeatable.",
    ),
]
Trials = Annotated[
    int | None, typer.Option(metavar="N", help="Draws per dataset, instead of the spec's.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Instead of the spec's seed.")]


@app.command()
@guarded
def run(
    spec: Spec,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the record goes; default: runs/<audit name>/."),
    ] = None,
    overrides: Overrides = None,
    trials: Trials = None,
    seed: Seed = None,
    device: Annotated[
        Device | None, typer.Option(help="Where to simulate; default: the fastest there is.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume/--fresh", help="Go on with what DIR holds, or discard it."),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record, and nothing else, to stdout.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run an audit and report what it found.

    Exit code: 0 every expectation of the spec is met and no other claim is violated; 1 otherwise;
    2 the spec or the call is wrong; 3 a cell could not be run; 130 and 143 after an interruption;
    70 a mistake in dpframe.
    """
    from dpframe import session
    from dpframe.report.outcome import exit_code
    from dpframe.report.progress import run_progress

    signal.signal(signal.SIGTERM, _terminate)
    choice = session.Choice(out=out, device=device.value if device else None, resume=resume)
    loaded = _load(spec, overrides, trials, seed)
    record = session.run(
        loaded,
        choice,
        functools.partial(run_progress, _console(stderr=True), quiet=quiet),
        warn=functools.partial(print, file=sys.stderr),
    )
    _print(record, as_json)
    raise typer.Exit(exit_code(record))


@app.command()
@guarded
def plan(
    spec: Spec,
    overrides: Overrides = None,
    trials: Trials = None,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a run would do, and what it could find, without running it."""
    from dpframe.outlook import outlook
    from dpframe.report.terminal.plan import render_plan

    found = outlook(_load(spec, overrides, trials, seed))
    if as_json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        render_plan(found, _console())


@app.command()
@guarded
def check(
    spec: Spec, overrides: Overrides = None, trials: Trials = None, seed: Seed = None
) -> None:
    """Check a spec: every mistake at once, with file and line."""
    loaded = _load(spec, overrides, trials, seed)
    skipped = f", {len(loaded.skipped)} skipped" if loaded.skipped else ""
    print(f"{spec}: {len(loaded.cells)} cells{skipped}; no mistakes found")


@app.command()
@guarded
def show(
    record: Annotated[
        Path, typer.Argument(help="A record, or the directory of a run.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the record itself.")] = False,
) -> None:
    """Show the report of a run again."""
    from dpframe.report.record import read

    _print(read(record), as_json)


@app.command()
@guarded
def plugins(
    name: Annotated[
        str | None, typer.Argument(help="Explain this plugin and its parameters.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the installed plugins, or explain one."""
    from dpframe import registry
    from dpframe.catalog import catalog, named
    from dpframe.plugin import parameters
    from dpframe.report.terminal.plugins import render_plugin, render_plugins

    found = registry.load()
    if as_json:
        print(json.dumps(catalog(found, name), indent=1, ensure_ascii=False))
    elif name is None:
        render_plugins(found.entries, found.broken, _console())
    else:
        for entry in named(found, name):
            render_plugin(entry, parameters(entry.cls), _console())


@app.command()
@guarded
def schema() -> None:
    """Print the JSON Schema of a spec; it knows the installed plugins."""
    from dpframe import registry
    from dpframe.spec import spec_schema

    print(json.dumps(spec_schema(registry.load()), indent=1, ensure_ascii=False))


def _version(wanted: bool) -> None:
    if wanted:
        from dpframe import __version__

        print(f"dpframe {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and exit.")
    ] = False,
) -> None:
    pass


def _load(spec: Path, overrides: list[str] | None, trials: int | None, seed: int | None) -> Any:
    from dpframe import registry
    from dpframe.spec import load_audit

    return load_audit(
        spec, overrides=overrides or (), trials=trials, seed=seed, registry=registry.load()
    )


def _print(record: dict[str, Any], as_json: bool) -> None:
    if as_json:
        from dpframe.report.record import dumps

        sys.stdout.write(dumps(record))
    else:
        from dpframe.report.terminal.render import render

        render(record, _console())


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def _terminate(*_: object) -> NoReturn:
    raise Terminated


def main() -> None:
    """Entry point of the `dpframe` command."""
    app()
