"""Resolve the entries of a spec: the plugin that each one means, and its label."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dpframe.common.text import cut
from dpframe.errors import PluginError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin import names_in_specs
from dpframe.interfaces.registry import Entry, Registry
from dpframe.spec.document import Path
from dpframe.spec.model import (
    KINDS,
    EntryTable,
    MechanismTable,
    OutputsTable,
    PairTable,
    SearchTable,
)
from dpframe.spec.problems import Problems
from dpframe.spec.tables import Sections

_Table = EntryTable | PairTable | SearchTable


@dataclasses.dataclass(frozen=True, eq=False)  # eq=False: each entry is itself, and hashable
class Member:
    """An entry of the spec with the plugin it means.

    The fields after `names` concern black boxes only, see `dpframe.spec.audit.Choice`.
    """

    path: Path  # of its table: ("pair",) or for example ("mechanism", 1)
    label: str
    entry: Entry
    params: dict[str, Any]
    names: tuple[str, ...]  # of the plugin's parameters
    raises: str | None = None
    limit: float | None = None
    time: bool = False
    bits: bool = False
    messages: bool = False
    search: SearchTable | None = None  # the table of a neighbourhood

    @property
    def kind(self) -> str:
        """One of mechanism, attack, estimator, pair and neighbourhood."""
        return self.entry.kind

    def __str__(self) -> str:
        return f"{self.kind} {self.label!r}"


@dataclasses.dataclass(frozen=True)
class Members:
    """All entries whose plugin is known."""

    of_kind: dict[str, list[Member]]
    broken: frozenset[str]
    """Kinds of which an entry is missing here, because something is wrong with it."""


def find_members(sections: Sections, registry: Registry, problems: Problems) -> Members:
    """Resolve every `use`, and check that labels are unique."""
    tables: dict[str, dict[Path, Any]] = {
        kind: {(kind, at): table for at, table in sections.entries[kind].items()} for kind in KINDS
    }
    tables["pair"] = {("pair",): sections.pair} if sections.pair else {}
    tables["neighbourhood"] = dict(_searches(sections, problems))
    found: dict[str, list[Member]] = {}
    broken = set(sections.broken)
    for kind, of_kind in tables.items():
        members = [_member(path, of_kind[path], kind, registry, problems) for path in of_kind]
        found[kind] = [member for member in members if member]
        if len(found[kind]) < len(members):
            broken.add(kind)
        if kind != "neighbourhood":
            _check_labels(found[kind], of_kind, problems)
    return Members(found, frozenset(broken))


def _searches(sections: Sections, problems: Problems) -> Iterator[tuple[Path, SearchTable]]:
    """Give [search], if a mechanism goes by it, and the tables that mechanisms have instead."""
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
        params = {**shared.params, **own.params} if same else own.params
        said = {name: getattr(own, name) for name in ("ignore", "findings", "parameters")}
        said = {name: value for name, value in said.items() if value is not None}
        update = {"use": own.use or shared.use, "params": params, **said}
        yield ("mechanism", at, "search"), shared.model_copy(update=update)


def _member(
    path: Path, table: _Table, kind: str, registry: Registry, problems: Problems
) -> Member | None:
    try:
        entry = registry.get(kind, table.use)
    except PluginError as error:
        problems.add((*path, "use"), str(error))
        return None
    if entry is None:
        message = f"unknown {kind} {cut(table.use)!r}"
        problems.add((*path, "use"), message, lambda: registry.hints(kind, table.use))
        return None
    label = (table.label if isinstance(table, EntryTable) else None) or entry.name
    names = tuple(names_in_specs(entry.cls).values())
    if not isinstance(table, MechanismTable):
        search = table if isinstance(table, SearchTable) else None
        return Member(path, label, entry, table.params, names, search=search)
    if not issubclass(entry.cls, HostMechanism):
        for key in ("raises", "limit", "outputs"):
            if getattr(table, key) is not None:
                message = f"is of black boxes alone; {label!r} is traced by JAX"
                problems.add((*path, key), message)
    params = table.params
    if table.environment is not None:
        if "environment" not in names:
            message = f"mechanism {entry.name!r} runs in this process"
            hint = "only modules of their own do: program, or a class that extends ForeignMechanism"
            problems.add((*path, "environment"), message, hint)
            return None
        params = {"environment": table.environment, **params}
    outputs = table.outputs or OutputsTable()
    how = (table.raises, table.limit, outputs.time, outputs.bits, outputs.messages)
    return Member(path, label, entry, params, names, *how)


def _check_labels(members: list[Member], tables: dict[Path, _Table], problems: Problems) -> None:
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
