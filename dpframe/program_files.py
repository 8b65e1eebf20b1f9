"""Programs: plain modules that dpframe never imports into its own process.

Such a file defines `prepare(params, data)`, which returns a function of no arguments that makes one
release. It is run by a worker, often of another interpreter.
"""

from __future__ import annotations

import ast
import hashlib
import threading
from pathlib import Path
from typing import NamedTuple

_PARSING = threading.Lock()


class ProgramFile(NamedTuple):
    """A program that somebody consents to run."""

    path: Path
    """Absolute."""

    @property
    def digest(self) -> str:
        """Of its bytes; hex digits."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]

    @classmethod
    def consented(cls, path: Path) -> ProgramFile:
        """The program that a spec names.

        Args:
            path: as the spec means it.

        Raises:
            ValueError: the command line does not name it.
        """
        found = cls(path.resolve())
        if found not in _given:
            raise ValueError(
                f"{path.name} is code, and a spec alone never runs code: name the file on the "
                f"command line too, --plugin {path}"
            )
        return found


_given: set[ProgramFile] = set()
"""Those that a command line names."""


def is_program(source: bytes) -> bool:
    """Whether a text defines `prepare` and does not import dpframe; it is not run."""
    statements = _statements(source)
    imported = {
        name.partition(".")[0]
        for one in statements
        if isinstance(one, ast.Import | ast.ImportFrom)
        for name in [getattr(one, "module", None) or "", *(alias.name for alias in one.names)]
    }
    return defines(source, "prepare") and "dpframe" not in imported


def defines(source: bytes, name: str) -> bool:
    """Whether a text gives something a name, as a function has one; it is not run."""
    return any(name in _names(statement) for statement in _statements(source))


def _names(statement: ast.stmt) -> list[str]:
    """Names that a statement at the top of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _statements(source: bytes) -> list[ast.stmt]:
    try:
        with _PARSING:  # Python 3.11 cannot on several threads at once
            return ast.parse(source).body
    except (SyntaxError, ValueError):
        return []


def consent(path: Path) -> None:
    """Allows specs to name a program."""
    _given.add(ProgramFile(path.resolve()))
