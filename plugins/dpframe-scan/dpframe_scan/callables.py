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
    sentences: str = ""  # of the docstring that name it
    no_budget: str = ""
    """The reason why it is no budget although it has the name of one."""

    @property
    def named(self) -> str:
        """The kind of budget that it names: "epsilon", "delta", "rho", "mu", or ""."""
        name = self.name.lower()
        if EPSILONS.fullmatch(name):
            return "epsilon"
        return "delta" if DELTAS.fullmatch(name) else OTHERS.get(name, "")

    @property
    def budget(self) -> str:
        """The kind of budget that it is, or ""."""
        return "" if self.no_budget else self.named

    @property
    def is_private(self) -> bool:
        """True if its documentation says that it is about privacy."""
        own = self.doc or self.sentences
        return bool(re.search(r"privacy|private|budget|\bl?dp\b|zcdp", own, re.I))

    @property
    def text(self) -> str:
        """Annotation and first line of the description."""
        return f"{self.annotation} {self.doc.partition(chr(10))[0]}".lower()


class Method(NamedTuple):
    """A method of a class."""

    name: str
    parameters: tuple[Parameter, ...]
    doc: str = ""


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
        methods = [one for method in self.methods for one in method.parameters]
        losses = [
            one
            for one in (*self.parameters, *methods)
            if one.budget and (one.budget != "delta" or one.is_private)
        ]
        return [one.name for one in self._named if one.budget] if losses else []

    @property
    def no_budgets(self) -> list[str]:
        """The parameters that only have the name of a budget, each with the reason."""
        alone = "a δ without an ε is not documented as one"
        return list(dict.fromkeys(f"{p.name}: {p.no_budget or alone}" for p in self._named))

    @property
    def _named(self) -> list[Parameter]:
        own = [one for one in self.parameters if one.named]
        if own or not self.is_class:
            return own
        return [p for method in self.methods for p in method.parameters if p.named]

    @property
    def is_audited(self) -> bool:
        """True if a scan lists it: it has what is named like a budget, and can be made."""
        made = {"BaseException", "Enum", "Protocol"}
        return bool(self._named) and not (self.abstract or made & {*self.bases})

    @property
    def words(self) -> str:
        """Its dotted name and its documentation."""
        return f"{self.name} {self.doc}"


def target_of(description: Mapping[str, Any]) -> Target:
    """Read the description of a callable that the program in `programs` wrote."""
    doc, name = description["doc"], description["name"]
    return Target(
        name,
        description["kind"] == "class",
        _parameters(description["parameters"], doc, name),
        doc,
        tuple(description.get("bases", ())),
        bool(description.get("abstract")),
        tuple(
            Method(
                one["name"],
                _parameters(one["parameters"], one["doc"] + "\n" + doc, name),
                one["doc"],
            )
            for one in description.get("methods", ())
        ),
    )


def _parameters(entries: Sequence[Mapping[str, Any]], doc: str, name: str) -> tuple[Parameter, ...]:
    found = (
        Parameter(
            one["name"],
            one["kind"],
            "default" not in one,
            one.get("default"),
            str(one.get("annotation", "")),
            described(one["name"], doc),
            " ".join(re.findall(rf"[^.\n]*\b{re.escape(one['name'])}\b[^.\n]*", doc)),
        )
        for one in entries
        if not one["kind"].startswith("VAR_")
    )
    words = f"{name} {doc}"
    return tuple(one._replace(no_budget=_why_no_budget(one, words)) for one in found)


PRIVACY = re.compile(
    r"priva|differential|(?<![a-z])[lu]?dp|dp(?![a-z])|laplac|gaussian mech|nois[ey]|anonym|sanitiz"
    r"|perturb|randomi[sz]ed? resp|concentrated",
    re.I,
)
"""Words of a name or of documentation in which a budget is one of privacy."""

NO_BUDGET = re.compile(
    r"toleranc|numerical|stabili|radius|(division|divide|dividing) by|to avoid|converge|stopping"
    r"|distance|within which|exploration|greedy|tube|insensitive|adversar|finite.differ"
    r"|optimi[sz]er|small (constant|number|value|positive)|correlation|bandwidth|huber",
    re.I,
)
"""Words with which the documentation of a parameter says that it is another quantity."""

SMALLEST_BUDGET = 1e-3
"""A default ε up to this one is a constant of numerical mathematics."""


def _why_no_budget(one: Parameter, words: str) -> str:
    """Return the reason why a parameter is no budget although it has the name of one, or ""."""
    own = one.doc or one.sentences
    if not one.named or one.is_private:
        return ""
    if match := NO_BUDGET.search(own):
        return f"its documentation speaks of {match.group(0).lower()!r}"
    number = isinstance(one.default, int | float) and not isinstance(one.default, bool)
    if one.named == "epsilon" and number and one.default <= SMALLEST_BUDGET:
        return f"its default, {one.default:g}, is that of a numerical constant"
    if one.named in ("rho", "mu") and not PRIVACY.search(words):
        return "nothing says that it is about privacy"
    return ""


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
