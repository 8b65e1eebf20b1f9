"""Python files that a command line names as plugins: read once, and the same in every process."""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.blame import blame
from dpframe.errors import PluginError
from dpframe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PREFIX = "dpframe_file_"
"""What the names of their modules begin with: such a name hides no other module."""

CODE = "__dpframe_code__"
"""Name in such a module under which the digest of its code stands."""


class PluginFile(NamedTuple):
    """A file that was given."""

    module: str
    """Name of the module that it becomes."""
    path: str
    """Absolute."""
    digest: str
    """Of its bytes; hex digits."""

    @property
    def name(self) -> str:
        """What records and messages call it; whoever reads them need not know its folder."""
        return Path(self.path).name


_given: dict[str, PluginFile] = {}
"""By the names of their modules."""
_before: set[str] = set()
"""Modules that were there before the first file was run: no file has brought them."""


def loaded(path: Path) -> tuple[PluginFile, ModuleType]:
    """Runs a file as a module, unless that has been done.

    What stands beside it can be imported, after everything that is installed.

    Raises:
        PluginError: it is not there, is no Python, or raises.
    """
    file = _found(path)
    if _given.get(file.module) == file and file.module in sys.modules:
        return file, sys.modules[file.module]
    sys.modules.pop(file.module, None)
    _before.update(() if _before else sys.modules)
    offer([file])
    try:
        module = importlib.import_module(file.module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # exit() too: a file must not end the program
        _given.pop(file.module, None)
        raise PluginError(f"--plugin {_explained(path, error)}") from error
    setattr(module, CODE, _code_of(file))
    return file, module


def given() -> list[PluginFile]:
    """All files, for another process to `offer`."""
    return list(_given.values())


def offer(files: Iterable[Iterable[str]]) -> None:
    """Makes the modules of some files importable in this process; runs none of them."""
    for file in (PluginFile(*each) for each in files):
        _given[file.module] = file
        if (folder := str(Path(file.path).parent)) not in sys.path:
            sys.path.append(folder)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the files that were given."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        file = _given.get(fullname)
        if file is None:
            return None
        loader = _Loader(fullname, file.path)
        return importlib.util.spec_from_file_location(fullname, file.path, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles what the file holds now, without a cache that may be older by less than a second."""

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path)
        if _digest(source) != _given[fullname].digest:
            raise ImportError(f"{Path(self.path).name} has changed since the run began")
        return self.source_to_code(source, self.path)


def source_of(path: Path) -> bytes:
    """What a file holds; raises PluginError where that cannot be had."""
    if path.suffix != ".py":
        raise PluginError(f"--plugin {path}: should be a Python file, FILE.py")
    try:
        return path.read_bytes()
    except OSError as error:
        raise PluginError(f"--plugin {path}: {(error.strerror or str(error)).lower()}") from None


def _found(path: Path) -> PluginFile:
    source = source_of(path)
    module = PREFIX + re.sub(r"\W", "_", path.stem)
    return PluginFile(module, str(path.resolve()), _digest(source))


def _explained(path: Path, error: BaseException) -> str:
    """What is wrong with a file, and where."""
    if isinstance(error, SyntaxError) and error.lineno:
        where = path if Path(error.filename or "").name == path.name else Path(str(error.filename))
        line = printable((error.text or "").strip())
        return f"{where}:{error.lineno}: {error.msg}" + (f"\n   {line}" if line else "")
    return f"{path}: {blame(error)}"


def _code_of(file: PluginFile) -> str:
    """Digest of the file and of what it has imported from its own folder."""
    folder = Path(file.path).parent
    beside = {
        found
        for name, module in list(sys.modules.items())
        if name not in _before
        if (found := _source_of(module)) and Path(found).is_relative_to(folder)
    }
    parts = [file.digest, *(_digest(Path(one).read_bytes()) for one in sorted(beside))]
    return _digest("".join(parts).encode())


def _source_of(module: Any) -> str | None:
    """The Python file of a module that nobody installed."""
    found = getattr(module, "__file__", None)
    if not isinstance(found, str) or not found.endswith(".py") or not Path(found).is_file():
        return None
    installed = {"site-packages", "dist-packages"} & {*Path(found).parts}
    return None if installed else found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
