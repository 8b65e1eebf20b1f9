"""Guesses on which a violation depends: everything assumed that a library does not document.

A right callable may be called in a way for which it promises nothing. Whoever scans it must then
read “violated if …”, never “violated”.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dpframe_scan.callables import PRIVACY, Parameter, Target
from dpframe_scan.proposals import Proposal, parameters_of
from dpframe_scan.settings import (
    DOMAIN_NAMES,
    DOMAIN_WORDS,
    HIGH,
    LOW,
    documented_choice,
    expressions,
    role_of,
)

UNBOUNDED = f"it promises to take numbers from {LOW:g} to {HIGH:g}, without being told these bounds"
GUESSED_DOMAIN = "it is a local randomiser of such values"
SCALE = "its noise has this scale for one record"
PURE = "it promises δ = 0"
SCORES = "each score may rise or fall by the sensitivity"
CLASSES = "it promises to take classes that no other record has"
NUMBERS = "its data are numbers of which one differs by at most the sensitivity"
LABELS = f"it promises to take labels from {LOW:g} to {HIGH:g}, without being told these bounds"

LOCAL = re.compile(
    r"(?<![a-z])ldp|ldp(?![a-z])|\blocal(ly)?[ -](model|differential|priva|dp|random)"
    r"|randomi[sz]ed[ -]response|\buser'?s\b|\bclient|respondent",
    re.I,
)
"""Words of a callable that randomises the value of one user."""

HAS_DELTA = re.compile(
    r"gauss\w*[ _]?(mech|noise|dp)|(_|add_?)gauss|\bdelta\b|δ|approximate d", re.I
)
"""Words of a callable whose claim has a δ."""

OTHER_PROMISES = re.compile(
    r"label[- ](level|d(ifferential|p))|(edge|node|event)[- ](level|d(ifferential|p))|w-event"
    r"|metric[- ](priv|differential|dp)|geo-?indistin\w*|r[ée]nyi|\bz?cdp\b|concentrated"
    r"|per-instance|(does not|doesn't) (satisfy|provide|guarantee)",
    re.I,
)
"""Words of documentation that promises something else than (ε, δ) for one record."""

PREPARED = re.compile(
    r"caller[^.]{0,40}(clip|bound|normali)|already (clipped|bounded|normali)"
    r"|(values|data|numbers|records|entries|inputs?|rows|they)\b[^.]{0,40}"
    r"\b(must|should|assumed|expected|need)\b[^.]{0,40}"
    r"(within|between|clipped|bounded|normali|in the range|in \[)",
    re.I,
)
"""Words with which documentation promises nothing for records beyond the bounds."""

FROM_DATA = re.compile(
    r"(class|label|categor|group)\w*[^.]{0,30} (in|of|from) the (data|train|sample|records)", re.I
)
"""Words with which documentation says that the classes are those of the data."""

PER_UNIT = re.compile(r"\b(?:per|for each|of each|each|every)[ -](\w+)", re.I)
WHOLE = {"user", "users", "record", "individual", "person", "client", "call", "release", "query"}
"""Units that are all of a trial call."""

RELEASING = re.compile(
    r"privati|randomi|perturb|releas|nois|anonym|saniti|obfus|quick_result|^fit|__call__|mechanism",
    re.I,
)
"""Names of methods that make a release. Others may be a step before it."""

STEP = re.compile(
    r"^(encode|decode|hash|sample|subsample|shuffle|split|clip|discreti[sz]e|bucketi[sz]e|project"
    r"|quanti[sz]e|resample|init\w*|prepare|preprocess)(_|$)",
    re.I,
)
"""Names of functions that may be a step before a release."""

SAFE_OPTIONS = re.compile(r"fit_intercept|with_mean|with_std|(is_)?optimal|optimi[sz]ed")


def guesses(proposal: Proposal, target: Target) -> tuple[str, ...]:
    """Return the guesses of a proposal, each in words after "if"."""
    own = parameters_of(proposal, target)
    method = next((one for one in target.methods if one.name == proposal.method), None)
    words = f"{target.words} {method.doc if method else ''}"
    found = [
        *_of_budgets(proposal, own, target, words),
        *_of_data(proposal, own, words),
    ]
    found += _of_settings(proposal, own, found)
    others = [one for one in target.methods if any(p.required for p in one.parameters)]
    if method and not RELEASING.search(method.name) and others != [method]:
        found.append(f"its method {method.name} makes a release")
    if not method and STEP.search(target.title):
        found.append("it makes a release, and is no step before one")
    if proposal.option and not SAFE_OPTIONS.match(proposal.option):
        found.append(f"it promises the same with {proposal.option}")
    return tuple(dict.fromkeys(found))


def _of_budgets(
    proposal: Proposal, own: dict[str, Parameter], target: Target, words: str
) -> Iterator[str]:
    losses = [one for one in own.values() if one.budget not in ("", "delta")]
    if losses and not PRIVACY.search(words):
        yield f"{losses[0].name} is a budget of privacy"
    for one in losses:
        text = one.doc or one.sentences
        unit = PER_UNIT.search(text)
        shared = re.search(r"entire|whole|total|split|divided|shared", text, re.I)
        if unit and not shared and unit.group(1).lower() not in WHOLE:
            yield f"{one.name} is the budget of the whole answer"
    if "mu" in proposal.claim:
        yield SCALE
    elif "epsilon" in proposal.claim:
        if "delta" not in proposal.claim and (
            HAS_DELTA.search(words) or target.title.lower() == "gaussian"
        ):
            yield PURE
        if other := OTHER_PROMISES.search(words):
            yield f"it promises this, although its documentation speaks of {other.group(0)!r}"


def _of_data(proposal: Proposal, own: dict[str, Parameter], words: str) -> Iterator[str]:
    plan = proposal.data
    roles = {role_of(name): name for name in proposal.given}
    if plan.form == "records":
        numbers = [column for column in plan.schema if "low" in column]
        if numbers and not {"bounds", "upper"} & {*roles}:
            yield UNBOUNDED
        elif "y" in (column["name"] for column in numbers) and not _bounds_labels(proposal):
            yield LABELS
        listed = {"classes", "categories", "domain"} & {*proposal.given}
        named = any("categories" in column for column in plan.schema)
        if named and not listed and not FROM_DATA.search(words):
            yield CLASSES
    elif plan.form == "record":
        yield from _of_one_user(proposal, own, words)
    elif plan.adjacency == "one-by-one":
        name = next(iter(plan.inputs))
        if not re.search(r"quer|answer|statistic|aggregate|nois|perturb", own[name].doc, re.I):
            yield NUMBERS
    elif plan.length > 1:
        either = any(name in ("monotonic", "monotone") for name in own)
        if "noise" not in roles or not (either or re.search(r"non-?monoton|not monoton", words)):
            yield SCORES


def _bounds_labels(proposal: Proposal) -> bool:
    given = proposal.given
    return any(name in given for name in ("bounds_y", "bounds", "range", "upper"))


def _of_one_user(proposal: Proposal, own: dict[str, Parameter], words: str) -> Iterator[str]:
    """Yield what is not documented about a domain, any two values of which are neighbours."""
    given = proposal.given
    lists = ("value0", "utility_list", "hierarchy")
    if any(name in given and own[name].doc for name in lists):
        return
    (name, *_) = proposal.data.inputs
    (column, *_) = proposal.data.schema
    told = [one for one in given if one in DOMAIN_NAMES or one == "lst_k"]
    boolean = "bool" in own[name].text and column.get("categories") == [False, True]
    if not LOCAL.search(words) or not (told or boolean):
        yield GUESSED_DOMAIN
    documents = [own[one].doc or own[one].sentences for one in told]
    proven = any(map(DOMAIN_WORDS.search, documents))
    yield from (domain(one) for one, text in zip(told, documents, strict=True) if not proven)


def domain(name: str) -> str:
    """Return the guess that a parameter is the size of a domain."""
    return f"{name} is the size of its domain"


def _of_settings(proposal: Proposal, own: dict[str, Parameter], found: Sequence[str]) -> list[str]:
    """Return the values of settings that are neither documented nor without influence."""
    guessed = []
    for name, value in proposal.given.items():
        one = own.get(name)
        role = role_of(name)
        if one is not None and (one.budget or documented_choice(one)):
            continue
        if proposal.option.startswith(f"{name}="):
            continue
        if role == "size" and domain(name) in found:
            continue
        if role == "size" and one is not None and (one.doc or one.sentences):
            continue
        usual = one is not None and value in expressions(one)
        if role in ("", "size") or not usual:  # a repair may have changed a sensitivity
            guessed.append(f"it keeps its claim with {name} = {value}")
    return guessed
