"""The commands plugins, new and environments."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from dpframe.cli import options
from dpframe.cli.app import CommandGroup
from dpframe.cli.terminal import complain, console, print_json, say
from dpframe.common.text import did_you_mean, listed
from dpframe.errors import DpframeError


def plugins(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=options.plugin_names)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the installed plugins, or describe one.

    Args:
        name: Describe this plugin and its parameters.
    """
    from dpframe.interfaces import registry
    from dpframe.interfaces.estimator import exchange
    from dpframe.interfaces.plugin import parameters
    from dpframe.interfaces.registry import catalog
    from dpframe.report.terminal.plugins import render_plugin, render_plugins

    installed = registry.load()
    if as_json:
        print_json(catalog(installed, name))
    elif name is None:
        render_plugins(installed.entries, installed.broken, exchange, console())
    else:
        for entry in installed.named(name):
            render_plugin(entry, parameters(entry.cls), exchange(entry.cls), console())


def schema(record: Annotated[bool, typer.Option("--record")] = False) -> None:
    """Print the JSON Schema of a spec with the installed plugins.

    Args:
        record: Print the schema of a record instead.
    """
    if record:
        from dpframe.results.model import record_schema

        print_json(record_schema())
        return
    from dpframe.interfaces import registry
    from dpframe.spec.model import spec_schema

    print_json(spec_schema(registry.load()))


def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", autocompletion=options.kinds)],
    name: Annotated[str, typer.Argument(metavar="NAME")],
    out: options.Folder = None,
) -> None:
    """Create a plugin package with a class, a test and a spec.

    The package works at once: install it, run its tests and its audit, then change it. Existing
    files are not overwritten.

    Args:
        kind: One of mechanism, attack, estimator, pair and neighbourhood.
        name: Lower-case letters, digits and hyphens, as in noisy-sum.
        out: Directory for the package. Default: a new folder called NAME.
    """
    from dpframe.commands.check import new as write

    folder = out or Path(name)
    for file in write(kind, name, folder):
        say(str(file))
    say(
        f"\nnext:\n  cd {folder}\n  pip install -e '.[test]'\n"
        f"  dpframe check --plugin {name}\n  pytest\n  dpframe run {name}.toml"
    )


group = typer.Typer(
    name="environments",
    cls=CommandGroup,
    help="Manage the environments in which black boxes run.",
    no_args_is_help=True,
)


def build(
    spec: options.Spec,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME")] = None,
    allow_source: Annotated[bool, typer.Option("--allow-source")] = False,
) -> None:
    """Build the environments that a spec lists.

    Installs wheels with uv if it is available, else with venv and pip, and writes NAME.lock beside
    the spec. Existing environments stay unchanged.

    Exit code: 0, or 2 if one cannot be built.

    Args:
        names: Environments to build. Default: all of the spec.
        allow_source: Also build packages from source, which runs their code.
    """
    from dpframe import environments
    from dpframe.spec import environments_of

    described = {one.name: one for one in environments_of(spec)}
    if not described:
        raise DpframeError(f"{spec}: has no [environments]")
    if unknown := [name for name in names or () if name not in described]:
        known = listed(list(described)) + did_you_mean(list(described), unknown[0])
        raise DpframeError(f"there is no environment {unknown[0]!r}; {spec} has: {known}")
    built, failed = [], []
    for one in [described[name] for name in names or described]:  # one that fails stops no other
        try:
            built.append(
                environments.build(one, spec, allow_source=allow_source, progress=complain)
            )
        except DpframeError as error:
            failed.append(str(error))
    if failed:
        raise DpframeError("\n".join(failed))
    for entry in built:
        say(f"{entry.name}: Python {entry.python}, {', '.join(entry.installed) or 'empty'}")


def show(as_json: options.Json = False) -> None:
    """List the built environments."""
    from dpframe.environments import every

    entries = every()
    if as_json:
        keys = ("name", "requirements", "python", "installed", "problem")
        fields = [{key: getattr(e, key) for key in keys} for e in entries]
        folders = [{"folder": str(entry.folder)} for entry in entries]
        print_json([one | folder for one, folder in zip(fields, folders, strict=True)])
        return
    for entry in entries:
        requirements = ", ".join(entry.requirements)
        state = entry.problem or f"Python {entry.python}, {len(entry.installed)} packages"
        say(f"{entry.name}: {state}" + (f"; {requirements}" if requirements else ""))
    if not entries:
        say("no environment was built")


def remove(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", autocompletion=options.built_environments)
    ] = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Remove environments.

    Args:
        names: Environments to remove, named as in the spec.
        everything: Remove all environments.
    """
    from dpframe import environments

    if bool(names) == everything:
        raise DpframeError("give names, or --all")
    entries = environments.every()
    for name in names or ():
        if not any(name in (entry.name, entry.folder.name) for entry in entries):
            known = list(dict.fromkeys(entry.name for entry in entries))
            raise DpframeError(
                f"there is no environment {name!r}; there are: "
                f"{listed(known) or 'none'}{did_you_mean(known, name)}"
            )
    chosen = [e for e in entries if everything or {e.name, e.folder.name} & {*(names or ())}]
    for entry in chosen:
        environments.remove(entry.folder)
    for entry in chosen:
        say(f"{entry.name}: removed")


COMMANDS: dict[str, Callable[..., None]] = {"build": build, "list": show, "remove": remove}
