"""Find the versions of the libraries that a black box imports."""

import contextlib
import functools
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dpframe.interfaces.mechanism import ForeignMechanism

_FROM = re.compile(r"^\s*from\s+(\w+)[\w.]*\s+import\b", re.MULTILINE)
_IMPORT = re.compile(r"^\s*import\s+([\w., ]+)", re.MULTILINE)


def libraries(mechanism: Any) -> dict[str, str]:
    """Return the versions of the distributions that the code of a black box imports, by name.

    A black box in an environment has none: the record lists the packages of the environment.
    """
    if not isinstance(mechanism, ForeignMechanism):
        kind: Any = type(mechanism)
        files = _files_of(kind)
    elif mechanism.environment is None:
        files = (str(mechanism.program().path),)
    else:
        return {}
    names = _owners(frozenset().union(*map(_imports, files)))
    return {name: importlib.metadata.version(name) for name in names}


@functools.cache
def _owners(packages: frozenset[str]) -> tuple[str, ...]:
    """Return the names of the distributions that own some packages, sorted.

    A distribution with the name of a package, such as numpy, is looked at first. If it owns the
    package, no other list of files is read.
    """
    owners = set()
    unowned = set(packages)
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            one = importlib.metadata.distribution(package)
            if _owns(one, {package}):
                owners.add(one.metadata["Name"])
                unowned.remove(package)
    for one in importlib.metadata.distributions() if unowned else ():
        if _owns(one, unowned):
            owners.add(one.metadata["Name"])
    return tuple(sorted(owners))


def _owns(distribution: importlib.metadata.Distribution, packages: Collection[str]) -> bool:
    """True if a distribution has one of some packages.

    `packages_distributions` parses every list of files, which takes .1 s longer, and leaves out
    extension modules before Python 3.12.
    """
    declared = (distribution.read_text("top_level.txt") or "").split()
    if declared:
        return not set(packages).isdisjoint(declared)
    files = distribution.read_text("RECORD")
    if files is None:  # an older way to install
        files = "".join(f"{file},\n" for file in distribution.files or ())
    names = "|".join(map(re.escape, sorted(packages)))
    return bool(re.search(rf'^"?(?:{names})(?:[./].*)?\.(?:py|so|pyd)"?,', files, re.MULTILINE))


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
    packages = set(_FROM.findall(text))
    for names in _IMPORT.findall(text):
        packages.update(
            name.split()[0].partition(".")[0] for name in names.split(",") if name.strip()
        )
    return frozenset(packages - {"", "dpframe", *sys.stdlib_module_names})


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
