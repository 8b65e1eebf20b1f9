"""Commands for those who write plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpframe.cli import completion
from dpframe.cli.terminal import say


def new(
    kind: Annotated[
        str,
        typer.Argument(
            help="mechanism, attack, estimator, pair or neighbourhood.",
            show_default=False,
            autocompletion=completion.kinds,
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
    """Write a distribution with a plugin of your own: class, test, spec, README.

    It works as it is: install it, run its tests and its audit, then change it. Nothing is
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
