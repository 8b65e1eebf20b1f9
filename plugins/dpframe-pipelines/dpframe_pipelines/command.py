"""Executables in any language as black boxes, by lines of JSON."""

from __future__ import annotations

import functools
import hashlib
import shutil
from pathlib import Path
from typing import Annotated, Any, ClassVar

from dpframe.plugins import Claim, ForeignMechanism, Ge, Gt, Lt, Pair, SpecFile
from dpframe_pipelines.boxes import PROGRAMS, claim_of


class Command(ForeignMechanism, name="command"):
    """An executable as a black box, which reads and writes lines of JSON.

    It starts once for each dataset and process, in the folder of the spec. Its first line of input
    is `{"params": …, "data": …}`; the parameters are ε and δ. Each further line, `{"release": 1,
    "seed": …}`, asks for one release, which it writes as one line of JSON: any value, or
    `{"error": "ValueError: …"}` for an exception. A spec alone never runs code: the command line
    needs --allow-command.
    """

    module: ClassVar[Path] = PROGRAMS / "command_lines.py"

    command: tuple[SpecFile, ...]
    """The executable and its arguments; paths are relative to the spec."""
    epsilon: Annotated[float, Ge(0)] | None = None
    """The claim; default: nothing is claimed, and there is no verdict."""
    delta: Annotated[float, Ge(0), Lt(1)] = 0.0
    """The claim's δ."""
    seeded: bool = False
    """True if all its randomness comes from the seeds that it gets."""
    wait: Annotated[float, Gt(0)] = 60.0
    """Seconds without an answer after which the cell fails."""

    @property
    def seedable(self) -> bool:  # type: ignore[override]  # a class variable elsewhere
        return self.seeded

    def claim(self, pair: Pair) -> Claim | None:
        return None if self.epsilon is None else claim_of(self.epsilon, self.delta)

    def check(self) -> None:
        if not self.command:
            raise ValueError("command is empty; it is a list: the executable, then its arguments")
        self.consented_to(self.command)
        if self._executable() is None:
            raise ValueError(f"no executable {self.command[0]} in PATH or beside the spec")

    def code(self) -> str:
        """Return a digest of the executable and of the files among its arguments."""
        files = [self._executable(), *(one.path for one in self.command[1:])]
        parts = [super().code(), *(_digest(one) for one in files if one and one.is_file())]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    def arguments(self) -> dict[str, Any]:
        first = self.command[0]
        folder, path = first.folder.absolute(), self._executable()
        argv = [str(path.absolute() if path else first), *self.command[1:]]
        given = {"epsilon": self.epsilon, "delta": self.delta}
        return {"argv": argv, "folder": str(folder), "wait": self.wait, "given": given}

    def _executable(self) -> Path | None:
        beside = self.command[0].path
        found = shutil.which(beside) if "/" in self.command[0] else shutil.which(self.command[0])
        return None if found is None else Path(found)


def _digest(file: Path) -> str:
    return _digest_of(file, file.stat().st_mtime_ns)


@functools.lru_cache
def _digest_of(file: Path, changed: int) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
