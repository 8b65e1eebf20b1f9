"""The axes of a sweep, and overrides from the command line."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import tomli
from pydantic import ValidationError

from dpframe.common.text import cut, did_you_mean
from dpframe.errors import DpframeError, PluginError
from dpframe.interfaces.plugin import json_schema
from dpframe.spec.document import UnfitError, dotted, flatten, plain
from dpframe.spec.model import KINDS, SWEEPABLE, AuditTable
from dpframe.spec.problems import accepts, findings, show
from dpframe.spec.uses import parameter_names

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from dpframe.interfaces.plugin import Plugin
    from dpframe.interfaces.registry import Registry
    from dpframe.spec.document import Document, Path
    from dpframe.spec.problems import Problems
    from dpframe.spec.uses import Members


# The axes of a sweep: each key with its values, checked against what has such a key.


@dataclasses.dataclass(frozen=True)
class Axis:
    """One swept key."""

    key: str
    """For example "mechanism.epsilon"."""
    path: Path
    values: tuple[Any, ...]

    @property
    def group(self) -> str:
        """What has the key: a kind of plugin, "pair" or "audit"."""
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """The parameter."""
        return self.key.partition(".")[2]


def read_axes(document: Document, members: Members, problems: Problems) -> list[Axis]:
    """The axes in the order of the spec."""
    sweep = document.data.get("sweep")
    names = {kind: dict.fromkeys(members.names(kind)) for kind in (*KINDS, "pair")}
    names["audit"] = dict.fromkeys(SWEEPABLE)
    axes: dict[str, Axis] = {}
    for key, path, values in flatten(sweep, ("sweep",)) if isinstance(sweep, dict) else ():
        group, _, name = key.partition(".")
        if name not in names.get(group, ()):
            # A plugin that could not be found may have the key.
            if group not in members.broken:
                _unknown(key, path, names, problems)
            continue
        if not isinstance(values, list):
            problems.add(path, f"should be a list of values, got {show(values)}")
        elif not values:
            problems.add(path, "is an empty list, so there is nothing to run")
        elif key in axes:
            problems.add(path, f"is already swept by {dotted(axes[key].path)}")
        else:
            axes[key] = Axis(key, path, tuple(values))
            _check_values(axes[key], problems)
    return list(axes.values())


def _unknown(key: str, path: Path, names: dict[str, dict[str, None]], problems: Problems) -> None:
    """Notes a key that nothing has."""
    group, _, name = key.partition(".")
    every = [f"{group}.{name}" for group, of in names.items() for name in of]
    if group in KINDS or group == "pair":
        message = f"no {group} of this spec has a parameter {cut(name)!r}"
        problems.add(path, message, accepts([k for k in every if k.startswith(f"{group}.")], key))
    else:
        problems.add(path, "cannot be swept", accepts(every, key))


def _check_values(axis: Axis, problems: Problems) -> None:
    """Repetitions, and the values of [audit]; a plugin's are checked where it is made."""
    first: dict[Hashable, int] = {}
    for position, value in enumerate(axis.values):
        earlier = first.setdefault(freeze(value), position)
        if earlier != position:
            message = f"{show(value)} is already entry {earlier} of this list"
            problems.add((*axis.path, position), message)
        if axis.group == "audit":
            table = {"name": "audit", axis.name: value}
            try:
                AuditTable.model_validate(table)
            except ValidationError as error:
                for finding in findings(error, table, "key"):
                    place = (*axis.path, position, *finding.path[1:])
                    problems.add(place, finding.message, finding.hint)


def freeze(value: Any) -> Hashable:
    """A hashable stand-in; equal for equal numbers (1 and 1.0), different for 1 and true."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float | str):
        return value
    return ("json", json.dumps(value, sort_keys=True, default=str))


# Applies `--set KEY=VALUE`, `--trials` and `--seed` to a spec.


_GROUPS = (*KINDS, "pair", "search", "audit", "run")


@dataclasses.dataclass(frozen=True)
class Override:
    """One key that the command line sets."""

    key: str
    value: Any
    option: str
    """As the user wrote it, for messages."""

    @property
    def group(self) -> str:
        """The part of the key before the dot."""
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """The part of the key after the dot."""
        return self.key.partition(".")[2]


def parse(texts: Iterable[str], problems: Problems) -> list[Override]:
    """Reads `KEY=VALUE` texts; a VALUE that is not TOML is a string."""
    overrides = []
    for text in texts:
        key, equals, value = text.partition("=")
        option = f"--set {text}"
        group, _, name = (key := key.strip()).partition(".")
        if not equals:
            problems.add((), "should be KEY=VALUE", option=option)
        elif group not in _GROUPS or not name:
            hint = did_you_mean(_GROUPS, group) if name else ""
            forms = ", ".join(f"{group}.X" for group in _GROUPS)
            problems.add((), f"unknown key {cut(key)!r}", f"accepts: {forms}{hint}", option=option)
        else:
            try:
                overrides.append(Override(plain(key), _value(value), option))
            except UnfitError as error:
                problems.add((), error.message, option=option)
    return overrides


def read_parameters(kind: str, texts: Iterable[str]) -> dict[str, Any]:
    """Reads `KIND.X=VALUE` texts where no spec is changed.

    Args:
        kind: the only one that makes sense there.
        texts: as the user wrote them.

    Raises:
        DpframeError: one is not of this form.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        group, _, name = key.strip().partition(".")
        if not equals or group != kind or not name:
            raise DpframeError(f"--set {cut(text)}: should be {kind}.X=VALUE")
        try:
            values[plain(name)] = _value(value)
        except UnfitError as error:
            raise DpframeError(f"--set {cut(text)}: {error.message}") from None
    return values


def apply(
    document: Document, overrides: Iterable[Override], registry: Registry, problems: Problems
) -> None:
    """Changes the tables of a document, one override after the other."""
    for override in overrides:
        swept = _swept_path(document, override.key)
        if swept and isinstance(override.value, list):
            document.narrowed.add(override.key)
            _put(document, swept, override)
            continue
        if swept:
            document.narrowed.add(override.key)
            document.fixed[override.key] = override.value
            _remove(document.data, swept)
        elif override.key in document.fixed:
            document.fixed[override.key] = override.value
        if override.group in ("audit", "run"):
            _set_option(document, override)
        else:
            _set_parameter(document, override, registry, problems)


def _value(text: str) -> Any:
    try:
        parsed = tomli.loads(f"value = {text}")
    except tomli.TOMLDecodeError:
        return plain(text.strip())
    except RecursionError:
        raise UnfitError((), "is nested too deeply") from None
    except ValueError:  # what Python says of so long a number
        raise UnfitError((), "is not TOML that can be read: a number is too long") from None
    return plain(parsed["value"]) if len(parsed) == 1 else text.strip()


def _set_option(document: Document, override: Override) -> None:
    if (
        isinstance(override.value, list)
        and override.group == "audit"
        and override.name in SWEEPABLE
    ):
        _put(document, ("sweep", override.key), override)
    else:
        _put(document, (override.group, override.name), override)


def _set_parameter(
    document: Document, override: Override, registry: Registry, problems: Problems
) -> None:
    """Sets a parameter of every plugin that has it; several values for it are a sweep."""
    uses = _uses(document, override.group)
    classes = {path: _class(registry, override.group, use) for path, use in uses.items()}
    takers = {
        path: cls for path, cls in classes.items() if cls and override.name in parameter_names(cls)
    }
    if not takers:
        if all(classes.values()):  # an unknown plugin might have had it, and is reported anyway
            known = sorted({f for cls in classes.values() if cls for f in parameter_names(cls)})
            message = f"no {override.group} has a parameter {cut(override.name)!r}"
            problems.add((), message, accepts(known, override.name), option=override.option)
        return
    several = isinstance(override.value, list)
    if several and not any(_takes_list(cls, override.name) for cls in takers.values()):
        document.fixed.pop(override.key, None)
        _put(document, ("sweep", override.key), override)
        return
    for path in takers:
        _put(document, (*path, "params", override.name), override)


def _uses(document: Document, kind: str) -> dict[Path, Any]:
    """Where plugins of a kind are named, in a document that may be full of mistakes."""
    value = document.data.get(kind)
    single = kind in ("pair", "search")
    tables: dict[Path, Any] = {(kind,): value} if single else {}
    if isinstance(value, list) and not single:
        tables = {(kind, position): table for position, table in enumerate(value)}
    uses = {path: table.get("use") for path, table in tables.items() if isinstance(table, dict)}
    if kind == "search":
        for position, mechanism in enumerate(_list(document.data.get("mechanism"))):
            own = mechanism.get("search") if isinstance(mechanism, dict) else None
            if isinstance(own, dict):
                use = own.get("use", uses.get((kind,)))
                uses["mechanism", position, kind] = use
    return uses


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _class(registry: Registry, kind: str, use: Any) -> type[Plugin] | None:
    kind = "neighbourhood" if kind == "search" else kind
    try:
        entry = registry.get(kind, use) if isinstance(use, str) else None
    except PluginError:
        return None
    return entry.cls if entry else None


def _takes_list(cls: type[Plugin], name: str) -> bool:
    schema = json_schema(cls)["properties"][name]
    return any(form.get("type") == "array" for form in (schema, *schema.get("anyOf", ())))


def _swept_path(document: Document, key: str) -> Path | None:
    sweep = document.data.get("sweep")
    flat = flatten(sweep, ("sweep",)) if isinstance(sweep, dict) else []
    return next((path for swept, path, _ in flat if swept == key), None)


def _put(document: Document, path: Path, override: Override) -> None:
    table: Any = document.data
    for step in path[:-1]:
        table = table.setdefault(step, {}) if isinstance(table, dict) else table[step]
        if not isinstance(table, dict | list):
            return  # a value where a table should be: a mistake that stage 1 reports
    if isinstance(table, dict):
        table[str(path[-1])] = override.value
        document.origins[path] = override.option


def _remove(table: dict[str, Any], path: Path) -> None:
    """Removes a key, and the tables around it that it leaves empty."""
    key = str(path[0])
    if len(path) > 1:
        _remove(table[key], path[1:])
    if len(path) == 1 or not table[key]:
        del table[key]
