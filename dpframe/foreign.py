"""The public boundary for black boxes that are plain modules, in this interpreter or another."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpframe.mechanism import HostMechanism
from dpframe.plugin import gives
from dpframe.program_files import ProgramFile, defines

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


class ForeignMechanism(HostMechanism):
    """A black box that is a plain module without dpframe, and so runs in any interpreter.

    The module defines `prepare(params, data)`, which returns a function of no arguments that makes
    one release. It may define `seed(n)`, called before every chunk of releases; otherwise it draws
    its randomness from wherever it likes. With `query(params, data)`, what it would release without
    noise, and `sensitivity(params)`, what its noise is made for, or a `sensitivity` of the class,
    changes of the query are checked exactly. Python 3.8
    and later can run it, in a worker process of its own with one thread; it needs nothing installed
    but what it imports.

    An author names the module: `class Mine(ForeignMechanism, name="mine")` with `module =
    "mine_box.py"`, a path beside the file that defines the class.
    """

    environment: str | None = None
    """Where it runs: a name in [environments], or of --python; default: this interpreter."""

    module: ClassVar[str | os.PathLike[str]]
    """Path of the module; if relative, beside the file that defines the class."""

    seedable: ClassVar[bool] = False
    """True where the module draws all its randomness from `random`, `numpy.random` or `seed`."""

    @classmethod
    def check_definition(cls) -> None:
        super().check_definition()
        if not gives(cls, "module"):
            raise TypeError(f'{cls.__name__}: a foreign mechanism says module = "FILE.py"')

    def has_query(self) -> bool:
        """Whether the module defines `query`, and it or the class what its noise is made for."""
        try:
            source = self.program().path.read_bytes()
        except (OSError, ValueError):
            return False
        said = gives(type(self), "sensitivity") or defines(source, "sensitivity")
        return said and defines(source, "query")

    @classmethod
    def _file(cls) -> Path:
        home = getattr(sys.modules.get(cls.__module__), "__file__", None)
        return Path(home or ".").parent / cls.module

    def program(self) -> ProgramFile:
        """The module's file; raises ValueError where it is not known."""
        return ProgramFile(self._file())

    @staticmethod
    def consented(path: Path) -> ProgramFile:
        """A file that the command line names too; raises ValueError where it does not."""
        return ProgramFile.consented(path)

    def code(self) -> str:
        """Digest of the program; part of what stored counts are known by."""
        return self.program().digest

    def arguments(self) -> dict[str, Any]:
        """What `prepare` gets as `params`: by default the parameters, without the environment."""
        return {name: value for name, value in self.params().items() if name != "environment"}

    def prepare(self, data: Any) -> Any:
        """Where dpframe itself asks, without a worker: as the module does."""
        if self.environment is not None:
            raise RuntimeError(f"it runs in the environment {self.environment!r} only")
        return _imported(self.program().path).prepare(self.arguments(), data)

    def query(self, data: Any) -> Any:
        """What the module's `query(params, data)` gives: its release without noise."""
        return _imported(self.program().path).query(self.arguments(), data)

    def release(self, rng: np.random.Generator, data: Callable[[], Any]) -> Any:
        """One release of what `prepare` gave; `rng` is not used."""
        return data()


def _imported(path: Path) -> Any:
    name = f"dpframe_program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
