"""Files named by specs and Python files named on the command line as plugins."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import importlib
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.common.files import NotReadableError, read_regular
from dpframe.common.text import error_message, escape
from dpframe.errors import PluginError

if TYPE_CHECKING:
    from pydantic_core import core_schema

# Files that a spec names: relative to the spec, wherever the program runs.


_SPEC: contextvars.ContextVar[tuple[Path, bool]] = contextvars.ContextVar(
    "spec", default=(Path(), False)
)


@contextlib.contextmanager
def beside(folder: Path, allow_command: bool = False) -> Iterator[None]:
    """Within this context, files named by parameters are relative to a folder.

    They may be commands that run if `allow_command` is true.
    """
    token = _SPEC.set((folder, allow_command))
    try:
        yield
    finally:
        _SPEC.reset(token)


class SpecFile(str):
    """The type of a parameter that names a file, relative to the spec that gives it.

    The string is the text as written, which records repeat; `path` is the location of the file.
    Without a spec, as in a notebook, it is relative to the working directory.
    """

    __slots__ = ("allow_command", "folder")

    folder: Path
    allow_command: bool
    """True if whoever runs the spec allows the commands that it names."""

    def __new__(
        cls, written: str, folder: Path | None = None, allow_command: bool = False
    ) -> SpecFile:
        made = super().__new__(cls, written)
        spec = _SPEC.get() if folder is None else (folder, allow_command)
        made.folder, made.allow_command = spec
        return made

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / self

    def read(self, most: int) -> bytes:
        """Return the content of the file.

        Args:
            most: largest accepted size in bytes.

        Raises:
            ValueError: it is missing, cannot be read, is too large, or is not in the folder of the
                spec file that names it; the message is for the user.
        """
        if self.folder.is_absolute() and not self.path.resolve().is_relative_to(
            self.folder.resolve()
        ):
            raise ValueError(f"{self}: a spec reads only files in its own folder; put it there")
        try:
            return read_regular(self.path, most)
        except FileNotFoundError:
            where = "" if self.path.is_absolute() else f" in {self.folder.absolute()}"
            raise ValueError(
                f"{self}: no such file{where}; paths are relative to the spec"
            ) from None
        except IsADirectoryError:
            raise ValueError(f"{self}: is a directory") from None
        except NotReadableError as error:
            raise ValueError(f"{self}: {error}") from None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SpecFile):
            return str.__eq__(self, other) and self.folder == other.folder
        return str.__eq__(self, other) if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:  # str has one of its own
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> Any:
        return SpecFile, (str(self), self.folder, self.allow_command)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.str_schema(min_length=1),
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema()
            ),
        )


# Python files that a command line names as plugins: read once, and the same in every process.


# Prefix of their module names, so that they hide no other module.
PREFIX = "dpframe_file_"
CODE = "__dpframe_code__"  # attribute of such a module with the digest of its code


class PluginFile(NamedTuple):
    """A Python file with plugins that the command line names."""

    module: str
    """Name of the module that it becomes."""
    path: str
    """Absolute."""
    digest: str
    """First 16 hex digits of the SHA-256 of its bytes."""

    @property
    def name(self) -> str:
        """The name in records and messages, without its folder."""
        return Path(self.path).name


_given: dict[str, PluginFile] = {}  # by the names of their modules
# Modules imported before the first file was run, so not by any file.
_before: set[str] = set()


def loaded(path: Path) -> tuple[PluginFile, ModuleType]:
    """Run a file as a module, unless it was run before.

    The file can import modules beside it; installed modules take precedence.

    Raises:
        PluginError: it is missing, is not Python, or raises an exception.
    """
    name = PREFIX + re.sub(r"\W", "_", path.stem)
    file = PluginFile(name, str(path.resolve()), _digest(source_of(path)))
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
    """Return all given files, for `offer` in another process."""
    return list(_given.values())


def offer(files: Iterable[Iterable[str]]) -> None:
    """Make files importable as modules in this process, without running them."""
    for file in (PluginFile(*each) for each in files):
        _given[file.module] = file
        if (folder := str(Path(file.path).parent)) not in sys.path:
            sys.path.append(folder)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


class _Finder:
    """Finds the files that `offer` has made importable."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        file = _given.get(fullname)
        if file is None:
            return None
        loader = _Loader(fullname, file.path)
        return importlib.util.spec_from_file_location(fullname, file.path, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the current content, because a cache may be up to a second out of date."""

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path)
        if _digest(source) != _given[fullname].digest:
            raise ImportError(f"{Path(self.path).name} has changed since the run began")
        return self.source_to_code(source, self.path)


def source_of(path: Path) -> bytes:
    """Read a file; raises PluginError if that is impossible."""
    if path.suffix != ".py":
        raise PluginError(f"--plugin {path}: should be a Python file, FILE.py")
    try:
        return path.read_bytes()
    except OSError as error:
        raise PluginError(f"--plugin {path}: {(error.strerror or str(error)).lower()}") from None


def _explained(path: Path, error: BaseException) -> str:
    """Describe an error in a file, and its place."""
    if isinstance(error, SyntaxError) and error.lineno:
        where = path if Path(error.filename or "").name == path.name else Path(str(error.filename))
        line = escape((error.text or "").strip())
        return f"{where}:{error.lineno}: {error.msg}" + (f"\n   {line}" if line else "")
    return f"{path}: {error_message(error)}"


def _code_of(file: PluginFile) -> str:
    """Return a digest of the file and of the modules that it imported from its folder."""
    folder = Path(file.path).parent
    beside = {
        file_of_module
        for name, module in list(sys.modules.items())
        if name not in _before
        if (file_of_module := _source_of(module)) and Path(file_of_module).is_relative_to(folder)
    }
    parts = [file.digest, *(_digest(Path(one).read_bytes()) for one in sorted(beside))]
    return _digest("".join(parts).encode())


def _source_of(module: Any) -> str | None:
    """Return the Python file of a module that is not installed; None for other modules."""
    source = getattr(module, "__file__", None)
    if not isinstance(source, str) or not source.endswith(".py") or not Path(source).is_file():
        return None
    installed = {"site-packages", "dist-packages"} & {*Path(source).parts}
    return None if installed else source


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
