"""The axes of a sweep, ranges of a search, and overrides from the command line."""

import contextlib
import dataclasses
import itertools
import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tomli
from pydantic import ValidationError

from dpframe.common.text import cut, did_you_mean
from dpframe.errors import DpframeError, PluginError
from dpframe.interfaces.plugin import Plugin, json_schema, names_in_specs
from dpframe.interfaces.plugin_files import SpecFile, beside
from dpframe.interfaces.registry import Registry
from dpframe.spec.document import (
    Document,
    Path,
    SpecValueError,
    accepts,
    dotted,
    findings,
    flatten,
    plain,
    show,
)
from dpframe.spec.members import Member, Members
from dpframe.spec.model import LISTED, SWEEPABLE, AuditTable


@dataclasses.dataclass(frozen=True)
class SweptKey:
    """One swept key with its values."""

    group: str  # a kind of plugin, "pair" or "audit"
    name: str  # of the parameter
    path: Path
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """For example "mechanism.epsilon"."""
        return f"{self.group}.{self.name}"

    def is_of(self, member: Member) -> bool:
        """True if the member has this parameter."""
        return self.group == member.kind and self.name in member.names


def read_axes(document: Document, members: Members) -> list[SweptKey]:
    """Return the axes in the order of the spec."""
    names = {
        kind: dict.fromkeys(name for member in members.of_kind[kind] for name in member.names)
        for kind in (*LISTED, "pair")
    }
    names["audit"] = dict.fromkeys(SWEEPABLE)
    axes: dict[str, SweptKey] = {}
    for key, path, values in document.swept:
        group, _, name = key.partition(".")
        if name not in names.get(group, ()):
            # A plugin that could not be found may have the key.
            if group not in members.broken:
                _unknown(key, path, names, document)
        elif not isinstance(values, list):
            document.note(path, f"should be a list of values, got {show(values)}")
        elif not values:
            document.note(path, "is an empty list, so there is nothing to run")
        elif key in axes:
            document.note(path, f"is already swept by {dotted(axes[key].path)}")
        else:
            axes[key] = SweptKey(group, name, path, tuple(values))
            _check_values(axes[key], document)
    return list(axes.values())


def _unknown(key: str, path: Path, names: dict[str, dict[str, None]], document: Document) -> None:
    group, _, name = key.partition(".")
    every = [f"{group}.{name}" for group, of in names.items() for name in of]
    if group in LISTED or group == "pair":
        message = f"no {group} of this spec has a parameter {cut(name)!r}"
        document.note(path, message, accepts([k for k in every if k.startswith(f"{group}.")], key))
    else:
        document.note(path, "cannot be swept", accepts(every, key))


def _check_values(axis: SweptKey, document: Document) -> None:
    """Check for repetitions, and check values of [audit]; variants check those of plugins."""
    first: dict[Hashable, int] = {}
    for position, value in enumerate(axis.values):
        earlier = first.setdefault(freeze(value), position)
        if earlier != position:
            message = f"{show(value)} is already entry {earlier} of this list"
            document.note((*axis.path, position), message)
        if axis.group == "audit":
            table = {"name": "audit", axis.name: value}
            try:
                AuditTable.model_validate(table)
            except ValidationError as error:
                for finding in findings(error, table, "key"):
                    place = (*axis.path, position, *finding.path[1:])
                    document.note(place, finding.message, finding.hint)


def freeze(value: Any) -> Hashable:
    """Return a hashable stand-in; equal for equal numbers (1 and 1.0), different for 1 and true."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float | str):
        return value
    return ("json", json.dumps(value, sort_keys=True, default=str))


OF_SEARCHES = ("ignore", "findings", "parameters")
"""Keys of [search] itself, which take precedence over parameters of a neighbourhood."""

_GROUPS = (*LISTED, "pair", "search", "audit", "run", "environments")


class Override(NamedTuple):
    """One key that `--set KEY=VALUE`, `--trials` or `--seed` sets."""

    key: str
    value: Any
    option: str  # as the user wrote it, for messages


def parse(texts: Iterable[str], document: Document) -> list[Override]:
    """Read `KEY=VALUE` texts; a VALUE that is not TOML is a string."""
    overrides = []
    for text in texts:
        key, equals, value = text.partition("=")
        option = f"--set {text}"
        group, _, name = (key := key.strip()).partition(".")
        if not equals:
            document.note((), "should be KEY=VALUE", option=option)
        elif group not in _GROUPS or not name:
            hint = did_you_mean(_GROUPS, group) if name else ""
            forms = ", ".join(f"{group}.X" for group in _GROUPS)
            document.note((), f"unknown key {cut(key)!r}", f"accepts: {forms}{hint}", option=option)
        else:
            try:
                overrides.append(Override(plain(key), _value(value), option))
            except SpecValueError as error:
                document.note((), error.message, option=option)
    return overrides


def read_parameters(kind: str, texts: Iterable[str]) -> dict[str, Any]:
    """Read `KIND.X=VALUE` texts for a command that has no spec; raise DpframeError if one is not.

    `kind` is the only accepted kind.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        group, _, name = key.strip().partition(".")
        if not equals or group != kind or not name:
            raise DpframeError(f"--set {cut(text)}: should be {kind}.X=VALUE")
        try:
            values[plain(name)] = _value(value)
        except SpecValueError as error:
            raise DpframeError(f"--set {cut(text)}: {error.message}") from None
    return values


def _value(text: str) -> Any:
    try:
        parsed = tomli.loads(f"value = {text}")
    except tomli.TOMLDecodeError:
        return plain(text.strip())
    except RecursionError:
        raise SpecValueError((), "is nested too deeply") from None
    except ValueError:  # Python refuses numbers of so many digits
        raise SpecValueError((), "is not readable TOML: a number is too long") from None
    return plain(parsed["value"]) if len(parsed) == 1 else text.strip()


def apply(document: Document, overrides: Iterable[Override], registry: Registry) -> None:
    """Change the tables of a document, one override after the other."""
    for override in overrides:
        key, value = override.key, override.value
        group, _, name = key.partition(".")
        swept = next((path for other, path, _ in document.swept if other == key), None)
        if swept:
            document.narrowed.add(key)
            if isinstance(value, list):
                _put(document, swept, override)
                continue
            _remove(document.data, swept)
        if swept or key in document.fixed:
            document.fixed[key] = value
        if group == "search" and name in OF_SEARCHES:
            _put(document, (group, name), override)
        elif group not in ("audit", "run", "environments"):
            _set_parameter(document, override, registry)
        elif isinstance(value, list) and group == "audit" and name in SWEEPABLE:
            _put(document, ("sweep", key), override)
        else:
            _put(document, (group, name), override)


def _set_parameter(document: Document, override: Override, registry: Registry) -> None:
    """Set a parameter of every plugin that has it; a list of values becomes a sweep."""
    group, _, name = override.key.partition(".")
    classes = {
        path: _class(registry, "neighbourhood" if group == "search" else group, use)
        for path, use in _uses(document.data, group).items()
    }
    names = {path: names_in_specs(cls).values() for path, cls in classes.items() if cls}
    takers = [path for path, known in names.items() if name in known]
    if not takers:
        if all(classes.values()):  # an unknown plugin might have it, and is reported elsewhere
            message = f"no {group} has a parameter {cut(name)!r}"
            known = sorted({name for of_one in names.values() for name in of_one})
            document.note((), message, accepts(known, name), option=override.option)
    elif isinstance(override.value, list) and not any(
        _takes_list(classes[path], name) for path in takers
    ):
        document.fixed.pop(override.key, None)
        _put(document, ("sweep", override.key), override)
    else:
        for path in takers:
            _put(document, (*path, "params", name), override)


def _uses(data: dict[str, Any], kind: str) -> dict[Path, Any]:
    """Return the plugin names of a kind, in a document that may have mistakes."""
    if kind in ("pair", "search"):
        tables: dict[Path, Any] = {(kind,): data.get(kind)}
    else:
        tables = {(kind, position): table for position, table in enumerate(_list(data.get(kind)))}
    uses = {path: table.get("use") for path, table in tables.items() if isinstance(table, dict)}
    if kind == "search":
        for position, mechanism in enumerate(_list(data.get("mechanism"))):
            own = mechanism.get("search") if isinstance(mechanism, dict) else None
            if isinstance(own, dict):
                uses["mechanism", position, kind] = own.get("use", uses.get((kind,)))
    return uses


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _class(registry: Registry, kind: str, use: Any) -> type[Plugin] | None:
    try:
        entry = registry.get(kind, use) if isinstance(use, str) else None
    except PluginError:
        return None
    return entry.cls if entry else None


def _takes_list(cls: Any, name: str) -> bool:
    schema = json_schema(cls)["properties"][name]
    return any(form.get("type") == "array" for form in (schema, *schema.get("anyOf", ())))


def _put(document: Document, path: Path, override: Override) -> None:
    table: Any = document.data
    for step in path[:-1]:
        table = table.setdefault(step, {}) if isinstance(table, dict) else table[step]
        if not isinstance(table, dict | list):
            return  # a value where a table should be: a mistake that `read_sections` reports
    if isinstance(table, dict):
        table[str(path[-1])] = override.value
        document.origins[path] = override.option


def _remove(table: dict[str, Any], path: Path) -> None:
    """Remove a key, and the enclosing tables that become empty."""
    key = str(path[0])
    if len(path) > 1:
        _remove(table[key], path[1:])
    if len(path) == 1 or not table[key]:
        del table[key]


Setting = tuple[tuple[str, str], ...]
"""Values by key, each as JSON; empty for the parameters of the spec."""

GROUP = "mechanism."
_ENDS = frozenset({"low", "high", "log"})  # keys of a range


class Range(NamedTuple):
    """The values that a parameter may take."""

    key: str  # as in "mechanism.C", or "mechanism.params.C" inside a table
    values: tuple[str, ...]  # each as JSON; values between two ends are drawn at random
    ends: tuple[float, float] | None = None
    log: bool = False
    whole: bool = False

    def by_chance(self, rng: np.random.Generator, near: str | None = None) -> str:
        """Return a random value; with `near`, the middle between it and `near`."""
        if self.ends is None:
            return self.values[int(rng.integers(len(self.values)))]
        low, high = map(math.log, self.ends) if self.log else self.ends
        number = float(rng.uniform(low, high))
        if near is not None:
            old = float(json.loads(near))
            number = (number + (math.log(old) if self.log else old)) / 2
        return self.at(math.exp(number) if self.log else number)

    def at(self, number: float) -> str:
        """Return a number as a value, clipped to the ends."""
        low, high = self.ends or (number, number)
        number = min(max(number, low), high)
        return json.dumps(round(number) if self.whole else number)


def read_ranges(tables: Mapping[str, Any]) -> list[Range]:
    """Return the ranges of `[search.parameters]`; quoted and nested keys are equal.

    Raises:
        ValueError: the message is for the user.
    """
    ranges = []
    for key, _, value in flatten(tables, (), _ENDS):
        if not key.startswith(GROUP) or not key.removeprefix(GROUP):
            raise ValueError(f'{key}: must name a parameter of the mechanism, as in "mechanism.C"')
        if isinstance(value, list):
            if not value:
                raise ValueError(f"{key}: is an empty list")
            ranges.append(Range(key, tuple(map(json.dumps, value))))
            continue
        ranges.append(_range(key, value))
    if len({one.key for one in ranges}) < len(ranges):
        raise ValueError("a parameter is there twice")
    return ranges


def _range(key: str, value: Any) -> Range:
    message = f"{key}: should be a list of values, or {{ low = …, high = …, log = true }}"
    if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= _ENDS:
        raise ValueError(message)
    low, high, log = value["low"], value["high"], value.get("log", False)
    numbers = [one for one in (low, high) if type(one) in (int, float) and math.isfinite(one)]
    if len(numbers) < 2 or type(log) is not bool:
        raise ValueError(message)
    if not low < high or (log and low <= 0):
        raise ValueError(f"{key}: low must be below high, and above 0 with log = true")
    plain = Range(key, (), (float(low), float(high)), log, type(low) is type(high) is int)
    middle = math.sqrt(low) * math.sqrt(high) if log else low / 2 + high / 2
    return plain._replace(values=tuple(map(plain.at, (low, high, middle))))


def planned(ranges: Sequence[Range]) -> list[Setting]:
    """Return the first settings: as given, each parameter alone, all together."""
    settings: list[Setting] = [()]
    longest = max((len(one.values) for one in ranges), default=0)
    for position in range(longest):
        settings += [
            ((one.key, one.values[position]),) for one in ranges if position < len(one.values)
        ]
    if len(ranges) > 1:
        settings += [
            tuple((one.key, one.values[position]) for one in ranges) for position in (0, -1)
        ]
    return list(dict.fromkeys(settings))


def by_chance(
    ranges: Sequence[Range], rng: np.random.Generator, near: Setting | None = None
) -> Setting:
    """Return a setting of all parameters; with `near`, one of them changes."""
    if near is None:
        return tuple((one.key, one.by_chance(rng)) for one in ranges)
    values = dict(near)
    one = ranges[int(rng.integers(len(ranges)))]
    values[one.key] = one.by_chance(rng, values.get(one.key))
    return tuple(sorted(values.items()))


def varied(mechanism: Any, setting: Setting) -> Any:
    """Return a mechanism with other values of its parameters.

    Raises:
        pydantic.ValidationError, ValueError: it refuses them.
    """
    if not setting:
        return mechanism
    params = mechanism.params()
    for key, value in setting:
        *around, name = key.removeprefix(GROUP).split(".")
        table = params
        for step in around:
            table = table.setdefault(step, {})
        table[name] = json.loads(value)
    fields = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    lists = [one if isinstance(one, tuple) else (one,) for one in fields.values()]
    files = [value for value in itertools.chain(*lists) if isinstance(value, SpecFile)]
    with beside(files[0].folder, files[0].allow_command) if files else contextlib.nullcontext():
        return type(mechanism).from_params(params)
