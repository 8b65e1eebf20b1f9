"""Options that commands share, and their completion."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpframe.cli.terminal import say_json
from dpframe.errors import DpframeError

# What the shell is offered where a user presses Tab.


RECORD = "record.json"


def plugin_names(incomplete: str) -> list[str]:
    """Names of installed plugins that go on from what was typed."""
    from dpframe.interfaces import registry

    entries = registry.load().entries
    names = {entry.name for entry in entries}
    if "/" in incomplete:
        names = {f"{entry.distribution}/{entry.name}" for entry in entries}
    return sorted(name for name in names if name.startswith(incomplete))


def environments(incomplete: str) -> list[str]:
    """Names of environments that were built."""
    from dpframe.environments.places import every

    return sorted({entry.name for entry in every() if entry.name.startswith(incomplete)})


def kinds(incomplete: str) -> list[str]:
    """Kinds of plugins that go on from what was typed."""
    from dpframe.interfaces.registry import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


def records(incomplete: str) -> list[str]:
    """Directories of runs; where there is none the shell goes on with its own files."""
    typed = Path(incomplete)
    above = typed if incomplete.endswith("/") else typed.parent
    places = (above.glob("*/") if incomplete else Path().glob("runs/*/"), above.glob("*/*/"))
    try:
        found = {str(place) for some in places for place in some if (place / RECORD).is_file()}
    except OSError:
        return []
    return sorted(place for place in found if place.startswith(incomplete))


# Options that commands share, and how they read a spec and print.


class Device(StrEnum):
    """The devices that JAX can run on."""

    cpu = "cpu"
    gpu = "gpu"


Spec = Annotated[Path, typer.Argument(help="The audit: a TOML file.", show_default=False)]
RecordPath = Annotated[
    Path,
    typer.Argument(
        help="A record, or the directory of a run.",
        show_default=False,
        autocompletion=records,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change the spec: mechanism.X, pair.X, search.X, attack.X, estimator.X, audit.X or "
        "run.X. VALUE is TOML, else a string. Repeatable.",
    ),
]
Trials = Annotated[
    int | None, typer.Option(metavar="N", help="Draws per dataset, instead of the spec's.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Instead of the spec's seed.")]
PluginFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Run this Python file and use the plugins that it defines. Repeatable.",
        show_default=False,
    ),
]
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        metavar="NAME=PATH",
        help="Run what the spec puts into the environment NAME in this interpreter. Repeatable.",
        show_default=False,
    ),
]
Where = Annotated[
    Device | None,
    typer.Option("--device", help="Where to simulate; default: the fastest there is."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def load(
    spec: Path,
    overrides: list[str] | None,
    trials: int | None,
    seed: int | None,
    files: list[Path] | None = None,
    pythons: list[str] | None = None,
) -> Any:
    """Reads a spec, with the plugins of some files, and interpreters as `--python` names them."""
    from dpframe.interfaces import registry
    from dpframe.spec import load_audit

    named = {}
    for text in pythons or ():
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise DpframeError(f"--python {text}: should be NAME=PATH")
        named[name] = path
    given: dict[str, Any] = {
        "overrides": overrides or (),
        "trials": trials,
        "seed": seed,
        "pythons": named,
    }
    return load_audit(spec, registry=registry.load(files=files or ()), **given)


def print_json(value: Any) -> None:
    """Prints plain values that hold no number JSON does not know."""
    say_json(json.dumps(value, indent=1, ensure_ascii=False))
