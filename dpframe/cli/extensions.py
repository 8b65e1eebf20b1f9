"""Classes of commands, and the commands of other distributions.

These come from the entry-point group `dpframe.commands`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dpframe.errors import DpframeError

GROUP = "dpframe.commands"


@functools.cache
def _points() -> dict[str, importlib.metadata.EntryPoint]:
    if os.environ.get("DPFRAME_NO_PLUGINS", "") not in ("", "0"):
        return {}
    found = importlib.metadata.entry_points(group=GROUP)
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}


def _provider(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"


def _hide_types(params: list[Any]) -> list[Any]:
    """Drop the type of flags in help: they take no value."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose help describes every option below its name, on lines of full width."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))

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


class Group(TyperGroup):
    """A group of commands whose help shows no type of a flag."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(super().get_params(ctx))


class Extended(Group):
    """The built-in commands, then others; another command is imported only when it runs."""

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
            raise TypeError(f"{point.value} is {type(app).__name__}; a typer.Typer is wanted")
        return typer.main.get_command(app)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a plugin must not end the program
        from dpframe.common.text import error_message

        raise DpframeError(
            f"the command {point.name!r} of {_provider(point)} could not be loaded: "
            f"{error_message(error)}"
        ) from None
