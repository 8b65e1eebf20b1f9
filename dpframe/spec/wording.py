"""Words what pydantic found wrong in the terms of a spec."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.spec.locate import holds
from dpframe.spec.problems import accepts, show
from dpframe.suggest import closest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from dpframe.spec.locate import Path
    from dpframe.spec.problems import Hint

_MISSING = {"missing", "missing_argument", "missing_keyword_only_argument"}
_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}
_EMPTY = {"string_too_short", "too_short"}
_KINDS_OF_VALUE = {
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "float_type": "should be a number",
    "int_type": "should be an integer",
    "string_type": "should be a string",
    "bool_type": "should be true or false",
    "finite_number": "should be finite",
    "string_pattern_mismatch": "should be letters, digits, blanks and the characters . + - _",
    "string_too_short": "should not be empty",
    "too_short": "should not be empty",
}


MOST_WHOLE = 2**53
"""Larger numbers are whole as floats, whatever their author had in mind."""


class Finding(NamedTuple):
    """One mistake, relative to what was validated."""

    path: Path
    message: str
    hint: Hint = ""
    unknown: bool = False
    """The key should not be there, and leaving it out mends the rest."""
    missing: str | None = None
    """The key that should be there; `path` is then where it should be."""


def findings(error: ValidationError, value: Any, noun: str, owner: str = "") -> list[Finding]:
    """The mistakes in a value, one per place.

    Args:
        error: what pydantic raised for it.
        value: what was validated.
        noun: what a key is called here, "key" or "parameter".
        owner: what the keys belong to, for example " of mechanism 'laplace'".
    """
    found: dict[tuple[Path, str | None], Finding] = {}
    for details in error.errors(include_url=False):
        finding = _finding(details, value, noun, owner)
        place = (finding.path, finding.missing)
        known = found.setdefault(place, finding)
        if known.message != finding.message:  # the members of a union, each with its complaint
            found[place] = known._replace(message=f"{known.message}, or {finding.message}")
    return _without_consequences(list(found.values()))


def _without_consequences(found: list[Finding]) -> list[Finding]:
    """Leaves out that `epsilon` is missing where `epsilom` is unknown: it is one mistake."""
    unknown: dict[Path, list[str]] = {}
    for finding in found:
        if finding.unknown:
            unknown.setdefault(finding.path[:-1], []).append(str(finding.path[-1]))
    return [
        finding
        for finding in found
        if not (finding.missing and misspelt(finding.missing, unknown.get(finding.path, ())))
    ]


def misspelt(name: str, unknown: Iterable[str]) -> bool:
    """Whether one of the unknown keys of a table looks like this name."""
    return closest(unknown, name) is not None


def _finding(details: ErrorDetails, value: Any, noun: str, owner: str) -> Finding:
    kind, path = details["type"], _existing(value, details["loc"])
    if kind in _MISSING:
        name = str(details["loc"][-1])
        return Finding(path, f"{noun} {name!r}{owner} is missing", missing=name)
    if kind in _UNKNOWN:
        return Finding(path, f"unknown {noun}{owner}", unknown=True)
    got = details["input"]
    if kind in ("literal_error", "enum"):
        choices = re.findall(r"'([^']*)'", details["ctx"]["expected"])
        if choices:
            return Finding(path, f"{show(got)} is not accepted", accepts(choices, got))
    message = _KINDS_OF_VALUE.get(kind) or details["msg"].removeprefix("Value error, ")
    message = re.sub(r"^Input should", "should", message)
    whole = kind == "int_type" and isinstance(got, float) and got.is_integer()
    hint = f"write {int(got):_}" if whole and abs(got) < MOST_WHOLE else ""
    return Finding(path, message if kind in _EMPTY else f"{message}, got {show(got)}", hint)


def _existing(value: Any, location: Sequence[str | int]) -> Path:
    """The part of a location that the value has; pydantic adds names of union members to it."""
    path: list[str | int] = []
    for step in location:
        if not holds(value, (step,)):
            break
        value = value[step]
        path.append(step)
    return tuple(path)
