"""Create a plugin package, ready to be installed, tested and changed."""

import importlib.metadata
import importlib.resources
import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template

import dpframe
from dpframe.common.text import did_you_mean
from dpframe.errors import DpframeError
from dpframe.interfaces.registry import KINDS, load

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def new(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the package of a plugin into a new or empty folder; return its files, the module first.

    The distribution and the plugin get the name: lower-case letters, digits and hyphens. Raises
    DpframeError if the kind or the name cannot be used, or the folder contains something.
    """
    if kind not in KINDS:
        raise DpframeError(
            f"unknown kind {kind!r}; choose one of {', '.join(KINDS)}{did_you_mean(KINDS, kind)}"
        )
    if problem := _unusable(kind, name):
        raise DpframeError(f"{name!r} cannot be the plugin's name: {problem}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DpframeError(f"{folder}: already exists, and nothing is overwritten")
    written = []
    for path, text in _files(kind, name):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def _files(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the path and content of every file."""
    module = _module(name)
    values = {
        "kind": kind,
        "article": "An" if kind[0] in "aeiou" else "A",
        "name": name,
        "module": module,
        "cls": _class_name(name, kind),
    }
    templates = importlib.resources.files("dpframe") / "templates"
    for template, path in (
        (f"{kind}/module.py", f"{module}.py"),
        (f"{kind}/test.py", f"tests/test_{module}.py"),
        (f"{kind}/spec.toml", f"{name}.toml"),
        ("common/pyproject.toml", "pyproject.toml"),
        ("common/README.md", "README.md"),
    ):
        text = templates.joinpath(f"{template}.txt").read_text(encoding="utf-8")
        yield path, Template(text).substitute(values)


def _module(name: str) -> str:
    return name.replace("-", "_")


def _class_name(name: str, kind: str) -> str:
    """Return the class name, with its kind as a suffix if dpframe has a class of this name."""
    found = "".join(part.capitalize() for part in name.split("-"))
    return f"{found}{kind.capitalize()}" if found in dir(dpframe.plugins) else found


def _unusable(kind: str, name: str) -> str | None:
    """Return why a name cannot be used; None if it can."""
    if not NAME.fullmatch(name):
        return "it must consist of lower-case letters, digits and hyphens, and begin with a letter"
    module = _module(name)
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        return f"Python has something called {module}"
    if name in {entry.name for entry in load().of_kind(kind) if entry.distribution == "dpframe"}:
        return f"dpframe has {kind} {name}, which is what the name means in a spec"
    if importlib.util.find_spec(module) is not None:
        return f"a module called {module} already exists"
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return f"the distribution {name} is already installed"
