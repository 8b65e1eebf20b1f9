"""Repairs: changes of a proposal that the exception of a trial call suggests."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from dpframe_scan.callables import Parameter, Target
from dpframe_scan.proposals import Proposal, parameters_of
from dpframe_scan.settings import PUBLIC, expressions, role_of


def repaired(proposal: Proposal, target: Target, outcome: Mapping[str, Any]) -> Proposal | None:
    """Change a proposal after an exception; None if its message suggests nothing."""
    message = f"{outcome['raised']}: {outcome['message']}"
    parameters = parameters_of(proposal, target)
    for pattern, change in REPAIRS:
        if (match := re.search(pattern, message, re.I)) and (
            done := change(proposal, parameters, match)
        ):
            changed: Proposal = done
            return changed
    return (
        _next_named(proposal, parameters, message)
        or _next_public(proposal, parameters)
        or (_next_form(proposal, parameters) if outcome["raised"] in FORMS else None)
    )


def _with(proposal: Proposal, name: str, value: str | None) -> Proposal:
    """Change an argument, wherever it is passed; None leaves it out."""
    setter = next((key for key in proposal.setters if key.endswith(f".{name}")), None)
    field = "of_method" if name in proposal.of_method else "setters" if setter else "arguments"
    name = setter or name
    given = {key: one for key, one in getattr(proposal, field).items() if key != name}
    changed: dict[str, Any] = {field: given if value is None else {**given, name: value}}
    return dataclasses.replace(proposal, **changed)


def _missing(
    proposal: Proposal, parameters: Mapping[str, Parameter], match: re.Match[str]
) -> Proposal | None:
    name = match.group(1)
    if name in proposal.data.inputs:
        return None
    one = parameters.get(name) or Parameter(name, "", True, None, "", "")
    return _with(proposal, name, expressions(one)[0])


def _unexpected(
    proposal: Proposal, parameters: Mapping[str, Parameter], match: re.Match[str]
) -> Proposal | None:
    return _with(proposal, match.group(1), None)


def _whole(
    proposal: Proposal, parameters: Mapping[str, Parameter], match: re.Match[str]
) -> Proposal | None:
    """Make all settings whole numbers, and numbers in the data."""
    changed = proposal
    for name, value in proposal.given.items():
        one = parameters.get(name)
        if one is not None and not one.budget and re.fullmatch(r"\d+\.0", value):
            changed = _with(changed, name, value[:-2])
    inputs = {
        k: v.replace("float(data[0])", "int(data[0])") for k, v in proposal.data.inputs.items()
    }
    schema = proposal.data.schema
    if inputs != dict(proposal.data.inputs):
        schema = ({**schema[0], "integer": True},)
    data = dataclasses.replace(proposal.data, inputs=inputs, schema=schema)
    changed = dataclasses.replace(changed, data=data)
    return changed if changed != proposal else None


def _share(
    proposal: Proposal, parameters: Mapping[str, Parameter], match: re.Match[str]
) -> Proposal | None:
    for name in proposal.given:
        one = parameters.get(name)
        if one is not None and not one.budget and name in match.string:
            return _with(proposal, name, "0.5")
    return None


def _next_named(
    proposal: Proposal, parameters: Mapping[str, Parameter], message: str
) -> Proposal | None:
    """Take the next expression for a setting that the message names."""
    for name, value in proposal.given.items():
        one = parameters.get(name)
        words = {name, name.replace("_", " ")} if len(name) > 1 else {f"'{name}'", f"`{name}`"}
        if one is None or one.budget or not any(word in message for word in words):
            continue
        known = expressions(one)
        place = known.index(value) + 1 if value in known else 0
        if place < len(known):
            return _with(proposal, name, known[place])
    return None


FORMS = ("TypeError", "AttributeError", "IndexError")
"""Exceptions after which a setting may need a value of another form."""


def _next_form(proposal: Proposal, parameters: Mapping[str, Parameter]) -> Proposal | None:
    """Take the next expression for a setting without a role, such as a list of functions."""
    for name, value in proposal.given.items():
        one = parameters.get(name)
        if one is None or one.budget or role_of(name):
            continue
        known = expressions(one)
        place = known.index(value) + 1 if value in known else len(known)
        if place < len(known):
            return _with(proposal, name, known[place])
    return None


def _next_public(proposal: Proposal, parameters: Mapping[str, Parameter]) -> Proposal | None:
    """Take the next expression for bounds, which have several forms."""
    for name, value in proposal.given.items():
        one = parameters.get(name)
        if one is not None and PUBLIC.fullmatch(name) and value in (known := expressions(one)):
            place = known.index(value) + 1
            if place < len(known):
                return _with(proposal, name, known[place])
    return None


REPAIRS: Any = (
    (r"missing \d+ required (?:positional|keyword-only) arguments?: '(\w+)'", _missing),
    (r"unexpected keyword argument '(\w+)'", _unexpected),
    (
        r"must be (?:of type )?(?:an? )?(?:int|whole|integer|integral)|integer[- ]valued|Integral",
        _whole,
    ),
    (r"between 0 and 1|in \[0, ?1\]|in \(0, ?1\)", _share),
)
"""Patterns of messages, and changes that they suggest."""
