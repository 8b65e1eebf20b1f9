"""`dpframe environments`: packages for black boxes, installed only when somebody asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpframe.cli import completion
from dpframe.cli.options import Json, Spec, print_json
from dpframe.cli.terminal import complain, say
from dpframe.errors import DpframeError

group = typer.Typer(
    name="environments",
    help="Build, list and remove the environments in which black boxes run.",
    no_args_is_help=True,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Which; default: all of the spec.",
        metavar="[NAME]...",
        show_default=False,
    ),
]


def build(
    spec: Spec,
    names: Names = None,
    allow_source: Annotated[
        bool,
        typer.Option(
            "--allow-source", help="Also build packages from source, which runs their code."
        ),
    ] = False,
) -> None:
    """Install what the environments of a spec list, and write NAME.lock beside the spec.

    With uv where it is at hand, else with venv and pip; from wheels only. One that is there already
    is left as it is. Exit code: 0, or 2 if one cannot be built.
    """
    from dpframe.commands.environments import build as make

    for entry in make(spec, names or (), allow_source=allow_source, tell=complain):
        say(f"{entry.name}: Python {entry.python}, {', '.join(entry.installed) or 'empty'}")


def show(as_json: Json = False) -> None:
    """List the environments that were built."""
    from dpframe.environments.place import every

    entries = every()
    if as_json:
        keys = ("name", "requirements", "python", "installed", "problem")
        print_json([{key: getattr(e, key) for key in keys} | _place(e.folder) for e in entries])
        return
    for entry in entries:
        wanted = ", ".join(entry.requirements)
        state = entry.problem or f"Python {entry.python}, {len(entry.installed)} packages"
        say(f"{entry.name}: {state}" + (f"; {wanted}" if wanted else ""))
    if not entries:
        say("no environment was built")


def remove(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names as in the spec.",
            metavar="[NAME]...",
            show_default=False,
            autocompletion=completion.environments,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all of them.")] = False,
) -> None:
    """Remove environments."""
    from dpframe.commands.environments import remove as drop

    if bool(names) == everything:
        raise DpframeError("give names, or --all")
    for entry in drop(names or (), everything=everything):
        say(f"{entry.name}: removed")


COMMANDS: dict[str, Callable[..., None]] = {"build": build, "list": show, "remove": remove}


def _place(folder: Path) -> dict[str, str]:
    return {"folder": str(folder)}
