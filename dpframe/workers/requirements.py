"""Compare the requirements of a black box with a machine that is to draw from it."""

import functools
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpframe import environments as places
from dpframe.environments import Environment, NoAnswerError
from dpframe.interfaces.executor import RefusedError
from dpframe.interfaces.mechanism import ForeignMechanism, consent

_FROM = re.compile(r"^\s*from\s+(\w+)[\w.]*\s+import\b", re.MULTILINE)
_IMPORT = re.compile(r"^\s*import\s+([\w., ]+)", re.MULTILINE)


class Requirements(NamedTuple):
    """Versions and code that must be the same wherever a box is drawn."""

    libraries: Mapping[str, str] = {}
    """Versions of the distributions that its code imports, by name."""
    program: tuple[str, str] | None = None
    """Path of the program that it runs, and digest of its code."""
    environment: Environment | None = None  # the environment of the program
    folder: str = ""
    """Path of its interpreter below the directory of all environments; "" if it is elsewhere."""


def requirements(mechanisms: tuple[Any, ...], environments: Iterable[Environment]) -> Requirements:
    """Return the requirements of boxes of one kind: the versions and code of this machine."""
    first = mechanisms[0]
    if not isinstance(first, ForeignMechanism):
        kind: Any = type(first)
        return Requirements(_libraries(_files_of(kind)))
    path = first.program().path
    program = str(path), first.code()
    if first.environment is None:
        return Requirements(_libraries((str(path),)), program)
    found = next((one for one in environments if one.name == first.environment), None)
    folder = ""
    if found is not None and Path(found.interpreter).is_relative_to(places.root()):
        folder = str(Path(found.interpreter).relative_to(places.root()))
    return Requirements({}, program, found, folder)


def check(mechanisms: tuple[Any, ...], required: Requirements) -> dict[str, str]:
    """Return the interpreters that a box needs on this machine, by the names of environments.

    Raises RefusedError if something is missing, or is another version.
    """
    if why := differences(_versions(tuple(required.libraries)), required.libraries):
        raise RefusedError(f"a worker has {why}")
    if required.program is not None:
        _check_program(mechanisms[0], *required.program)
    if required.environment is None:
        return {}
    return {required.environment.name: _interpreter(required.environment, required.folder)}


def differences(here: Mapping[str, str], run: Mapping[str, str]) -> str:
    """Describe the versions that differ from those of the run; "" if none does."""
    return ", ".join(
        f"{name} {here.get(name) or 'not at all'}, but the run has {version}"
        for name, version in run.items()
        if here.get(name) != version
    )


def _check_program(mechanism: Any, path: str, digest: str) -> None:
    name = Path(path).name
    if not Path(path).is_file():
        raise RefusedError(f"a worker does not have the program {name} where the run has it")
    consent(Path(path))  # the user who started the run has named the program
    try:
        found = mechanism.code()
    except (OSError, ValueError) as error:
        raise RefusedError(f"a worker cannot read the program {name}: {error}") from None
    if found != digest:
        raise RefusedError(f"a worker has a different program {name}")


def _interpreter(wanted: Environment, folder: str) -> str:
    candidates = [str(places.root() / folder)] if folder else []
    problem = "it does not exist there (dpframe environments build makes it)"
    for path in dict.fromkeys([*candidates, wanted.interpreter]):
        if not Path(path).exists():
            continue
        try:
            version, installed = _told_by(path)
        except NoAnswerError as error:
            problem = str(error)
            continue
        if (version, installed) == (wanted.python, wanted.installed):
            return path
        if version != wanted.python:
            problem = f"it is Python {version}, but the run has {wanted.python}"
        else:
            odd = ", ".join(sorted({*installed} ^ {*wanted.installed})[:4])
            problem = f"other packages are installed than in that of the run ({odd})"
    raise RefusedError(f"a worker cannot use the environment {wanted.name!r}: {problem}")


_told_by = functools.cache(places.ask)


def _libraries(files: tuple[str, ...]) -> dict[str, str]:
    """Return versions of the distributions that some files import, anywhere in them."""
    names = _owners(frozenset().union(*map(_imports, files)))
    return {name: version for name, version in _versions(names).items() if version}


@functools.cache
def _owners(packages: frozenset[str]) -> tuple[str, ...]:
    """Return the names of the distributions that own some packages, sorted.

    `packages_distributions` parses every list of files, which takes .1 s longer, and leaves out
    extension modules before Python 3.12.
    """
    names = "|".join(map(re.escape, sorted(packages)))
    listed = re.compile(rf'^"?(?:{names})(?:[./].*)?\.(?:py|so|pyd)"?,', re.MULTILINE)
    found = set()
    for one in importlib.metadata.distributions() if packages else ():
        declared = (one.read_text("top_level.txt") or "").split()
        files = "" if declared else one.read_text("RECORD")
        if files is None:  # an older way to install
            files = "".join(f"{file},\n" for file in one.files or ())
        if not packages.isdisjoint(declared) or listed.search(files):
            found.add(one.metadata["Name"])
    return tuple(sorted(found))


@functools.cache
def _imports(file: str) -> frozenset[str]:
    """Return the packages whose names follow `import` or `from`.

    The file is read as text, because Python 3.11 cannot parse on several threads at once. Names
    that only look like imports belong to no distribution.
    """
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = set(_FROM.findall(text))
    for names in _IMPORT.findall(text):
        found.update(name.split()[0].partition(".")[0] for name in names.split(",") if name.strip())
    return frozenset(found - {"", "dpframe", *sys.stdlib_module_names})


@functools.cache
def _files_of(cls: type) -> tuple[str, ...]:
    """Return the files of the package or module that defines a class; none of dpframe."""
    top = cls.__module__.partition(".")[0]
    folders = getattr(sys.modules.get(top), "__path__", None)
    if top == "dpframe":
        return ()
    try:
        if folders:
            return tuple(str(file) for one in folders for file in sorted(Path(one).rglob("*.py")))
        return (inspect.getfile(cls),)
    except (OSError, TypeError):
        return ()


@functools.cache
def _versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of distributions; "" for those that are not installed."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found
