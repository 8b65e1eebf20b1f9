"""The application: what every command has in common, errors and exit codes first."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MISTAKE, INTERNAL, INTERRUPTED, TERMINATED = 2, 70, 130, 143

_GO_ON = "what was counted is kept, and the same command goes on from there"
_NOTHING = "nothing is kept"

app = typer.Typer(
    name="dpframe",
    help="Audits differential privacy empirically: simulates a mechanism on two neighbouring "
    "datasets, attacks the outputs, and compares the loss it can show with the claim.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; whoever lets Ctrl-C through lets this through too."""


def offer(command: Callable[..., None], *, keeps_counts: bool = False) -> None:
    """Makes a function a command.

    What it raises becomes a message and an exit code. Exit code 1 is left to verdicts: an
    unhandled exception must never look like a violation.

    Args:
        command: its docstring is the help text.
        keeps_counts: whether an interrupted one goes on from where it was.
    """
    rest = _GO_ON if keeps_counts else _NOTHING

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except typer.Exit:
            raise
        except DpframeError as error:
            _leave(str(error), MISTAKE)
        except Terminated:
            _leave(f"terminated; {rest}", TERMINATED)
        except KeyboardInterrupt:
            _leave(f"interrupted; {rest}", INTERRUPTED)
        except BrokenPipeError:
            sys.stderr.close()  # the reader left; nobody is there to be told
            raise SystemExit(0) from None
        except Exception:
            traceback.print_exc()
            _leave("this is a mistake in dpframe; please report it with the lines above", INTERNAL)

    app.command()(guarded)


def end_in_order(display: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    """Lets SIGTERM end a command that takes long as Ctrl-C does, and neither of them be lost.

    Python drops what a signal raises while a callback of the garbage collector runs, and JAX has
    one. So a signal is remembered, and raised again when the command next tells of its progress.

    Args:
        display: opens a progress display.

    Returns:
        The display to use instead.
    """
    pending: list[KeyboardInterrupt] = []

    def interrupt(number: int, _: object) -> NoReturn:
        pending.append(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
        raise pending[0]

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    _ignore_dropped_signals()

    @contextlib.contextmanager
    def attentive(cells: int, total: int) -> Iterator[Callable[..., None]]:
        with display(cells, total) as progress:

            def told(**how_far: Any) -> None:
                if pending:
                    raise pending[0]
                progress(**how_far)

            yield told

    return attentive


def _ignore_dropped_signals() -> None:
    """Keeps Python from printing a traceback where it drops what a signal raised."""
    before = sys.unraisablehook
    if before.__module__ == __name__:
        return

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            before(dropped)

    sys.unraisablehook = hook


def main() -> None:
    """Entry point of the `dpframe` command."""
    app()


def _leave(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(code)


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
