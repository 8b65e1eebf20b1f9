"""Parameters to try a plugin with, where its author names none."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dpframe.errors import DpframeError
from dpframe.parameters import json_schema
from dpframe.plugin import names_in_specs, problems_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dpframe.plugin import Plugin


def instance(plugin: Plugin | type[Plugin]) -> Any:
    """The plugin itself, or one of a class with example values; exceptions are those of `made`."""
    return made(plugin, {}) if isinstance(plugin, type) else plugin


def made(cls: type[Plugin], params: Mapping[str, Any]) -> Any:
    """A plugin, with example values for what it requires and nobody gives.

    Args:
        cls: its class.
        params: what somebody gives.

    Raises:
        DpframeError: no example is found, or the values will not do; says which.
    """
    try:
        return cls.from_params({**example(cls, params), **params})
    except ValidationError as error:
        reason = "; ".join(
            f"{'.'.join([cls.kind, *map(str, place)])}: {said}"
            for place, _, said in problems_of(error)
        )
    except ValueError as error:  # `check`
        reason = str(error)
    raise DpframeError(f"{cls.kind} {cls.name!r} cannot be tried: {reason}; give it parameters")


def example(cls: type[Plugin], given: Collection[str] = ()) -> dict[str, Any]:
    """Values for the parameters that a class requires: 1 if it is allowed, else what is nearest.

    Args:
        cls: a plugin class.
        given: parameters that somebody gives.

    Raises:
        DpframeError: a required parameter is a text, a tuple or the like.
    """
    described = json_schema(cls)
    properties, definitions = described.get("properties", {}), described.get("$defs", {})
    found, names = {}, names_in_specs(cls)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # made a dataclass by Plugin
        required = field.default is field.default_factory is dataclasses.MISSING
        name = names[field.name]
        if required and name not in given:
            found[name] = _example(cls, name, properties[name], definitions)
    return found


def _example(cls: type[Plugin], name: str, schema: dict[str, Any], known: dict[str, Any]) -> Any:
    if reference := schema.get("$ref"):
        return _example(cls, name, known[reference.rpartition("/")[2]], known)
    if choices := schema.get("anyOf"):
        return _example(cls, name, choices[0], known)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "boolean":
            return False
        case "integer" | "number" as kind:
            return _number(schema, whole=kind == "integer")
    raise DpframeError(f"{cls.kind} {cls.name!r} requires the parameter {name!r}: give it a value")


def _number(schema: dict[str, Any], *, whole: bool) -> float:
    """A number inside its bounds: 1 if it can be."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    ends = [end for end in (low, high) if end is not None]
    near = [end + step for end in ends for step in (0, 1, -1)]
    candidates = [1, *near, *([sum(ends) / 2] if ends and not whole else [])]
    number = next((value for value in candidates if _allowed(value, schema)), 1)
    return int(number) if whole else float(number)


def _allowed(value: float, schema: dict[str, Any]) -> bool:
    return bool(
        value >= schema.get("minimum", -math.inf)
        and value > schema.get("exclusiveMinimum", -math.inf)
        and value <= schema.get("maximum", math.inf)
        and value < schema.get("exclusiveMaximum", math.inf)
    )
