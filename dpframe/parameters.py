"""The parameters of a plugin class as a table, and as a JSON Schema."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import TypeAdapter

from dpframe.blame import blame
from dpframe.plugin import adapter, names_in_specs

if TYPE_CHECKING:
    from dpframe.plugin import Plugin


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One row of a plugin's parameter table."""

    name: str
    type: str
    default: str
    bounds: str
    meaning: str


def parameters(cls: type[Plugin]) -> tuple[Parameter, ...]:
    """The parameter table of a plugin class, in the order of its fields."""
    described = json_schema(cls).get("properties", {})
    hints = typing.get_type_hints(cls, include_extras=True)
    names = names_in_specs(cls)
    rows = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # made a dataclass above
        meaning = described.get(names[field.name], {}).get("description", "")
        rows.append(
            Parameter(
                name=names[field.name],
                type=_type_text(hints[field.name]),
                default=_default_text(field),
                bounds=", ".join(_bounds(hints[field.name])),
                meaning=" ".join(meaning.split()),
            )
        )
    return tuple(rows)


def unreadable(cls: type[Plugin]) -> str | None:
    """Which parameter a spec cannot give, because its type is none that TOML has; None if all can.

    Args:
        cls: a plugin class of anybody's.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # made a dataclass above
        try:
            TypeAdapter(hints[field.name]).json_schema()
        except Exception:  # pydantic's errors are about pydantic
            wanted = "numbers, texts, booleans, tuples and Literal can be given in a spec"
            return f"{cls.__name__}.{field.name} is {_type_text(hints[field.name])}; {wanted}"
    try:
        parameters(cls)
    except Exception as error:
        return f"the parameters of {cls.__name__} cannot be described: {blame(error)}"
    return None


def json_schema(cls: type[Plugin]) -> dict[str, Any]:
    """JSON Schema of the plugin's parameters; an inherited one keeps its base's description."""
    schema = adapter(cls).json_schema()
    for base in cls.__mro__[1:]:
        if dataclasses.is_dataclass(base):
            for name, inherited in adapter(base).json_schema().get("properties", {}).items():
                if "description" in inherited:
                    schema["properties"][name].setdefault("description", inherited["description"])
    return schema


def _default_text(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    elif field.default is dataclasses.MISSING:
        return "required"
    else:
        default = field.default
    return json.dumps(default, default=str, ensure_ascii=False)


def _type_text(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return _type_text(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(_type_text(arg) for arg in get_args(hint))
    if get_origin(hint) is typing.Literal:
        return " | ".join(json.dumps(arg) for arg in get_args(hint))
    if hint is type(None):
        return "none"
    return str(getattr(hint, "__name__", hint))


def _bounds(hint: Any) -> list[str]:
    if get_origin(hint) in (Union, types.UnionType):
        return [bound for arg in get_args(hint) for bound in _bounds(arg)]
    if get_origin(hint) is not Annotated:
        return []
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "multiple_of": "multiple of"}
    return [
        f"{sign} {getattr(constraint, attribute)}"
        for constraint in get_args(hint)[1:]
        for attribute, sign in signs.items()
        if getattr(constraint, attribute, None) is not None
    ]
