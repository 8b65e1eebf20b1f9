"""Ways to call a callable, with everything that a scan assumes about it.

`trials` tries them, and `repairs` changes one after an exception.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dpframe_scan.callables import Method, Parameter, Target
from dpframe_scan.data_plans import SCORE_NAMES, Context, DataPlan, Relation, data_plans
from dpframe_scan.settings import HIGH, LOW, SOURCES, expressions, is_passed, role_of

DELTA = 1e-3  # if a callable requires a δ
BOUNDED = f"Numbers in the data lie between {LOW:g} and {HIGH:g}, as is passed to the callable."


@dataclasses.dataclass(frozen=True)
class Proposal:
    """One way to call a callable, with everything that a scan assumes about it."""

    target: str
    """Dotted name of the callable."""
    arguments: Mapping[str, str]
    """Expressions by parameter, of a function or a constructor; data are in `data`."""
    claim: Mapping[str, float]
    """epsilon and delta, or rho, or mu."""
    data: DataPlan
    method: str = ""
    """Method of an object that takes the data; "" for a function."""
    of_method: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Further arguments of the method."""
    setters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Arguments of methods that are called before it, such as `set_epsilon.epsilon`."""
    answer: tuple[str, ...] = ()
    """Attributes of the object that are released; none if the result of the call is."""
    in_constructor: bool = False
    """True if the constructor takes the data."""
    assumed: tuple[str, ...] = ()
    """Sentences about budgets and the claim."""
    option: str = ""
    """The option in which it differs from the defaults, for its name."""
    conditions: tuple[str, ...] = ()
    """Guesses on which a violation depends, each after "if"; see `guesses`."""

    @property
    def sentences(self) -> list[str]:
        """Everything that is assumed, in sentences."""
        return [*self.assumed, *self.data.assumed]

    @property
    def given(self) -> dict[str, str]:
        """All arguments but the data, by parameter."""
        set_before = {name.partition(".")[2]: value for name, value in self.setters.items()}
        return {**self.arguments, **set_before, **self.of_method}


class Claimed(NamedTuple):
    """Arguments for budgets, the claim that they make, and what was assumed."""

    arguments: dict[str, str]
    claim: dict[str, float]
    assumed: tuple[str, ...]


GAUSSIAN = re.compile(r"gauss(?!\w*[ _]?(nb|naive|mixture|process))", re.I)


def claim_of(parameters: Sequence[Parameter], target: Target) -> Claimed:
    """Choose the budgets among parameters, and read the claim that they make."""
    budgets = [*{one.name: one for one in parameters if one.budget}.values()]
    arguments: dict[str, str] = {}
    claim: dict[str, float] = {}
    assumed: list[str] = []
    losses = [one for one in budgets if one.budget == "epsilon"]
    gaussian = GAUSSIAN.search(target.words)
    for number, one in enumerate(sorted(losses, key=lambda p: p.name.endswith(("1", "2")))):
        value = float(len(losses) - number)  # the larger one is of what lasts longer
        arguments[one.name] = f"{value}"
        claim["epsilon"] = claim.get("epsilon", 0.0) + value
    if len(losses) > 1:
        assumed.append(f"The claim is the sum of the {len(losses)} budgets.")
    for one in budgets:
        if one.budget == "delta":
            own = one.default if isinstance(one.default, float | int) else DELTA
            # A default of 0 may stand for a choice of its own, where noise is Gaussian.
            if own is not one.default or not 0 <= own < 1 or (not own and gaussian):
                arguments[one.name], own = f"{DELTA}", DELTA
            claim["delta"] = float(own)
        elif one.budget in ("rho", "mu") and not losses:
            arguments[one.name] = "0.5" if one.budget == "rho" else "1.0"
            claim[one.budget] = float(arguments[one.name])
            if one.budget == "mu":
                text = f"{one.name} is the standard deviation of noise, divided by a sensitivity."
                assumed.append(text)
    if "delta" in claim and not losses and any(one.is_private for one in budgets):
        claim = {"epsilon": 0.0, **claim}
    return Claimed(arguments, claim, (*assumed,))


def adjacency_of(doc: str) -> Relation:
    """Return the neighbours that a docstring names; "unknown" if it names none, or several."""
    one = r"(one|a|any)? ?(single )?(record|row|sample|entry|example)"
    told = [
        text
        for text in re.split(r"\.\s|\n\s*\n", doc)
        if re.search(r"neighbo|adjacen|privacy|differ|\bdp\b", text, re.I)
    ]
    adds, replaces = (
        any(re.search(pattern, text, re.I) for text in told)
        for pattern in (
            r"add(ing|ed|ition)?[ -]?(or|/|and)[ -]?remov|unbounded (dp|differ)",
            rf"(replac|substitut)(e|ing|ion of) {one}|\bbounded (dp|differential)",
        )
    )
    if bool(adds) == bool(replaces):
        return "unknown"
    return "add-remove" if adds else "replace"


METHODS = (
    *("randomise", "randomize", "privatise", "privatize", "perturb", "release", "add_noise"),
    *("quick_result", "obfuscate", "sanitize", "sanitise", "anonymize", "fit", "apply", "query"),
    *("compute", "run", "noisy", "encode", "generate", "transform", "sample", "fit_sample"),
    *("noise", "answer", "process", "report", "mechanism", "result", "__call__"),
)
"""Methods that make releases, the most likely first."""


def proposals(target: Target) -> Iterator[Proposal]:
    """Yield ways to call a callable, the most likely first.

    None are without a claim: the budget of a class may belong to another method.
    """
    for one in _all(target):
        if {"epsilon", "rho", "mu"} & {*one.claim}:
            yield one


def _all(target: Target) -> Iterator[Proposal]:
    if not target.is_class:
        yield from _of_function(target)
        return
    named = {one.name: one for one in target.methods}
    fitted = "fit" in named
    chosen = [
        named[name]
        for name in METHODS
        if name in named and not (fitted and name in ("transform", "sample", "generate"))
    ]
    similar = [
        one
        for one in target.methods
        if re.search(r"privati|randomi|perturb|noisy|release", one.name)
    ]
    for method in [*chosen, *(one for one in similar if one not in chosen)][:4]:
        yield from _of_method(target, method)


def _arguments(
    parameters: Sequence[Parameter], taken: Sequence[str], names: frozenset[str]
) -> dict[str, str]:
    """Return expressions for the settings that are passed."""
    return {
        one.name: "2" if one.name == "d" and "lst_k" in names else expressions(one)[0]
        for one in parameters
        if not one.budget and one.name not in (*taken, *SOURCES) and is_passed(one)
    }


def parameters_of(proposal: Proposal, target: Target) -> dict[str, Parameter]:
    """Return the parameters of a callable and of the method that is called."""
    own = {one.name: one for one in target.parameters}
    called = {proposal.method, *(name.partition(".")[0] for name in proposal.setters)}
    for method in target.methods:
        if method.name in called:
            own = {one.name: one for one in method.parameters} | own
    return own


def _of_function(target: Target) -> Iterator[Proposal]:
    context = Context(target, "", frozenset(one.name for one in target.parameters))
    own = claim_of(target.parameters, target)
    for plan in data_plans(target.parameters, context):
        arguments = own.arguments | _arguments(target.parameters, [*plan.inputs], context.names)
        one = Proposal(target.name, arguments, own.claim, plan, assumed=own.assumed)
        yield _with_words(one, target)


def _setters(target: Target) -> list[Method]:
    """Return the methods of a builder that set its budget, sensitivity or bounds."""
    found = [
        one
        for one in target.methods
        if one.name.startswith("set_")
        and one.parameters
        and all(p.budget or role_of(p.name) in ("noise", "lower", "upper") for p in one.parameters)
    ]
    alone = any([p.budget for p in one.parameters] == ["epsilon"] for one in found)
    return [
        one for one in found if not (alone and any(p.budget == "delta" for p in one.parameters))
    ]


def _of_method(target: Target, method: Method) -> Iterator[Proposal]:
    both = (*target.parameters, *method.parameters)
    setters = [] if any(one.budget for one in both) else _setters(target)
    both = (*both, *(one for setter in setters for one in setter.parameters))
    context = Context(target, method.name, frozenset(one.name for one in both))
    own = claim_of(both, target)
    in_constructor = any(one.name.lower() in SCORE_NAMES for one in target.parameters)
    parameters = target.parameters if in_constructor else method.parameters
    for plan in data_plans(parameters, context):
        taken = [*plan.inputs]
        made = _arguments(target.parameters, taken if in_constructor else (), context.names)
        called = _arguments(method.parameters, taken, context.names)
        before = {
            f"{setter.name}.{name}": value
            for setter in setters
            for name, value in (
                own.arguments | _arguments(setter.parameters, taken, context.names)
            ).items()
            if name in (one.name for one in setter.parameters)
        }
        for one in target.parameters:
            made |= {k: v for k, v in own.arguments.items() if k == one.name}
        for one in method.parameters:
            called |= {k: v for k, v in own.arguments.items() if k == one.name}
        yield _with_words(
            Proposal(
                target.name,
                made,
                own.claim,
                plan,
                method.name,
                called,
                before,
                in_constructor=in_constructor,
                assumed=own.assumed,
            ),
            target,
        )


def _with_words(proposal: Proposal, target: Target) -> Proposal:
    """Add neighbours and bounds, in sentences."""
    plan = proposal.data
    if plan.form != "records":
        return proposal
    relation = adjacency_of(target.doc)
    words = {
        "unknown": "Neighbours are not documented: a verdict holds whether ε is for adding, "
        "removing or replacing one record.",
        "replace": "Neighbours replace one record, as the documentation says.",
        "add-remove": "Neighbours add or remove one record, as the documentation says.",
    }
    roles = {role_of(name) for name in proposal.given}
    told = (BOUNDED,) if {"bounds", "upper"} & roles else ()
    plan = dataclasses.replace(plan, assumed=(words[relation], *told), adjacency=relation)
    return dataclasses.replace(proposal, data=plan)
