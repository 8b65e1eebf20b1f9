"""What was installed, written beside the spec: names and versions, and no address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.environments.model import Wanted

ENDING = ".lock"


def path_of(spec: Path, wanted: Wanted) -> Path:
    """The lock of an environment of a spec."""
    return spec.parent / f"{wanted.slug}{ENDING}"


def text_of(wanted: Wanted, version: str, installed: Iterable[str]) -> str:
    """The content of a lock: pip reads it as a list of constraints."""
    return "\n".join([*_head(wanted), f"# python {version}", *installed, ""])


def usable(path: Path, wanted: Wanted) -> bool:
    """Whether a lock is of the same requirements, so that its versions are wanted again."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    head = _head(wanted)
    return lines[: len(head)] == head


def _head(wanted: Wanted) -> list[str]:
    requirements = ", ".join(sorted(wanted.requirements))
    python = f" on Python {wanted.python}" if wanted.python else ""
    return [f"# environment: {wanted.name}", f"# requirements: {requirements}{python}"]
