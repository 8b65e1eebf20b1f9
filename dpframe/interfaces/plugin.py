"""The base class of every plugin: a frozen, keyword-only dataclass that JAX can trace."""

import dataclasses
import functools
import inspect
import json
import sys
import types
import typing
from typing import Annotated, Any, ClassVar, Self, Union, dataclass_transform, get_args, get_origin

from dpframe.common import trees
from dpframe.common.text import Described, error_message, shown
from dpframe.errors import PluginError

if typing.TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

# The plugin interface this version speaks. A class with another `api` is listed, not loaded.
API = 1


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Plugin(Described):
    """Base of mechanisms, attacks, estimators, pairs and neighbourhoods.

    A plugin names itself in its class statement, `class Laplace(Mechanism, name="laplace")`,
    and declares its parameters as annotated fields, each with a docstring under it. It becomes a
    frozen keyword-only dataclass and a JAX pytree: fields of type `float` (also inside
    `Annotated` or `| None`) are traced leaves, so a sweep over them compiles once; all other
    fields are static and must be hashable (tuples, not lists).

    A class without a name is an abstract base: fields and methods that several plugins share. It
    may be extended and cannot be used itself. You cannot subclass a named plugin.

    Do not validate in `__post_init__`, because JAX rebuilds instances with tracers: put bounds into
    `Annotated[float, Gt(0)]`, and rules over several fields into `check`.
    """

    name: ClassVar[str]
    """The name in specs."""
    api: ClassVar[int] = API
    """The version of the plugin interface that the class is written for; others are not loaded."""
    kind: ClassVar[str]
    """"mechanism", "attack", "estimator", "pair" or "neighbourhood"."""
    may_be_parameters: ClassVar[frozenset[str]] = frozenset()
    """Members of the kind for which a class may have a parameter of the same name."""
    leaves: ClassVar[tuple[str, ...]] = ()
    """Names of the traced fields."""

    spec_names: ClassVar[dict[str, str]] = {}
    """Names in specs of fields that have another name in Python."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        api: int = API,
        kind: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if kind is not None:  # dpframe's own base of a kind
            cls.kind = kind
            return
        _check_statement(cls, name)
        if name is not None:
            cls.name, cls.api = name, api
            if api == API:
                cls.check_definition()
        if names := dict(cls.spec_names):
            cls.__pydantic_config__ = {
                **cls.__pydantic_config__,
                "alias_generator": lambda field: names.get(field, field),
            }
        _become_dataclass(cls)
        if name is not None:
            _register(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if "name" not in cls.__dict__:
            raise TypeError(abstract(cls))
        return object.__new__(cls)

    @classmethod
    def check_definition(cls) -> None:
        """Check the rules of the kind for a named class; raise TypeError."""

    def check(self) -> None:
        """Check rules over several fields; raise ValueError with a message for the user."""

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Self:
        """Build the plugin from plain values, as a spec gives them.

        Raises:
            pydantic.ValidationError: a parameter is unknown, missing, of the wrong type or out
                of range.
            ValueError: `check` refuses the combination.
        """
        # Only strict JSON mode accepts 1 for a float and rejects "1.0" and true.
        value: Self = adapter(cls).validate_json(json.dumps(params), strict=True)
        value.check()
        return value

    def params(self) -> dict[str, Any]:
        """Return the parameters as plain JSON values."""
        plain: dict[str, Any] = adapter(type(self)).dump_python(self, mode="json", by_alias=True)
        return plain


def require(cls: type[Plugin], member: str, kind: type) -> None:
    """Raise TypeError unless a class attribute is of a type."""
    value = getattr(cls, member)
    if not isinstance(value, kind):
        wanted = {bool: "True or False", str: "a text"}[kind]
        raise TypeError(f"{cls.__name__}.{member} is {shown(value)}; it must be {wanted}")


def gives(cls: type[Plugin], member: str) -> bool:
    """True if a class has a member of its own: an attribute, a property or a parameter."""
    base = next(base for base in cls.__mro__ if "kind" in base.__dict__)
    if getattr(cls, member, None) is not getattr(base, member, None):
        return True
    own = cls.__mro__[: cls.__mro__.index(base)]
    hints = [str(annotations.get(member, "")) for annotations in map(inspect.get_annotations, own)]
    return any(hint and "ClassVar" not in hint for hint in hints)


def require_text(cls: type[Plugin], member: str) -> None:
    """Raise TypeError unless a member is a text, or a property or parameter that will be one."""
    value = inspect.getattr_static(cls, member, None)  # None: a parameter without a default
    if value is not None and not isinstance(value, property):
        require(cls, member, str)


def problems_of(error: "ValidationError") -> list[tuple[tuple[str | int, ...], str, str]]:
    """Return a validation error as (place, kind, message) triples."""
    return [(e["loc"], e["type"], e["msg"]) for e in error.errors(include_url=False)]


_ADAPTERS: dict[type, Any] = {}


def adapter(cls: type) -> "TypeAdapter[Any]":
    """Return the TypeAdapter of a class, made once."""
    from pydantic import TypeAdapter  # workers of black boxes do not need it

    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    made: TypeAdapter[Any] = _ADAPTERS[cls]
    return made


def abstract(cls: type) -> str:
    """Return a message that says why a class without a name cannot be used, and what to write."""
    base = cls.__bases__[0].__name__
    return f'{cls.__name__} is a base class; to use it: class {cls.__name__}({base}, name="…")'


def names_in_specs(cls: type) -> dict[str, str]:
    """Map each field of a plugin class to its name in specs, in their order."""
    called: dict[str, str] = getattr(cls, "spec_names", {})
    return {field.name: called.get(field.name, field.name) for field in dataclasses.fields(cls)}


OF_THE_STATEMENT = ("name", "api", "kind", "leaves")


def _check_statement(cls: type[Plugin], name: str | None) -> None:
    """Raise TypeError for a class statement that breaks the rules of plugins."""
    title = cls.__name__
    kinds = [base for base in cls.__mro__ if "kind" in base.__dict__ and base is not cls]
    if not kinds:
        raise TypeError(
            f"{title}: extend Mechanism, HostMechanism, Attack, Estimator, Pair or Neighbourhood"
        )
    if others := [base for base in kinds if not issubclass(kinds[0], base)]:
        both = f"{kinds[0].__name__} and {others[0].__name__}"
        raise TypeError(f"{title} extends {both}; a plugin must have one kind")
    if parents := [base.__name__ for base in cls.__mro__[1:] if "name" in base.__dict__]:
        raise TypeError(
            f"{title} extends {parents[0]}, but you cannot subclass a named plugin: put shared "
            "code into a class without a name"
        )
    base = cls.__bases__[0].__name__
    for word in OF_THE_STATEMENT:
        if word in cls.__dict__ or word in inspect.get_annotations(cls):
            raise TypeError(
                f"{title}.{word} is not the name of a parameter; set plugin name and interface "
                f'version in the class statement: class {title}({base}, name="…", api={API})'
            )
    if name is not None and not (isinstance(name, str) and name.strip() == name != ""):
        raise TypeError(f"{title}: the name {name!r} must be a text without spaces around it")
    if name is not None and (not name.isprintable() or "/" in name):
        raise TypeError(f"{title}: the name {name!r} must be printable and without a slash")


def _become_dataclass(cls: type[Plugin]) -> None:
    own = inspect.get_annotations(cls)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name == "__init_subclass__":
        frame = frame.f_back
    # This frame is the scope of the class statement: a plugin may be defined inside a function and
    # use types that exist only there.
    try:
        hints = typing.get_type_hints(cls, localns=frame.f_locals, include_extras=True)
    except NameError as error:
        raise PluginError(
            f"{cls.__name__}: the annotation of a field names {error.name!r}, which does not exist "
            "at run time; import it outside `if TYPE_CHECKING`"
        ) from None
    cls.__annotations__ = {field: hints[field] for field in own}
    _check_fields(
        cls, {f: hints[f] for f in own if ClassVar not in (hints[f], get_origin(hints[f]))}
    )
    described = cls.__dict__.get("__doc__")
    dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    cls.__doc__ = described  # not the signature that dataclass would put there
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    cls.leaves = tuple(field for field in fields if _is_float(hints[field]))


def _check_fields(cls: type[Plugin], own: dict[str, Any]) -> None:
    """Raise TypeError for a field that is part of the interface, or that cannot be hashed."""
    for field, hint in own.items():
        if field in _interface(cls):
            raise TypeError(
                f"{cls.__name__}.{field} is part of every {cls.kind}, not a parameter: set it "
                "without an annotation, or rename the parameter"
            )
        if _unhashable(hint):
            raise TypeError(f"{cls.__name__}.{field} must be hashable: tuple instead of list")
    inherited = {
        field.name
        for base in cls.__mro__[1:]
        if dataclasses.is_dataclass(base)
        for field in dataclasses.fields(base)
    }
    for field in sorted(inherited & set(cls.__dict__) - set(own)):
        raise TypeError(
            f"{cls.__name__}.{field} is an inherited parameter: to change it, repeat its "
            f"annotation, {field}: … = …"
        )


def _interface(cls: type[Plugin]) -> set[str]:
    """Return the names that every plugin of its kind has, and that no parameter may have."""
    kind: Any = next(base for base in cls.__mro__ if "kind" in base.__dict__)
    annotated = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
    return {*dir(kind), *annotated}.difference(kind.may_be_parameters)


def not_annotated(cls: type[Plugin], name: str) -> str | None:
    """Return a hint if a class sets a value that its author may have meant as a parameter."""
    value = vars(cls).get(name)
    if name in _interface(cls) or not isinstance(value, bool | int | float | str):
        return None
    field = f"{name}: {type(value).__name__} = {value!r}"
    return f"{cls.__name__} sets it without an annotation; for a parameter write {field}"


def _register(cls: type[Plugin]) -> None:
    """Make the class a pytree whose structure names the class.

    Not `register_dataclass`: structures of two such classes with the same field names compare
    equal (JAX 0.10), and a jitted function then runs the program of one for the other.
    """
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    static = [field for field in fields if field not in cls.leaves]

    def flatten(plugin: Plugin) -> tuple[dict[str, Any], Any]:
        leaves = {name: getattr(plugin, name) for name in cls.leaves}
        return leaves, (cls, *(getattr(plugin, name) for name in static))

    def unflatten(structure: Any, leaves: Any) -> Plugin:
        plugin = object.__new__(cls)
        values = zip((*cls.leaves, *static), (*leaves, *structure[1:]), strict=True)
        for name, value in values:
            object.__setattr__(plugin, name, value)
        return plugin

    trees.register(cls, flatten, unflatten)


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


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One row of a plugin's parameter table."""

    name: str
    type: str
    default: str
    bounds: str
    meaning: str


def parameters(cls: type[Plugin]) -> tuple[Parameter, ...]:
    """Return the parameter table of a plugin class, in the order of its fields."""
    described = json_schema(cls).get("properties", {})
    hints = typing.get_type_hints(cls, include_extras=True)
    names = names_in_specs(cls)
    return tuple(
        Parameter(
            name=names[field.name],
            type=_type_text(hints[field.name]),
            default=_default_text(field),
            bounds=", ".join(_bounds(hints[field.name])),
            meaning=" ".join(described.get(names[field.name], {}).get("description", "").split()),
        )
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]  # made a dataclass above
    )


@functools.cache
def unreadable(cls: type[Plugin]) -> str | None:
    """Describe a parameter that no spec can give, because TOML lacks its type; else None."""
    from pydantic import TypeAdapter

    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # made a dataclass above
        try:
            TypeAdapter(hints[field.name]).json_schema()
        except Exception:  # pydantic's messages would not help the author
            wanted = "a spec can set numbers, texts, booleans, tuples and Literals"
            return f"{cls.__name__}.{field.name} is {_type_text(hints[field.name])}; {wanted}"
    try:
        adapter(cls)
        [_default_text(field) for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    except Exception as error:
        return f"dpframe cannot describe the parameters of {cls.__name__}: {error_message(error)}"
    return None


def json_schema(cls: type[Plugin]) -> dict[str, Any]:
    """Return the JSON Schema of the parameters; an inherited one keeps its base's description."""
    return adapter(cls).json_schema()


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
