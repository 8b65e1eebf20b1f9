"""The application: errors, exit codes and help of every command."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from dpframe.cli.extensions import Command, Extended
from dpframe.cli.process import (
    INTERNAL,
    Terminated,
    answered,
    listen,
    rest,
    supervised,
    unanswered,
)
from dpframe.cli.terminal import complain, give_up_output, open_streams, say, set_apart
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable


# Thresholds of the garbage collector. Python's own 700 take a seventh of a short run, most of it
# among the programs that JAX keeps.
COLLECT = 50_000, 20, 100

MISTAKE, NOT_RUN, INTERRUPTED, TERMINATED = 2, 3, 130, 143

app = typer.Typer(
    name="dpframe",
    cls=Extended,
    help="Audit differential privacy empirically. dpframe runs a mechanism on two neighbouring "
    "datasets, attacks the outputs, and compares the loss they show with the claim.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def offer(
    command: Callable[..., None],
    *,
    keeps_counts: bool = False,
    group: typer.Typer = app,
    name: str | None = None,
) -> None:
    """Make a function a command.

    Exceptions become a message and an exit code. Exit code 1 is left to verdicts: an unhandled
    exception must never look like a violation.

    Args:
        command: its docstring is the help text.
        keeps_counts: True if the command goes on after an interruption.
        group: of the command.
        name: of the command; default: that of the function.
    """

    def stop_if_signalled(before: KeyboardInterrupt | None) -> None:
        # A module in C that is imported when the signal arrives raises an ImportError of its own.
        if (told := unanswered()) is not None and told is not before:
            raise typer.Exit(_stopped(told, keeps_counts=keeps_counts))

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        before = unanswered()
        try:
            with set_apart():
                command(*args, **kwargs)
        except typer.Exit:
            raise
        except DpframeError as error:
            stop_if_signalled(before)
            _leave(str(error), MISTAKE)
        except KeyboardInterrupt as told:
            raise typer.Exit(_stopped(told, keeps_counts=keeps_counts)) from None
        except BrokenPipeError:
            sys.stderr.close()  # the reader left
            raise SystemExit(0) from None
        except SystemExit:
            lost = NOT_RUN if keeps_counts else MISTAKE
            _leave(f"a plugin called exit(), which ends everything; {rest(keeps_counts)}", lost)
        except Exception:
            stop_if_signalled(before)
            complain(traceback.format_exc())
            _leave("this is a mistake in dpframe; please report it with the lines above", INTERNAL)

    # Help would keep the line breaks of a paragraph.
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    group.command(name, cls=Command, help=text)(guarded)


def main() -> None:
    """Run the `dpframe` command."""
    open_streams()
    word = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if word.startswith("-"):  # help, the version: no plugin is loaded, and it is quick
        sys.exit(_work([word, *sys.argv[2:]]))
    runs = word == "run"
    supervised(_work, lost=NOT_RUN if runs else MISTAKE, resumable=runs)


def _work(arguments: list[str] | None = None) -> int:
    """Run the application and return its exit code."""
    code = _called(arguments)
    try:
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader left
        pass
    except DpframeError as error:
        if code != MISTAKE:
            complain(str(error))
        code = MISTAKE
    give_up_output()
    return code


def _called(arguments: list[str] | None) -> int:
    gc.set_threshold(*COLLECT)
    listen()
    try:
        code = app(arguments, standalone_mode=False)
    except SystemExit as ended:
        code = 0 if isinstance(ended.__context__, BrokenPipeError) else ended.code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except TyperException as error:
        _refuse(error)
        return MISTAKE
    except DpframeError as error:  # of another distribution's command, or of standard output
        complain(str(error))
        return MISTAKE
    except BaseException:
        complain(traceback.format_exc())
        return INTERNAL
    if code == INTERRUPTED and (told := unanswered()):  # before the command began, or after it
        words = sys.argv[1:] if arguments is None else arguments
        code = _stopped(told, keeps_counts=words[:1] == ["run"])
    return code if isinstance(code, int) else 0 if code is None else INTERNAL


def _refuse(error: TyperException) -> None:
    """Report a wrong call in one line, and where to read more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "dpframe"
    message = error.format_message().replace("Value error, ", "")
    if not message.strip():
        return  # a group without a command: its help was printed
    complain(f"{command}: {message}\ntry: {command} --help")


def _stopped(told: KeyboardInterrupt, *, keeps_counts: bool) -> int:
    """Report that a signal ended the command, and return the exit code."""
    answered()
    terminated = isinstance(told, Terminated)
    complain(f"{'terminated' if terminated else 'interrupted'}; {rest(keeps_counts)}")
    return TERMINATED if terminated else INTERRUPTED


def _leave(message: str, code: int) -> NoReturn:
    complain(message)
    raise typer.Exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from dpframe import __version__

        say(f"dpframe {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass
