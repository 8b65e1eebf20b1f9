"""Stage 2, first half: which plugin each entry of a spec means, and what it is called."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from dpframe.errors import PluginError
from dpframe.mechanism import HostMechanism
from dpframe.plugin import names_in_specs
from dpframe.spec.model import KINDS, EntryTable, MechanismTable, OutputsTable, SearchTable
from dpframe.suggest import cut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from dpframe.plugin import Plugin
    from dpframe.registry import Entry, Registry
    from dpframe.spec.locate import Path
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
