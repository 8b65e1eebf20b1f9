"""The plugins, labels, parameters and environments that the entries of a spec name."""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from itertools import product
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dpframe.common.machine import at_work
from dpframe.common.text import blame, cut, did_you_mean, listed
from dpframe.environments import places as place
from dpframe.environments.places import Environment, Wanted
from dpframe.errors import ParameterError, PluginError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin import names_in_specs
from dpframe.interfaces.plugin_files import beside
from dpframe.spec.model import KINDS, EntryTable, MechanismTable, OutputsTable, SearchTable
from dpframe.spec.problems import accepts, describe, findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpframe.interfaces.plugin import Plugin
    from dpframe.spec.audit import Cell, Choice
    from dpframe.spec.document import Document
    from dpframe.spec.model import EnvironmentTable
    from dpframe.spec.problems import Problems
    from dpframe.spec.sweep import Axis


# Stage 2, first half: which plugin each entry of a spec means, and what it is called.


if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from dpframe.interfaces.plugin import Plugin
    from dpframe.interfaces.registry import Entry, Registry
    from dpframe.spec.document import Path
    from dpframe.spec.model import PairTable
    from dpframe.spec.problems import Problems
    from dpframe.spec.tables import Sections

    AnyTable: TypeAlias = EntryTable | PairTable | SearchTable


@dataclasses.dataclass(frozen=True, eq=False)  # eq=False: each entry is itself, and hashable
class Member:
    """An entry of the spec with the plugin it means."""

    path: Path
    """Where it stands: ("pair",) or for example ("mechanism", 1)."""
    label: str
    entry: Entry
    params: dict[str, Any]
    names: tuple[str, ...]
    """Names of the plugin's parameters."""
    raises: str | None = None
    """Of a black box: what an exception is."""
    limit: float | None = None
    """Of a black box: seconds that one answer may take."""
    time: bool = False
    """Of a black box: whether answers are timed."""
    bits: bool = False
    """Of a black box: whether the last bits of numbers are looked at."""

    @property
    def kind(self) -> str:
        """One of mechanism, attack, estimator and pair."""
        return self.entry.kind

    def __str__(self) -> str:
        return f"{self.kind} {self.label!r}"


@dataclasses.dataclass(frozen=True)
class Members:
    """All entries whose plugin is known."""

    of_kind: dict[str, list[Member]]
    broken: frozenset[str]
    """Kinds of which an entry is missing here, because something is wrong with it."""

    def names(self, kind: str) -> list[str]:
        """Names of the parameters that members of a kind have."""
        return list(dict.fromkeys(name for m in self.of_kind[kind] for name in m.names))


def find_members(sections: Sections, registry: Registry, problems: Problems) -> Members:
    """Resolves every `use`, and checks that labels are unique."""
    tables: dict[str, dict[Path, AnyTable]] = {
        kind: {(kind, at): table for at, table in sections.entries[kind].items()} for kind in KINDS
    }
    tables["pair"] = {("pair",): sections.pair} if sections.pair else {}
    tables["neighbourhood"] = dict(_searches(sections, problems))
    found, broken = {}, set(sections.broken)
    for kind, of_kind in tables.items():
        members = [
            _member(path, table, kind, registry, problems) for path, table in of_kind.items()
        ]
        found[kind] = [member for member in members if member]
        if len(found[kind]) < len(members):
            broken.add(kind)
        if kind != "neighbourhood":
            _check_labels(found[kind], of_kind, problems)
    return Members(found, frozenset(broken))


def _searches(sections: Sections, problems: Problems) -> Iterator[tuple[Path, SearchTable]]:
    """[search], where a mechanism goes by it, and what others have in place of it."""
    shared, mechanisms = sections.search, sections.entries["mechanism"]
    of_its_own = {
        at: table.search
        for at, table in mechanisms.items()
        if isinstance(table, MechanismTable) and table.search is not None
    }
    if shared is None:
        for at in of_its_own if sections.pair is not None else ():
            problems.add(("mechanism", at, "search"), "stands in for [search], which is missing")
        return
    if len(of_its_own) < len(mechanisms) or not mechanisms:
        yield ("search",), shared
    for at, own in of_its_own.items():
        same = own.use in (None, shared.use)
        yield (
            ("mechanism", at, "search"),
            SearchTable(
                use=own.use or shared.use,
                params={**shared.params, **own.params} if same else own.params,
            ),
        )


def parameter_names(cls: type[Plugin]) -> list[str]:
    """Names of a plugin's parameters."""
    return list(names_in_specs(cls).values())


def _member(
    path: Path,
    table: AnyTable,
    kind: str,
    registry: Registry,
    problems: Problems,
) -> Member | None:
    try:
        entry = registry.get(kind, table.use)
    except PluginError as error:
        problems.add((*path, "use"), str(error))
        return None
    if entry is None:
        hints = functools.partial(registry.hints, kind, table.use)
        problems.add((*path, "use"), f"unknown {kind} {cut(table.use)!r}", hints)
        return None
    label = (table.label if isinstance(table, EntryTable) else None) or entry.name
    names = tuple(parameter_names(entry.cls))
    member = Member(path, label, entry, table.params, names)
    return _as_it_runs(member, table, problems) if isinstance(table, MechanismTable) else member


def _as_it_runs(member: Member, table: MechanismTable, problems: Problems) -> Member | None:
    """A mechanism with what its table says of how it runs."""
    path, name = member.path, member.entry.name
    if not issubclass(member.entry.cls, HostMechanism):
        for key in ("raises", "limit", "outputs"):
            if getattr(table, key) is not None:
                message = f"is of black boxes alone; {member.label!r} is traced by JAX"
                problems.add((*path, key), message)
    params = member.params
    if table.environment is not None:
        if "environment" not in member.names:
            hint = "only modules of their own do: program, or a class that extends ForeignMechanism"
            problems.add((*path, "environment"), f"mechanism {name!r} runs in this process", hint)
            return None
        params = {"environment": table.environment, **params}
    outputs = table.outputs or OutputsTable()
    how: dict[str, Any] = {"raises": table.raises, "time": outputs.time, "bits": outputs.bits}
    return dataclasses.replace(member, params=params, limit=table.limit, **how)


def _check_labels(
    members: list[Member],
    tables: dict[Path, AnyTable],
    problems: Problems,
) -> None:
    taken: dict[str, Member] = {}
    for member in members:
        first = taken.setdefault(member.label, member)
        if first is member:
            continue
        where = f"{first.path[0]}[{first.path[1]}]"
        table = tables[member.path]
        if isinstance(table, EntryTable) and table.label is not None:
            message = f"label {member.label!r} is already that of {where}"
            problems.add((*member.path, "label"), message)
        else:
            message = f"is called {member.label!r}, and so is {where}; give it a label of its own"
            problems.add((*member.path, "use"), message, 'for example: label = "…"')


# Which environments a spec names, and what is known of them here.


def wanted_of(tables: Mapping[str, EnvironmentTable], problems: Problems) -> tuple[Wanted, ...]:
    """The environments that a spec describes."""
    found = [Wanted(name, tuple(t.requirements), t.python) for name, t in tables.items()]
    taken: dict[str, str] = {}
    for one in found:
        first = taken.setdefault(one.slug.lower(), one.name)
        if first != one.name:
            message = f"its files would be called as those of {first!r}; give it another name"
            problems.add(("environments", one.name), message)
    return tuple(found)


def look(
    document: Document,
    wanted: tuple[Wanted, ...],
    pythons: Mapping[str, str],
    variants: Mapping[Member, Variants],
    problems: Problems,
) -> tuple[Environment, ...]:
    """The environments that mechanisms name, as they are found here.

    Args:
        document: the spec, for the command that builds them.
        wanted: what it describes.
        pythons: interpreters that the command line names.
        variants: every mechanism with its parameters.
        problems: receives names that nothing stands for.
    """
    described = {one.name: one for one in wanted}
    how = f"dpframe environments build {shlex.quote(document.path or 'SPEC')}"
    found: dict[str, Environment] = {}
    for member, of_member in variants.items():
        for box in of_member.values():
            name = environment_of(box)
            if name is None or name in found:
                continue
            if name in pythons:
                found[name] = _named(name, pythons[name])
                requirements = described[name].requirements if name in described else ()
                found[name] = found[name]._replace(requirements=requirements)
            elif name in described:
                found[name] = place.found(described[name], how)
            else:
                known = [*described, *pythons]
                problems.add(
                    member.path,
                    f"there is no environment {name!r}",
                    f"[environments] has: {listed(known)}{did_you_mean(known, name)}",
                    f"--python {shlex.quote(name)}=PATH names an interpreter of your own",
                )
    for name in pythons:
        if name not in found:
            problems.add((), "no mechanism runs in an environment of that name", option=_of(name))
    return tuple(found.values())


@functools.lru_cache(maxsize=64)
def _named(name: str, interpreter: str) -> Environment:
    """Asks once what is installed: an interpreter takes its time to start."""
    return place.named(name, interpreter)


def _of(name: str) -> str:
    return f"--python {name}=…"


def environment_of(plugin: Any) -> str | None:
    """The name of the environment that a mechanism runs in; None for this interpreter."""
    name = getattr(plugin, "environment", None)
    return name if isinstance(name, str) else None


def settled(cells: Iterable[Cell], environments: Iterable[Environment]) -> list[Cell]:
    """The cells, whose mechanisms then know what is installed where they run."""
    digests = {one.name: one.digest for one in environments}

    def told(choice: Choice[Any]) -> Choice[Any]:
        name = environment_of(choice.value)
        return dataclasses.replace(choice, environment=digests[name]) if name else choice

    found = []
    for cell in cells:
        if environment_of(cell.mechanism.value) is None:
            found.append(cell)
            continue
        search = cell.search
        if search is not None:
            search = dataclasses.replace(search, mechanism=told(search.mechanism))
        found.append(dataclasses.replace(cell, mechanism=told(cell.mechanism), search=search))
    return found


# Stage 2, second half: makes each plugin once for every set of parameters the sweep gives it.


Picks = tuple[int, ...]
"""For each axis in question, the position of the value taken."""


Variants = dict[Picks, "Plugin"]
"""A member's plugin for each combination of values of its own axes."""


def make_variants(member: Member, axes: list[Axis], problems: Problems) -> Variants:
    """Makes the plugin for each combination of values of its axes.

    Args:
        member: an entry of the spec.
        axes: the axes over parameters that this plugin has.
        problems: receives what is wrong with values.
    """
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
    swept: dict[str, tuple[str | int, ...]],
    later: set[str],
    problems: Problems,
) -> Plugin | None:
    """One variant; `swept` has the places of swept values, `later` the names still to come."""
    try:
        with at_work(f"parameters of {member}: check", member.path), beside(problems.folder):
            plugin: Plugin = member.entry.cls.from_params(params)
            _check_value(plugin)
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
    else:
        return plugin
    return None


def _check_value(plugin: Plugin) -> None:
    """Raises TypeError unless a plugin can be a key and its parameters be written down."""
    try:
        hash(plugin)
    except Exception as error:
        raise TypeError(f"cannot be hashed (tuples instead of lists): {blame(error)}") from error
    try:
        json.dumps(plugin.params())
    except Exception as error:
        raise TypeError(f"cannot be written down: {blame(error)}") from error


def explain(error: BaseException) -> str:
    """What a plugin's exception says: a ValueError speaks to the user, anything else is a bug."""
    return told(error) or blame(error)


def told(error: BaseException) -> str:
    """What a ValueError tells the user, in all of its lines; "" where it is not for users."""
    if not isinstance(error, ValueError):
        return ""
    try:
        return " ".join(str(error).split())
    except Exception:
        return ""
