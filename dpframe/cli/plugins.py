"""The commands plugins, new and environments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpframe.cli import options
from dpframe.cli.extensions import Group
from dpframe.cli.options import Json, Spec, print_json
from dpframe.cli.terminal import complain, console, say
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable


def plugins(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Explain this plugin and its parameters.",
            autocompletion=options.plugin_names,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the installed plugins, or explain one."""
    from dpframe.interfaces import registry
    from dpframe.interfaces.estimator import exchange
    from dpframe.interfaces.plugin import parameters
    from dpframe.interfaces.registry import catalog, named
    from dpframe.report.terminal.plugins import render_plugin, render_plugins

    found = registry.load()
    if as_json:
        print_json(catalog(found, name))
    elif name is None:
        render_plugins(found.entries, found.broken, exchange, console())
    else:
        for entry in named(found, name):
            render_plugin(entry, parameters(entry.cls), exchange(entry.cls), console())


def schema(
    record: Annotated[
        bool, typer.Option("--record", help="Print that of a record instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of a spec; it knows the installed plugins."""
    if record:
        from dpframe.results.model import record_schema

        print_json(record_schema())
        return
    from dpframe.interfaces import registry
    from dpframe.spec.schema import spec_schema

    print_json(spec_schema(registry.load()))


def new(
    kind: Annotated[
        str,
        typer.Argument(
            help="mechanism, attack, estimator, pair or neighbourhood.",
            show_default=False,
            autocompletion=options.kinds,
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            help="Small letters, digits and hyphens, as in noisy-sum.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where it goes; default: a new folder called NAME."),
    ] = None,
) -> None:
    """Create a plugin package: class, test, spec, README.

    It works at once: install it, run its tests and its audit, then change it. Nothing is
    overwritten.
    """
    from dpframe.commands.new import new as write

    folder = out or Path(name)
    for file in write(kind, name, folder):
        say(str(file))
    say(
        f"\nnext:\n  cd {folder}\n  pip install -e '.[test]'\n"
        f"  dpframe check --plugin {name}\n  pytest\n  dpframe run {name}.toml"
    )


group = typer.Typer(
    name="environments",
    cls=Group,
    help="Build, list and remove the environments in which black boxes run.",
    no_args_is_help=True,
)


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

    With uv if it is installed, else with venv and pip; from wheels only. Environments that exist
    stay as they are. Exit code: 0, or 2 if one cannot be built.
    """
    from dpframe.commands.environments import build as make

    for entry in make(spec, names or (), allow_source=allow_source, tell=complain):
        say(f"{entry.name}: Python {entry.python}, {', '.join(entry.installed) or 'empty'}")


def show(as_json: Json = False) -> None:
    """List the environments that were built."""
    from dpframe.environments.places import every

    entries = every()
    if as_json:
        keys = ("name", "requirements", "python", "installed", "problem")
        found = [{key: getattr(e, key) for key in keys} for e in entries]
        folders = [{"folder": str(entry.folder)} for entry in entries]
        print_json([one | folder for one, folder in zip(found, folders, strict=True)])
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
            autocompletion=options.built_environments,
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
