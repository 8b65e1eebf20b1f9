"""Public callables of a package: their parameters, budgets and documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

EPSILONS = re.compile(
    r"(target_|total_|privacy_|dp_)?(epsilons?|eps|privacy_?budget|budget)(_(total|perm|1|2|inf))?"
)
DELTAS = re.compile(r"(target_|total_)?deltas?")
OTHERS = {"rho": "rho", "noise_multiplier": "mu", "sigma": "mu"}
"""Names of other budgets, with the claims that they make."""


class Parameter(NamedTuple):
    """A parameter of a callable."""

    name: str
    kind: str
    required: bool
    default: Any
    annotation: str
    doc: str  # its part of the docstring

    @property
    def budget(self) -> str:
        """The kind of budget that it names: "epsilon", "delta", "rho", "mu", or ""."""
        name = self.name.lower()
        if EPSILONS.fullmatch(name):
            return "epsilon"
        return "delta" if DELTAS.fullmatch(name) else OTHERS.get(name, "")

    @property
    def text(self) -> str:
        """Annotation and first line of the description."""
        return f"{self.annotation} {self.doc.partition(chr(10))[0]}".lower()


class Method(NamedTuple):
    """A method of a class."""

    name: str
    parameters: tuple[Parameter, ...]


class Target(NamedTuple):
    """A public callable of a package."""

    name: str  # dotted
    is_class: bool
    parameters: tuple[Parameter, ...]
    doc: str
    bases: tuple[str, ...] = ()
    abstract: bool = False
    methods: tuple[Method, ...] = ()

    @property
    def title(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]

    @property
    def budgets(self) -> list[str]:
        """Names of the parameters that are budgets: its own, else those of its methods."""
        own = [one.name for one in self.parameters if one.budget]
        if own or not self.is_class:
            return own
        return [p.name for method in self.methods for p in method.parameters if p.budget]

    @property
    def is_audited(self) -> bool:
        """True if a scan may call it: it has a budget, and can be made."""
        made = {"BaseException", "Enum", "Protocol"}
        return bool(self.budgets) and not (self.abstract or made & {*self.bases})


def target_of(description: Mapping[str, Any]) -> Target:
    """Read the description of a callable that the program in `programs` wrote."""
    doc = description["doc"]
    return Target(
        description["name"],
        description["kind"] == "class",
        _parameters(description["parameters"], doc),
        doc,
        tuple(description.get("bases", ())),
        bool(description.get("abstract")),
        tuple(
            Method(one["name"], _parameters(one["parameters"], one["doc"] + "\n" + doc))
            for one in description.get("methods", ())
        ),
    )


def _parameters(entries: Sequence[Mapping[str, Any]], doc: str) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            one["name"],
            one["kind"],
            "default" not in one and not one["kind"].startswith("VAR_"),
            one.get("default"),
            str(one.get("annotation", "")),
            described(one["name"], doc),
        )
        for one in entries
        if not one["kind"].startswith("VAR_")
    )


def described(name: str, doc: str) -> str:
    """Return what a docstring says of a parameter: NumPy's, Google's or Sphinx's style."""
    patterns = (
        rf"^{re.escape(name)} ?: ?(.*(?:\n+[ ]+.*)*)",
        rf"^ +{re.escape(name)} ?(?:\(.*?\))?: ?(.*(?:\n {{6,}}.*)*)",
        rf":param (?:\w+ )?{re.escape(name)}: ?(.*(?:\n[ ]+.*)*)",
    )
    for pattern in patterns:
        if match := re.search(pattern, doc, re.MULTILINE):
            return match.group(0 if "(" in match.group(0).partition(":")[0] else 1)
    return ""
