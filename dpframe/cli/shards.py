"""Parts of a run: which one to count, and how they are put together."""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpframe.cli.options import Json, PluginFiles, Pythons, Quiet, load
from dpframe.cli.output import results
from dpframe.cli.signals import end_in_order
from dpframe.cli.terminal import complain, console, say, say_json
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from dpframe.engine.addresses.share import Shard

MOST = 1_000_000
"""Shards of one run."""

Part = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Count the I-th of N equal parts of all draws and judge nothing; dpframe merge does.",
    ),
]


def parsed(text: str) -> Shard:
    """I/N as a shard.

    Raises:
        DpframeError: it is none.
    """
    from dpframe.engine.addresses.share import Shard

    found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]) <= MOST:
        raise DpframeError(f"--shard {text}: which of how many, such as 3/16; the first is 1/16")
    return Shard(int(found[1]), int(found[2]))


def merge(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="All shards, in any order.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the record goes.", show_default=False)
    ],
    spec: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The spec; default: where it lay when it was counted."),
    ] = None,
    plugin: PluginFiles = None,
    python: Pythons = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add up the shards of a run, judge them and report what they found.

    Refuses shards of different specs, seeds or code, one that is there twice, and missing ones.
    Counts and verdicts are those of a single run. Exit codes are those of run.
    """
    from dpframe.commands import shard
    from dpframe.record.file import dumps
    from dpframe.record.verdict import exit_code
    from dpframe.report.progress import run_progress
    from dpframe.report.terminal.render import render

    display = end_in_order(functools.partial(run_progress, console(stderr=True), quiet=quiet))
    record = shard.merge(
        directories,
        out,
        spec,
        display,
        lambda path, overrides: load(path, overrides, None, None, plugin, python),
        complain,
    )
    with contextlib.suppress(BrokenPipeError):
        if as_json:
            say_json(dumps(record))
        else:
            render(record, console(), numbers=None)
        results().flush()
    raise typer.Exit(exit_code(record))


def told(directory: Path, shard: Shard, failed: dict[str, str]) -> None:
    """Says what came of a shard, and what to do next."""
    for cell, reason in failed.items():
        complain(f"{cell}: {reason}")
    say(f"shard {shard} is counted: {directory}")
    say(f"once all {shard.of} are: dpframe merge DIR… --out DIR")
