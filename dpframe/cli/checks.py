"""`dpframe check`: is a spec without mistakes, does a plugin keep its promises?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpframe.cli import completion
from dpframe.cli.options import Json, Overrides, Pythons, Seed, Trials, load, print_json
from dpframe.cli.terminal import console, say
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from typing import Any

BROKEN = 1


def check(
    spec: Annotated[
        Path | None, typer.Argument(help="The audit: a TOML file.", show_default=False)
    ] = None,
    overrides: Overrides = None,
    trials: Trials = None,
    seed: Seed = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE.py",
            autocompletion=completion.plugin_names,
            help="With a spec: run this Python file and use the plugins that it defines. Without: "
            "try out what every plugin of its kind must do, of the one installed under NAME or of "
            "all in FILE.py; --set then gives its parameters, and mechanism.use, pair.use and "
            "theirs. Repeatable.",
            show_default=False,
        ),
    ] = None,
    python: Pythons = None,
    as_json: Json = False,
) -> None:
    """Check a spec: every mistake at once, with file and line.

    An expectation that nothing can meet is a mistake too. With --plugin and no spec: check plugins;
    exit code 1 if one breaks a promise.
    """
    given = plugin or []
    files = [Path(one) for one in given if one.endswith(".py")]
    names = [one for one in given if not one.endswith(".py")]
    if spec is not None and not names and not as_json:
        _check_spec(spec, load(spec, overrides, trials, seed, files, python))
        return
    if spec is not None or len(names) > 1 or not given:
        raise DpframeError(
            "give either a spec or --plugin NAME (beside a spec it takes files, --plugin FILE.py); "
            "--json goes with the latter"
        )
    if trials is not None or seed is not None:
        raise DpframeError("--trials and --seed go with a spec")
    from dpframe.commands.conformance import as_json as plain
    from dpframe.commands.conformance import conformance
    from dpframe.report.terminal.conformance import render_conformance

    found = conformance(names[0] if names else None, overrides or (), files)
    if as_json:
        print_json(plain(found))
    else:
        for one in found:
            render_conformance(one, console())
    if not all(one.kept for one in found):
        raise typer.Exit(BROKEN)


def _check_spec(spec: Path, loaded: Any) -> None:
    from dpframe.commands.check import check as check_expectations

    size = check_expectations(loaded)
    skipped = f", {len(loaded.skipped)} skipped" if loaded.skipped else ""
    takes = f"; takes about {size / 2**20:,.0f} MiB of memory"
    say(f"{spec}: {len(loaded.cells)} cells{skipped}; no mistakes found{takes}")
    for reason, number in Counter(skip.reason for skip in loaded.skipped).items():
        say(f"   {number} skipped: {reason}")
