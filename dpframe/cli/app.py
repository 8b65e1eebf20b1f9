"""The application: errors, exit codes and help of every command."""

import functools
import gc
import importlib.metadata
import inspect
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from dpframe.cli.process import INTERNAL, Terminated, answered, listen, rest, supervised, unanswered
from dpframe.cli.terminal import complain, give_up_output, open_streams, say, set_apart
from dpframe.common import entry_points
from dpframe.common.text import typographic
from dpframe.errors import DpframeError

# Classes of commands, and the commands of plugins, which have an entry-point group.


GROUP = "dpframe.commands"


@functools.cache
def _points() -> dict[str, importlib.metadata.EntryPoint]:
    if os.environ.get("DPFRAME_NO_PLUGINS", "") not in ("", "0"):
        return {}
    points = entry_points.of_group(GROUP)
    return {point.name: point for point in sorted(points, key=lambda point: point.name)}


def _provider(point: importlib.metadata.EntryPoint) -> str:
    try:
        return " ".join(dict.fromkeys(entry_points.origin(point)))
    except Exception as error:  # a damaged METADATA
        return f"a distribution that cannot be read ({type(error).__name__}: {error})"


def _hide_types(params: list[Any]) -> list[Any]:
    """Drop the type of flags in help, because they take no value."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


def help_of(command: Any) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring and of each argument, with source lines joined."""
    text, _, listed = (inspect.getdoc(command) or "").partition("\n\nArgs:\n")
    paragraphs = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    entries = re.findall(r"^    (\w+): (.*(?:\n {5}.*)*)", listed, re.MULTILINE)
    return paragraphs, {name: " ".join(meaning.split()) for name, meaning in entries}


class Command(TyperCommand):
    """A command whose help describes every option below its name, on lines of full width.

    Options without a help text are described by the docstring of the function.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _, texts = help_of(self.callback)
        for param in self.params:
            param.help = param.help or texts.get(param.name)  # type: ignore[attr-defined]

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            _explain(error, given, {param.name for param in self.params})
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [param for param in self.get_params(ctx) if param.param_type_name == kind]
            records = [record for param in params if (record := param.get_help_record(ctx))]
            if not records:
                continue
            with formatter.section(title):
                for names, text in records:
                    formatter.write_text(names if kind == "option" else names.partition(" <")[0])
                    with formatter.indentation(), formatter.indentation():
                        formatter.write_text(text)


_CLAIMS = {"--epsilon": "epsilon", "--eps": "epsilon", "--mu": "mu", "--rho": "rho"}
_RENAMED = {"--label": "--member", "--membership": "--member", "--score": "--column"}


def _explain(error: Any, given: list[str], params: set[Any]) -> None:
    """Add a remedy to the message about a wrong call, for options that people expect."""
    unknown = getattr(error, "option_name", None)
    names = [unknown] if unknown else getattr(getattr(error, "param", None), "opts", [])
    value = ""
    for word, following in itertools.zip_longest(given, given[1:], fillvalue=""):
        name, equals, attached = word.partition("=")
        if name in names:
            value = attached if equals else following
    hint = typographic(value)
    if unknown in _CLAIMS and params & {"claim", "overrides"}:
        setting = f"{_CLAIMS[unknown]}={value or '…'}"
        hint = f"use --claim {setting}" if "claim" in params else f"use --set mechanism.{setting}"
    elif unknown in _RENAMED and {"member", "column"} <= params:
        hint = f"use {_RENAMED[unknown]} {value or '…'}"
    elif unknown == "--html" and "report" in params:
        hint = f"use --report {value or 'FILE.html'}"
    elif unknown:
        return
    elif not hint and value and value not in error.message:
        hint = f"got {value!r}"
    if hint:
        error.message, error.possibilities = f"{error.message}; {hint}", None


class CommandGroup(TyperGroup):
    """A group of commands whose help shows no type of a flag."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))


class Extended(CommandGroup):
    """The built-in commands and those of plugins, which are imported only when they run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands, *(name for name in _points() if name not in self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands or cmd_name not in _points():
            return super().get_command(ctx, cmd_name)
        # Help uses the metadata and imports nothing.
        return Command(cmd_name, help=f"Provided by {_provider(_points()[cmd_name])}.")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name in self.commands or name not in _points():
            return super().resolve_command(ctx, args)
        return name, _loaded(_points()[name]), args[1:]


def _loaded(point: importlib.metadata.EntryPoint) -> Any:
    try:
        app = point.load()
        if not isinstance(app, typer.Typer):
            raise TypeError(f"{point.value} is {type(app).__name__}; it must be a typer.Typer")
        return typer.main.get_command(app)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a plugin must not end the program
        from dpframe.common.text import error_message

        raise DpframeError(
            f"the command {point.name!r} of {_provider(point)} could not be loaded: "
            f"{error_message(error)}"
        ) from None


# Thresholds of the garbage collector. With Python's own 700 it takes a seventh of a short run,
# mostly on the objects of JAX's programs.
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
    """Make a function a command; its docstring is the help text of the command and its arguments.

    Exceptions become a message and an exit code. Exit code 1 is reserved for verdicts, because an
    unhandled exception must never look like a violation. `keeps_counts` says that the command
    continues after an interruption.
    """

    def stop_if_signalled(before: KeyboardInterrupt | None) -> None:
        # If a signal arrives while a C module is imported, the module raises an ImportError.
        if (signalled := unanswered()) is not None and signalled is not before:
            raise typer.Exit(_stopped(signalled, keeps_counts=keeps_counts))

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
        except KeyboardInterrupt as signalled:
            raise typer.Exit(_stopped(signalled, keeps_counts=keeps_counts)) from None
        except BrokenPipeError:
            sys.stderr.close()  # the reader left
            raise SystemExit(0) from None
        except SystemExit:
            lost = NOT_RUN if keeps_counts else MISTAKE
            _leave(f"a plugin called exit(), which ended the command; {rest(keeps_counts)}", lost)
        except Exception:
            stop_if_signalled(before)
            complain(traceback.format_exc())
            _leave("this is a bug in dpframe; please report it with the lines above", INTERNAL)

    text, _ = help_of(command)
    group.command(name, cls=Command, help=text)(guarded)


def main() -> None:
    """Run the `dpframe` command."""
    open_streams()
    word = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if word.startswith("-"):  # help and version load no plugin, so they need no supervisor
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
    entry_points.tolerate()
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
    except DpframeError as error:  # from a plugin's command, or from standard output
        complain(str(error))
        return MISTAKE
    except BaseException:
        complain(traceback.format_exc())
        return INTERNAL
    if code == INTERRUPTED and (signalled := unanswered()):  # before the command began, or after it
        words = sys.argv[1:] if arguments is None else arguments
        other = bool(words) and words[0] in _points()  # a plugin's command, which may keep counts
        code = _stopped(signalled, keeps_counts=None if other else words[:1] == ["run"])
    return code if isinstance(code, int) else 0 if code is None else INTERNAL


def _refuse(error: TyperException) -> None:
    """Report a wrong call, and name the command that prints help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "dpframe"
    message = error.format_message().replace("Value error, ", "")
    if not message.strip():
        return  # a group without a command: its help was printed
    complain(f"{command}: {message}\ntry: {command} --help")


def _stopped(signalled: KeyboardInterrupt, *, keeps_counts: bool | None) -> int:
    """Report that a signal ended the command, and return the exit code."""
    answered()
    terminated = isinstance(signalled, Terminated)
    kept = "" if keeps_counts is None else f"; {rest(keeps_counts)}"
    complain(f"{'terminated' if terminated else 'interrupted'}{kept}")
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
