"""What the shell is offered where a user presses Tab."""

from __future__ import annotations

from pathlib import Path

RECORD = "record.json"


def plugin_names(incomplete: str) -> list[str]:
    """Names of installed plugins that go on from what was typed."""
    from dpframe import registry

    entries = registry.load().entries
    names = {entry.name for entry in entries}
    if "/" in incomplete:
        names = {f"{entry.distribution}/{entry.name}" for entry in entries}
    return sorted(name for name in names if name.startswith(incomplete))


def environments(incomplete: str) -> list[str]:
    """Names of environments that were built."""
    from dpframe.environments.place import every

    return sorted({entry.name for entry in every() if entry.name.startswith(incomplete)})


def kinds(incomplete: str) -> list[str]:
    """Kinds of plugins that go on from what was typed."""
    from dpframe.registry import KINDS

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
