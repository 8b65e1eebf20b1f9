"""Resolve the entries of a spec: the plugin of each entry, its label, and its variants."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dpframe.common.machine import at_work
from dpframe.common.text import cut, error_message
from dpframe.errors import ParameterError, PluginError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin import Plugin, names_in_specs, not_annotated
from dpframe.interfaces.plugin_files import beside
from dpframe.interfaces.registry import Entry, Registry
from dpframe.spec.document import Document, Path, accepts, describe, findings
from dpframe.spec.model import LISTED, EntryTable, MechanismTable, PairTable, SearchTable
from dpframe.spec.tables import Sections

if TYPE_CHECKING:
    from dpframe.spec.sweep import SweptKey

_Table = EntryTable | PairTable | SearchTable


@dataclasses.dataclass(frozen=True, eq=False)  # eq=False: compared by identity, so hashable
class Member:
    """An entry of the spec with the plugin it means."""

    path: Path  # of its table: ("pair",) or for example ("mechanism", 1)
    label: str
    entry: Entry
    params: dict[str, Any]
    names: tuple[str, ...]  # of the plugin's parameters
    asked: dict[str, Any] = dataclasses.field(default_factory=dict)
    """For a black box: the fields of `dpframe.spec.audit.Choice` about its answers."""
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
    """Kinds with an entry that is missing here because of a mistake."""


def find_members(sections: Sections, registry: Registry, document: Document) -> Members:
    """Resolve every `use`, and check that labels are unique."""
    tables: dict[str, dict[Path, Any]] = {
        kind: {(kind, at): table for at, table in sections.entries[kind].items()} for kind in LISTED
    }
    tables["pair"] = {("pair",): sections.pair} if sections.pair else {}
    tables["neighbourhood"] = dict(_searches(sections, document))
    resolved: dict[str, list[Member]] = {}
    broken = set(sections.broken)
    for kind, of_kind in tables.items():
        members = [_member(path, of_kind[path], kind, registry, document) for path in of_kind]
        resolved[kind] = [member for member in members if member]
        if len(resolved[kind]) < len(members):
            broken.add(kind)
        if kind != "neighbourhood":
            _check_labels(resolved[kind], of_kind, document)
    return Members(resolved, frozenset(broken))


def _searches(sections: Sections, document: Document) -> Iterator[tuple[Path, SearchTable]]:
    """Yield [search], if a mechanism uses it, and the search tables of single mechanisms."""
    shared, mechanisms = sections.search, sections.entries["mechanism"]
    of_its_own = {
        at: table.search
        for at, table in mechanisms.items()
        if isinstance(table, MechanismTable) and table.search is not None
    }
    if shared is None:
        for at in of_its_own if sections.pair is not None else ():
            document.note(
                ("mechanism", at, "search"), "overrides keys of [search], which is missing"
            )
        return
    if len(of_its_own) < len(mechanisms) or not mechanisms:
        yield ("search",), shared
    for at, own in of_its_own.items():
        same = own.use in (None, shared.use)
        params = {**shared.params, **own.params} if same else own.params
        overriding = {name: getattr(own, name) for name in ("ignore", "findings", "parameters")}
        overriding = {name: value for name, value in overriding.items() if value is not None}
        update = {"use": own.use or shared.use, "params": params, **overriding}
        yield ("mechanism", at, "search"), shared.model_copy(update=update)


def _member(
    path: Path, table: _Table, kind: str, registry: Registry, document: Document
) -> Member | None:
    try:
        entry = registry.get(kind, table.use)
    except PluginError as error:
        document.note((*path, "use"), str(error))
        return None
    if entry is None:
        message = f"unknown {kind} {cut(table.use)!r}"
        document.note((*path, "use"), message, lambda: registry.hints(kind, table.use))
        return None
    label = (table.label if isinstance(table, EntryTable) else None) or entry.name
    names = tuple(names_in_specs(entry.cls).values())
    if not isinstance(table, MechanismTable):
        search = table if isinstance(table, SearchTable) else None
        return Member(path, label, entry, table.params, names, search=search)
    if not issubclass(entry.cls, HostMechanism):
        for key in ("raises", "limit", "outputs", "constant"):
            if getattr(table, key) is not None:
                message = f"applies only to black boxes; {label!r} is traced by JAX"
                document.note((*path, key), message)
    params = table.params
    if table.environment is not None:
        if "environment" not in names:
            message = f"mechanism {entry.name!r} runs in this process"
            hint = "environments are for program, and for classes that extend ForeignMechanism"
            document.note((*path, "environment"), message, hint)
            return None
        params = {"environment": table.environment, **params}
    asked: dict[str, Any] = {
        "raises": table.raises,
        "limit": table.limit,
        "constant": table.constant is True,
    }
    if (outputs := table.outputs) is not None:
        asked |= {**outputs.model_dump(), "only": tuple(outputs.only)}
    return Member(path, label, entry, params, names, asked)


def _check_labels(members: list[Member], tables: dict[Path, _Table], document: Document) -> None:
    by_label: dict[str, Member] = {}
    for member in members:
        first = by_label.setdefault(member.label, member)
        if first is member:
            continue
        where = f"{first.path[0]}[{first.path[1]}]"
        table = tables[member.path]
        if isinstance(table, EntryTable) and table.label is not None:
            message = f"label {member.label!r} is already used by {where}"
            document.note((*member.path, "label"), message)
        else:
            message = f"is called {member.label!r}, and so is {where}; give it its own label"
            document.note((*member.path, "use"), message, 'for example: label = "…"')


Picks = tuple[int, ...]  # for each axis in question, the position of the value taken

Variants = dict[Picks, Plugin]
"""A member's plugin for each combination of values of its own axes."""


def make_variants(
    members: Members, axes: list[SweptKey], document: Document
) -> dict[Member, Variants]:
    """Make the plugins of all members, and report mistakes in their parameters."""
    return {
        member: _variants(member, [axis for axis in axes if axis.is_of(member)], document)
        for of_kind in members.of_kind.values()
        for member in of_kind
    }


def _variants(member: Member, axes: list[SweptKey], document: Document) -> Variants:
    if any(axis.name in member.params for axis in axes):
        # The sweep overrides these values, but they must be valid.
        _make(member, member.params, {}, {axis.name for axis in axes}, document)
    variants = {}
    for picks in product(*(range(len(axis.values)) for axis in axes)):
        chosen = {axis.name: axis.values[pick] for axis, pick in zip(axes, picks, strict=True)}
        places = {axis.name: (*axis.path, pick) for axis, pick in zip(axes, picks, strict=True)}
        plugin = _make(member, {**member.params, **chosen}, places, set(), document)
        if plugin is not None:
            variants[picks] = plugin
    return variants


def _make(
    member: Member,
    params: dict[str, Any],
    swept: dict[str, Path],
    later: set[str],
    document: Document,
) -> Plugin | None:
    """Make one variant; `swept` maps swept names to places, and `later` has names given later."""
    try:
        with (
            at_work(f"parameters of {member}: check", member.path),
            beside(document.folder, document.allow_command),
        ):
            plugin: Plugin = member.entry.cls.from_params(params)
            _check_value(plugin)
            return plugin
    except ValidationError as error:
        own = (*member.path, "params")
        owner = f" of {member.kind} {member.entry.name!r}"
        for finding in findings(error, params, "parameter", owner):
            if finding.missing:
                if finding.missing not in later:
                    document.note(own, finding.message)
                continue
            start, *rest = finding.path or ("",)
            place = (*swept[start], *rest) if start in swept else (*own, *finding.path)
            inner = len(finding.path) > 1  # inside a parameter that is itself a table
            hint = finding.hint
            if finding.unknown and not inner:
                hint = not_annotated(member.entry.cls, str(start)) or accepts(member.names, start)
            document.note(place, finding.message, hint)
    except ParameterError as error:
        if error.parameter not in later:
            place = swept.get(error.parameter, (*member.path, "params", error.parameter))
            document.note(place, explain(error))
    except (Exception, SystemExit) as error:  # `check` is a plugin's own code
        if not later:
            hint = f"with {describe(params)}" if swept else ""
            document.note(member.path, f"parameters of {member}: {explain(error)}", hint)
    return None


def _check_value(plugin: Plugin) -> None:
    """Raise TypeError unless a plugin is hashable and its parameters are JSON values."""
    try:
        hash(plugin)
    except Exception as error:
        raise TypeError(
            f"cannot be hashed (tuples instead of lists): {error_message(error)}"
        ) from error
    try:
        json.dumps(plugin.params())
    except Exception as error:
        raise TypeError(f"cannot be written down: {error_message(error)}") from error


def explain(error: BaseException) -> str:
    """Return the message of a ValueError, and a full description of any other exception."""
    try:
        text = " ".join(str(error).split()) if isinstance(error, ValueError) else ""
    except Exception:
        text = ""
    return text or error_message(error)
