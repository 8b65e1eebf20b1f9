"""Ways to call a callable, with everything that a scan assumes about it.

`trials` tries them, and `repairs` changes one after an exception.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dpframe_scan.callables import Method, Parameter, Target
from dpframe_scan.data_plans import (
    BOUNDED,
    SCORE_NAMES,
    UNBOUNDED,
    Context,
    DataPlan,
    Relation,
    data_plans,
)
from dpframe_scan.settings import BOUNDING, NOISE_SETTING, PUBLIC, SOURCES, expressions

DELTA = 1e-3  # if a callable requires a δ


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
    answer: tuple[str, ...] = ()
    """Attributes of the object that are released; none if the result of the call is."""
    in_constructor: bool = False
    """True if the constructor takes the data."""
    assumed: tuple[str, ...] = ()
    """Sentences about budgets and the claim."""
    option: str = ""
    """The option in which it differs from the defaults, for its name."""
    conditions: tuple[str, ...] = ()
    """Guesses about the claim on which a violation depends, each after "if"."""

    @property
    def sentences(self) -> list[str]:
        """Everything that is assumed, in sentences."""
        return [*self.assumed, *self.data.assumed]


class Claimed(NamedTuple):
    """Arguments for budgets, the claim that they make, and what was assumed."""

    arguments: dict[str, str]
    claim: dict[str, float]
    assumed: tuple[str, ...]
    conditions: tuple[str, ...]


def claim_of(budgets: Sequence[Parameter]) -> Claimed:
    """Choose budgets, and read the claim that they make."""
    arguments: dict[str, str] = {}
    claim: dict[str, float] = {}
    assumed: list[str] = []
    losses = [one for one in budgets if one.budget == "epsilon"]
    for number, one in enumerate(sorted(losses, key=lambda p: p.name.endswith(("1", "2")))):
        value = float(len(losses) - number)  # the larger one is of what lasts longer
        arguments[one.name] = f"{value}"
        claim["epsilon"] = claim.get("epsilon", 0.0) + value
    if len(losses) > 1:
        assumed.append(f"The claim is the sum of the {len(losses)} budgets.")
    for one in budgets:
        if one.budget == "delta":
            own = one.default if isinstance(one.default, float | int) else None
            if one.required or own is None:
                arguments[one.name], own = f"{DELTA}", DELTA
            claim["delta"] = float(own)
            claim.setdefault("epsilon", 0.0)
        elif one.budget in ("rho", "mu") and not losses:
            arguments[one.name] = "0.5" if one.budget == "rho" else "1.0"
            claim[one.budget] = float(arguments[one.name])
            if one.budget == "mu":
                text = f"{one.name} is the standard deviation of noise, divided by a sensitivity."
                assumed.append(text)
    guessed = ("its noise has this scale for one record",) if "mu" in claim else ()
    return Claimed(arguments, claim, (*assumed,), guessed)


def adjacency_of(doc: str) -> Relation:
    """Return the neighbours that a docstring names; "unknown" if it names none, or several."""
    adds = re.search(
        r"add(ing|ed|ition)?[ -]?(or|/|and)[ -]?remov|unbounded (dp|differ)", doc, re.I
    )
    replaces = re.search(
        r"replac(e|ing) (one|a|any)? ?(single )?(record|row|sample|entry|example)"
        r"|substitut(e|ing|ion of) (one|a|any)\b|\bbounded (dp|differential)",
        doc,
        re.I,
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
    """Yield ways to call a callable, the most likely first."""
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
    """Return expressions for settings that are required, sensitivities, and public bounds.

    A default sensitivity may be smaller than that of the neighbours.
    """
    return {
        one.name: "2" if one.name == "d" and "lst_k" in names else expressions(one)[0]
        for one in parameters
        if not one.budget
        and one.name not in taken
        and one.name not in SOURCES
        and (
            one.required
            or NOISE_SETTING.fullmatch(one.name)
            or (PUBLIC.fullmatch(one.name) and one.default is None)
        )
    }


def _of_function(target: Target) -> Iterator[Proposal]:
    context = Context(target, "", frozenset(one.name for one in target.parameters))
    own = claim_of([one for one in target.parameters if one.budget])
    for plan in data_plans(target.parameters, context):
        arguments = own.arguments | _arguments(target.parameters, [*plan.inputs], context.names)
        more: Any = {"assumed": own.assumed, "conditions": own.conditions}
        yield _with_words(Proposal(target.name, arguments, own.claim, plan, **more), target)


def _of_method(target: Target, method: Method) -> Iterator[Proposal]:
    both = (*target.parameters, *method.parameters)
    context = Context(target, method.name, frozenset(one.name for one in both))
    own = claim_of([one for one in both if one.budget])
    in_constructor = any(one.name.lower() in SCORE_NAMES for one in target.parameters)
    parameters = target.parameters if in_constructor else method.parameters
    for plan in data_plans(parameters, context):
        taken = [*plan.inputs]
        made = _arguments(target.parameters, taken if in_constructor else (), context.names)
        called = _arguments(method.parameters, taken, context.names)
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
                in_constructor=in_constructor,
                assumed=own.assumed,
                conditions=own.conditions,
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
    bounded = any(BOUNDING.search(name) for name in (*proposal.arguments, *proposal.of_method))
    if bounded or not any("low" in column for column in plan.schema):
        plan = dataclasses.replace(plan, assumed=(words[relation], BOUNDED))
    else:
        plan = dataclasses.replace(
            plan, assumed=(words[relation],), conditions=(*plan.conditions, UNBOUNDED)
        )
    plan = dataclasses.replace(plan, adjacency=relation)
    return dataclasses.replace(proposal, data=plan)
