"""An environment as a spec wants it, and as it was found."""

from __future__ import annotations

import hashlib
import json
import re
from typing import NamedTuple


class Wanted(NamedTuple):
    """What a spec says about an environment."""

    name: str
    requirements: tuple[str, ...]
    python: str | None = None
    """A version, such as 3.11; None for that of dpframe."""

    @property
    def digest(self) -> str:
        """Of all that decides what is installed; another list is another environment."""
        content = json.dumps([sorted(self.requirements), self.python])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def slug(self) -> str:
        """Its name as that of a file."""
        return re.sub(r"[^A-Za-z0-9.+-]+", "-", self.name).strip("-.") or "environment"


class Environment(NamedTuple):
    """Where a black box runs, or why it cannot."""

    name: str
    requirements: tuple[str, ...] = ()
    """As the spec lists them; none for an interpreter that the command line names."""
    interpreter: str = ""
    """Path of its Python; "" if there is none. No record names it."""
    python: str = ""
    """Version of that."""
    installed: tuple[str, ...] = ()
    """`name==version`, sorted."""
    problem: str = ""
    """Why it cannot be used; "" if it can."""

    @property
    def digest(self) -> str:
        """Of what is installed: other packages may release something else."""
        content = json.dumps([self.python, self.installed])
        return hashlib.sha256(content.encode()).hexdigest()[:16]
