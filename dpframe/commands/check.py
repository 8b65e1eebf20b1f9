"""Create plugin packages, check promises of plugins, and find expectations that cannot be met."""

import dataclasses
import importlib.metadata
import importlib.resources
import importlib.util
import keyword
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any

import dpframe
from dpframe.commands.audit import make_plan
from dpframe.common.machine import available_cores
from dpframe.common.text import did_you_mean, escape
from dpframe.count.plan import Plan
from dpframe.engine.resources import memory_of
from dpframe.errors import DpframeError, SpecError
from dpframe.interfaces import registry
from dpframe.interfaces.registry import KINDS, Entry, Registry, load
from dpframe.spec.audit import Audit, Cell
from dpframe.spec.sweep import read_parameters
from dpframe.testing import Finding, examined
from dpframe.testing.plugins import made


def check(loaded: Audit) -> int:
    """Look for expectations that no draws can meet; return the estimated memory of a run in bytes.

    Raises SpecError, which lists these expectations with their reasons, and DpframeError if this
    machine has too little memory.
    """
    plan = make_plan(loaded)
    unmeetable = Counter(_unmeetable(plan))
    if unmeetable:
        where = f"{loaded.source.path}: expect: " if loaded.source.path else "expect: "
        counted = [f"{text} ({n} cells)" if n > 1 else text for text, n in unmeetable.items()]
        raise SpecError([escape(f"{where}{text}") for text in counted])
    return sum(memory_of(plan, available_cores()).values())


def _unmeetable(plan: Plan) -> Iterator[str]:
    for skip in plan.skipped:
        if skip.expected is not None:
            name = " · ".join((skip.mechanism, skip.attack, skip.estimator))
            yield f"{name}: expected {skip.expected}, but left out: {skip.reason}"
    for cell, reason in plan.failed:
        if cell.expected is not None:
            yield f"{_name(cell)}: expected {cell.expected}, but cannot be run: {reason}"
    for the_pass in plan.passes:
        for cell, _ in the_pass.cells:
            if cell.expected is not None and (why := _without_verdict(cell)):
                yield f"{_name(cell)}: expected {cell.expected}, but gets no verdict: {why}"


def _without_verdict(cell: Cell) -> str | None:
    if cell.claim is None:
        return "nothing is claimed"
    if not cell.estimator.value.certifies_against(cell.claim):
        return f"{cell.estimator.label} certifies nothing here"
    return None


def _name(cell: Cell) -> str:
    return " · ".join((cell.mechanism.label, cell.attack.label, cell.estimator.label))


TARGETS = {"mechanism": ("mechanism", "pair"), "attack": ("attack", "mechanism", "pair")}
"""Kinds of plugins with which a plugin of a kind is tried; default: only its own kind."""

DEFAULT_TARGETS = {"mechanism": "laplace", "pair": "zeros-ones"}


@dataclasses.dataclass(frozen=True)
class Conformance:
    """The results of the promises of one plugin."""

    entry: Entry
    params: dict[str, Any]  # with which it was tried
    findings: tuple[Finding, ...]

    @property
    def kept(self) -> bool:
        """True if no promise is broken."""
        return all(finding.result != "broken" for finding in self.findings)


def conformance(
    name: str | None, settings: Iterable[str] = (), files: Sequence[Path] = ()
) -> list[Conformance]:
    """Check every promise of the plugins with a name or distribution/name, or of all in `files`.

    `files` are Python files with plugins in addition to the installed ones. `settings` are
    KIND.X=VALUE: parameters of the plugin, and of the mechanism and the pair that it is tried with.
    The keys `mechanism.use` and `pair.use` choose these two. Raises DpframeError if there is no
    such plugin, or it cannot be tried with these parameters.
    """
    known = registry.load(files=files)
    entries = tuple(entry for entry in known.entries if entry.distribution in known.files)
    if name is not None:
        entries = known.named(name)
    if not entries:
        raise DpframeError(
            f"{files[0].name} is a program, which has no promises to check: use it in a spec"
        )
    return [_tried(entry, known, tuple(settings)) for entry in entries]


def as_json(conformances: Sequence[Conformance]) -> list[dict[str, Any]]:
    """Return the findings as plain values."""
    return [
        {
            "kind": one.entry.kind,
            "name": one.entry.name,
            "distribution": one.entry.distribution,
            "version": one.entry.version,
            "params": one.params,
            "kept": one.kept,
            "findings": [dataclasses.asdict(finding) for finding in one.findings],
        }
        for one in conformances
    ]


def _tried(entry: Entry, known: Registry, settings: tuple[str, ...]) -> Conformance:
    kinds = TARGETS.get(entry.kind, (entry.kind,))
    given: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for text in settings:
        kind = text.partition(".")[0].strip()
        if kind not in given:
            forms = ", ".join(f"{kind}.X=VALUE" for kind in kinds)
            raise DpframeError(f"--set {text}: should be {forms}")
        given[kind] |= read_parameters(kind, [text])
    plugin = made(entry.cls, given.pop(entry.kind))
    others = {}
    for kind, params in given.items():
        if params:
            use = str(params.pop("use", DEFAULT_TARGETS[kind]))
            others[kind] = made(known.find(kind, use).cls, params)
    return Conformance(entry, plugin.params(), tuple(examined(plugin, **others)))


PLUGIN_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


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
    module = name.replace("-", "_")
    cls = "".join(part.capitalize() for part in name.split("-"))
    values = {
        "kind": kind,
        "article": "An" if kind[0] in "aeiou" else "A",
        "name": name,
        "module": module,
        # dpframe may have a class of this name.
        "cls": f"{cls}{kind.capitalize()}" if cls in dir(dpframe.plugins) else cls,
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


def _unusable(kind: str, name: str) -> str | None:
    """Return why a name cannot be used; None if it can."""
    if not PLUGIN_NAME.fullmatch(name):
        return "it must consist of lower-case letters, digits and hyphens, and begin with a letter"
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        return f"Python has something called {module}"
    if name in {entry.name for entry in load().of_kind(kind) if entry.distribution == "dpframe"}:
        return f"in a spec, this name means the built-in {kind} {name}"
    if importlib.util.find_spec(module) is not None:
        return f"a module called {module} already exists"
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return f"the distribution {name} is already installed"
