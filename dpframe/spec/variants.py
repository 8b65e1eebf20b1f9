"""Make each plugin once for every set of parameters that the sweep gives it."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from pydantic import ValidationError

from dpframe.common.machine import at_work
from dpframe.common.text import error_message
from dpframe.errors import ParameterError
from dpframe.interfaces.plugin import Plugin
from dpframe.interfaces.plugin_files import beside
from dpframe.spec.document import Path
from dpframe.spec.problems import Problems, accepts, describe, findings
from dpframe.spec.sweep import Axis
from dpframe.spec.uses import Member, Members

Picks = tuple[int, ...]
"""For each axis in question, the position of the value taken."""

Variants = dict[Picks, Plugin]
"""A member's plugin for each combination of values of its own axes."""


def make_variants(members: Members, axes: list[Axis], problems: Problems) -> dict[Member, Variants]:
    """Make the plugins of all members, and note what is wrong with their parameters."""
    return {
        member: _variants(member, [axis for axis in axes if axis.is_of(member)], problems)
        for of_kind in members.of_kind.values()
        for member in of_kind
    }


def _variants(member: Member, axes: list[Axis], problems: Problems) -> Variants:
    if any(axis.name in member.params for axis in axes):
        # The sweep takes precedence over these values, but they should not be nonsense.
        _make(member, member.params, {}, {axis.name for axis in axes}, problems)
    variants = {}
    for picks in product(*(range(len(axis.values)) for axis in axes)):
        chosen = {axis.name: axis.values[pick] for axis, pick in zip(axes, picks, strict=True)}
        places = {axis.name: (*axis.path, pick) for axis, pick in zip(axes, picks, strict=True)}
        plugin = _make(member, {**member.params, **chosen}, places, set(), problems)
        if plugin is not None:
            variants[picks] = plugin
    return variants


def _make(
    member: Member,
    params: dict[str, Any],
    swept: dict[str, Path],
    later: set[str],
    problems: Problems,
) -> Plugin | None:
    """Make one variant; `swept` has the places of swept values, `later` names still to come."""
    try:
        with at_work(f"parameters of {member}: check", member.path), beside(problems.folder):
            plugin: Plugin = member.entry.cls.from_params(params)
            _check_value(plugin)
            return plugin
    except ValidationError as error:
        own = (*member.path, "params")
        owner = f" of {member.kind} {member.entry.name!r}"
        for finding in findings(error, params, "parameter", owner):
            if finding.missing:
                if finding.missing not in later:
                    problems.add(own, finding.message)
                continue
            start, *rest = finding.path or ("",)
            place = (*swept[start], *rest) if start in swept else (*own, *finding.path)
            inner = len(finding.path) > 1  # inside of a parameter that is itself a table
            hint = accepts(member.names, start) if finding.unknown and not inner else finding.hint
            problems.add(place, finding.message, hint)
    except ParameterError as error:
        if error.parameter not in later:
            place = swept.get(error.parameter, (*member.path, "params", error.parameter))
            problems.add(place, explain(error))
    except (Exception, SystemExit) as error:  # `check` is a plugin's own code
        if not later:
            hint = f"with {describe(params)}" if swept else ""
            problems.add(member.path, f"parameters of {member}: {explain(error)}", hint)
    return None


def _check_value(plugin: Plugin) -> None:
    """Raise TypeError unless a plugin can be a key and its parameters be written down."""
    try:
        hash(plugin)
    except Exception as error:
        raise TypeError(
            f"cannot be hashed (tuples instead of lists): {error_message(error)}"
        ) from error
    try:
        json.dumps(plugin.params())
    except Exception as error:
        raise TypeError(f"cannot be written down: {error_message(error)}") from error


def explain(error: BaseException) -> str:
    """Word a plugin's exception: a ValueError speaks to the user, anything else is a bug."""
    try:
        text = " ".join(str(error).split()) if isinstance(error, ValueError) else ""
    except Exception:
        text = ""
    return text or error_message(error)
