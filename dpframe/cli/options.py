"""Options that commands share, and their completion."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpframe.errors import DpframeError

RECORD = "record.json"


def plugin_names(incomplete: str) -> list[str]:
    """Complete the name of an installed plugin."""
    from dpframe.interfaces import registry

    entries = registry.load().entries
    names = {entry.name for entry in entries}
    if "/" in incomplete:
        names = {f"{entry.distribution}/{entry.name}" for entry in entries}
    return sorted(name for name in names if name.startswith(incomplete))


def built_environments(incomplete: str) -> list[str]:
    """Complete the name of a built environment."""
    from dpframe.environments import every

    return sorted({entry.name for entry in every() if entry.name.startswith(incomplete)})


def kinds(incomplete: str) -> list[str]:
    """Complete a kind of plugins."""
    from dpframe.interfaces.registry import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


def records(incomplete: str) -> list[str]:
    """Complete the directory of a run; without a match the shell completes file names."""
    typed = Path(incomplete)
    above = typed if incomplete.endswith("/") else typed.parent
    places = (above.glob("*/") if incomplete else Path().glob("runs/*/"), above.glob("*/*/"))
    try:
        directories = {
            str(place) for some in places for place in some if (place / RECORD).is_file()
        }
    except OSError:
        return []
    return sorted(place for place in directories if place.startswith(incomplete))


class Assumption(StrEnum):
    """Assumptions about scores that bounds may use if the user accepts them."""

    INDEPENDENT = "independent"


class Device(StrEnum):
    """The devices that JAX can run on."""

    cpu = "cpu"
    gpu = "gpu"


Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The audit: a TOML file.")]


def _record(help_text: str) -> Any:
    return typer.Argument(metavar="RECORD", help=help_text, autocompletion=records)


RecordPath = Annotated[Path, _record("A record, or the directory of a run.")]
SubjectPath = Annotated[
    Path, _record("A record, the directory of a run, or the output of `dpframe score --json`.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change the spec. KEY is mechanism.X, pair.X, search.X, attack.X, estimator.X, "
        "audit.X, run.X or environments.X. VALUE is TOML; anything else is a string. Repeatable.",
    ),
]
Trials = Annotated[
    int | None, typer.Option(metavar="N", help="Draws per dataset. Overrides the spec.")
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Seed of all draws. Overrides the spec.")
]
PluginFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Run this Python file and use the plugins that it defines. Repeatable.",
    ),
]
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        metavar="NAME=PATH",
        help="Use this interpreter for the environment NAME of the spec. Repeatable.",
    ),
]


AllowCommand = Annotated[
    bool,
    typer.Option("--allow-command", help="Let the spec run the commands that it names."),
]
Where = Annotated[
    Device | None,
    typer.Option("--device", help="Device to run on. Default: the fastest available."),
]
File = Annotated[Path | None, typer.Option(metavar="FILE")]
Folder = Annotated[Path | None, typer.Option(metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")]
Notes = Annotated[bool, typer.Option("--notes", help="Also print the notes of each estimator.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide the progress display.")]


def load(
    spec: Path,
    overrides: list[str] | None,
    trials: int | None = None,
    seed: int | None = None,
    files: list[Path] | None = None,
    pythons: list[str] | None = None,
    allow_command: bool = False,
) -> Any:
    """Read a spec with plugins from files, and interpreters as `--python` names them."""
    from dpframe.commands import audit

    named = {}
    for text in pythons or ():
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise DpframeError(f"--python {text}: should be NAME=PATH")
        named[name] = path
    return audit.load(spec, overrides or (), trials, seed, files or (), named, allow_command)
