"""The base of every plugin: a frozen, keyword-only dataclass that JAX can trace.

One list of fields feeds validation, the JSON Schema, `dpframe plugins NAME` and the record.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import types
import typing
from typing import Annotated, Any, ClassVar, Self, Union, dataclass_transform, get_args, get_origin

import jax
from pydantic import ConfigDict, TypeAdapter, ValidationError

from dpframe.errors import PluginError

API = 1
"""The plugin interface this version speaks. A class with another `api` is listed, not loaded."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Plugin:
    """Base of mechanisms, attacks, estimators and pairs.

    A subclass names itself in its class statement, `class Laplace(Mechanism, name="laplace")`,
    and declares its parameters as annotated fields, each with a docstring under it. It becomes a
    frozen keyword-only dataclass and a JAX pytree: fields of type `float` (also inside
    `Annotated` or `| None`) are traced leaves, so a sweep over them compiles once; all other
    fields are static and must be hashable (tuples, not lists).

    Do not validate in `__post_init__`, because JAX rebuilds instances with tracers: bounds
    belong into `Annotated[float, Gt(0)]`, rules over several fields into `check`.
    """

    name: ClassVar[str]
    api: ClassVar[int] = API
    kind: ClassVar[str]
    """"mechanism", "attack", "estimator" or "pair"."""
    leaves: ClassVar[tuple[str, ...]] = ()
    """Names of the traced fields."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def __init_subclass__(cls, *, name: str | None = None, api: int = API, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:  # the base of a kind, not a plugin
            return
        if name is None:
            base = cls.__bases__[0].__name__
            raise TypeError(f'{cls.__name__} has no name: class {cls.__name__}({base}, name="…")')
        if parents := [base.__name__ for base in cls.__mro__[1:] if "name" in base.__dict__]:
            raise TypeError(
                f"{cls.__name__} extends {parents[0]}, and plugins are final: share functions"
            )
        cls.name, cls.api = name, api
        cls.check_definition()
        _become_dataclass(cls)

    @classmethod
    def check_definition(cls) -> None:
        """Rules of the kind that hold for the class itself; raise TypeError."""

    def check(self) -> None:
        """Rules over several fields; raise ValueError with a message for the user."""

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Self:
        """Builds the plugin from plain values, as a spec gives them.

        Raises:
            pydantic.ValidationError: a parameter is unknown, missing, of the wrong type or out
                of range.
            ValueError: `check` refuses the combination.
        """
        # Strict JSON mode is the one that takes 1 for a float and refuses "1.0" and true.
        value: Self = _adapter(cls).validate_json(json.dumps(params), strict=True)
        value.check()
        return value

    def params(self) -> dict[str, Any]:
        """The parameters as plain JSON values."""
        plain: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json")
        return plain


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
    rows = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # made a dataclass above
        required = field.default is dataclasses.MISSING
        meaning = described.get(field.name, {}).get("description", "")
        rows.append(
            Parameter(
                name=field.name,
                type=_type_text(hints[field.name]),
                default="required" if required else json.dumps(field.default),
                bounds=", ".join(_bounds(hints[field.name])),
                meaning=" ".join(meaning.split()),
            )
        )
    return tuple(rows)


def json_schema(cls: type[Plugin]) -> dict[str, Any]:
    """JSON Schema of the plugin's parameters."""
    return _adapter(cls).json_schema()


def problems_of(error: ValidationError) -> list[tuple[tuple[str | int, ...], str, str]]:
    """A validation error as (place, kind, message) triples."""
    return [(e["loc"], e["type"], e["msg"]) for e in error.errors(include_url=False)]


_ADAPTERS: dict[type[Plugin], TypeAdapter[Any]] = {}


def _adapter(cls: type[Plugin]) -> TypeAdapter[Any]:
    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]


def _become_dataclass(cls: type[Plugin]) -> None:
    own = inspect.get_annotations(cls)
    # Two frames up, past __init_subclass__, is the scope of the class statement: a plugin may be
    # defined inside a function and name types that only that function knows.
    scope = sys._getframe(2).f_locals
    try:
        hints = typing.get_type_hints(cls, localns=scope, include_extras=True)
    except NameError as error:
        raise PluginError(
            f"{cls.__name__}: the annotation of a field names {error.name!r}, which does not exist "
            "at run time; import it outside of `if TYPE_CHECKING`"
        ) from None
    cls.__annotations__ = {field: hints[field] for field in own}
    described = cls.__dict__.get("__doc__")
    for field, hint in hints.items():
        if field in own and _unhashable(hint):
            raise TypeError(f"{cls.__name__}.{field} must be hashable: tuple instead of list")
    dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    cls.__doc__ = described  # rather than the signature that dataclass would put there
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    cls.leaves = tuple(field for field in fields if _is_float(hints[field]))
    _register(cls, [field for field in fields if field not in cls.leaves])


def _register(cls: type[Plugin], static: list[str]) -> None:
    """Makes the class a pytree whose structure names the class.

    Not `register_dataclass`: structures of two such classes with the same field names compare
    equal (JAX 0.10), and a jitted function then runs the program of one for the other.
    """

    def flatten(plugin: Plugin) -> tuple[list[tuple[Any, Any]], Any]:
        leaves = [(jax.tree_util.GetAttrKey(name), getattr(plugin, name)) for name in cls.leaves]
        return leaves, (cls, *(getattr(plugin, name) for name in static))

    def unflatten(structure: Any, leaves: Any) -> Plugin:
        plugin = object.__new__(cls)
        values = zip((*cls.leaves, *static), (*leaves, *structure[1:]), strict=True)
        for name, value in values:
            object.__setattr__(plugin, name, value)
        return plugin

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)


def _is_float(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_float(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        members = [arg for arg in get_args(hint) if arg is not type(None)]
        return len(members) == 1 and _is_float(members[0])
    return hint is float


def _unhashable(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        return any(_unhashable(arg) for arg in get_args(hint))
    return (get_origin(hint) or hint) in (list, dict, set)


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
