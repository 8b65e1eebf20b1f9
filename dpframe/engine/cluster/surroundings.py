"""What a black box needs where it is drawn: its program, its libraries, its environment."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.engine.addresses.address import digest
from dpframe.engine.cluster.parts import Refused
from dpframe.environments import place
from dpframe.environments.place import NoAnswerError
from dpframe.foreign import ForeignMechanism
from dpframe.program_files import consent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpframe.engine.boxes.lending import Load
    from dpframe.environments.model import Environment


_FROM = re.compile(r"^\s*from\s+(\w+)[\w.]*\s+import\b", re.MULTILINE)
_IMPORT = re.compile(r"^\s*import\s+([\w., ]+)", re.MULTILINE)


class Needed(NamedTuple):
    """What has to be the same where a box is drawn."""

    libraries: Mapping[str, str] = {}
    """Versions of the distributions that its code imports, by their names."""
    program: tuple[str, str] | None = None
    """Path of the program that it runs, and digest of its code."""
    environment: Environment | None = None
    """Where that runs."""
    folder: str = ""
    """Its interpreter below the directory of all environments; "" if it lies elsewhere."""


def needed(mechanisms: tuple[Any, ...], environments: Iterable[Environment]) -> Needed:
    """What boxes of one kind need, as it is here.

    Args:
        mechanisms: of a load.
        environments: of the run.
    """
    first = mechanisms[0]
    if not isinstance(first, ForeignMechanism):
        kind: Any = type(first)
        return Needed(_libraries(_files_of(kind)))
    path = first.program().path
    program = str(path), first.code()
    if first.environment is None:
        return Needed(_libraries((str(path),)), program)
    found = next((one for one in environments if one.name == first.environment), None)
    folder = ""
    if found is not None and Path(found.interpreter).is_relative_to(place.root()):
        folder = str(Path(found.interpreter).relative_to(place.root()))
    return Needed({}, program, found, folder)


def kind_of(load: Load) -> str:
    """What boxes have in common that the same workers can draw; to be read up to a #."""
    first: Any = load.content[0][0]
    own: list[Any] = [type(first).__module__, type(first).__qualname__, id(type(first))]
    where = ""
    if isinstance(first, ForeignMechanism):
        own.append(str(first.program().path))
        where = f" in {first.environment}" if first.environment else ""
    return f"{type(first).name}{where}#{digest(own)}"


def check(mechanisms: tuple[Any, ...], wanted: Needed) -> dict[str, str]:
    """The interpreters that a box needs here, by the names of environments.

    Raises:
        Refused: something is missing here, or is another version.
    """
    here = _versions(tuple(wanted.libraries))
    if differences := [
        f"{name} {here[name] or 'not at all'} where the run has {version}"
        for name, version in wanted.libraries.items()
        if here[name] != version
    ]:
        raise Refused("a worker has " + ", ".join(differences))
    if wanted.program is not None:
        _check_program(mechanisms[0], *wanted.program)
    if wanted.environment is None:
        return {}
    return {wanted.environment.name: _interpreter(wanted.environment, wanted.folder)}


def _check_program(mechanism: Any, path: str, digest: str) -> None:
    name = Path(path).name
    if not Path(path).is_file():
        raise Refused(f"a worker does not have the program {name} where the run has it")
    consent(Path(path))  # whoever started the run has named it
    try:
        found = mechanism.code()
    except (OSError, ValueError) as error:
        raise Refused(f"a worker cannot read the program {name}: {error}") from None
    if found != digest:
        raise Refused(f"a worker has another program {name} than the run")


def _interpreter(wanted: Environment, folder: str) -> str:
    places = [str(place.root() / folder)] if folder else []
    problem = "it is not there (dpframe environments build builds it)"
    for path in dict.fromkeys([*places, wanted.interpreter]):
        if not Path(path).exists():
            continue
        try:
            version, installed = _told_by(path)
        except NoAnswerError as error:
            problem = str(error)
            continue
        if (version, installed) == (wanted.python, wanted.installed):
            return path
        problem = _difference(version, installed, wanted)
    raise Refused(f"a worker cannot use the environment {wanted.name!r}: {problem}")


def _difference(version: str, installed: tuple[str, ...], wanted: Environment) -> str:
    if version != wanted.python:
        return f"it is Python {version} where the run has {wanted.python}"
    odd = sorted({*installed} ^ {*wanted.installed})
    return f"other packages are installed than in that of the run ({', '.join(odd[:4])})"


_told_by = functools.cache(place.ask)


def _libraries(files: tuple[str, ...]) -> dict[str, str]:
    """Versions of the distributions that some files import, anywhere in them."""
    imported = {name for file in files for name in _imports(file)}
    owners = _owners()
    names = {one for name in imported for one in owners.get(name, ())}
    return {name: version for name, version in _versions(tuple(sorted(names))).items() if version}


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def _imports(file: str) -> frozenset[str]:
    """Packages whose names stand after `import` or `from`.

    Read as text: Python 3.11 cannot parse on several threads at once. What only looks like an
    import belongs to no distribution.
    """
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = set(_FROM.findall(text))
    for names in _IMPORT.findall(text):
        found.update(name.split()[0].partition(".")[0] for name in names.split(",") if name.strip())
    return frozenset(found - {"dpframe", *sys.stdlib_module_names})


@functools.cache
def _files_of(cls: type) -> tuple[str, ...]:
    """The files of the package, or the module, that defines a class; none of dpframe."""
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
    """Of distributions; "" of those that are not here."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found
