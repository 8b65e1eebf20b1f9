"""Commands about what is installed."""

from __future__ import annotations

from typing import Annotated

import typer

from dpframe.cli import completion
from dpframe.cli.options import Json, print_json
from dpframe.cli.terminal import console


def plugins(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Explain this plugin and its parameters.",
            autocompletion=completion.plugin_names,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the installed plugins, or explain one."""
    from dpframe import registry
    from dpframe.exchange import exchange
    from dpframe.parameters import parameters
    from dpframe.registry import catalog, named
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
        from dpframe.record.model import record_schema

        print_json(record_schema())
        return
    from dpframe import registry
    from dpframe.spec import spec_schema

    print_json(spec_schema(registry.load()))
