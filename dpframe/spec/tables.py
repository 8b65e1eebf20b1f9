"""Stage 1: checks the shape of a spec and hands on every table that is whole.

A table with a mistake does not keep the others from being checked further, so that the user
sees all mistakes at once.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import ValidationError

from dpframe.errors import PluginError
from dpframe.spec.document import flatten
from dpframe.spec.model import (
    ENTRIES,
    ENVIRONMENTS,
    KINDS,
    PLACES,
    AuditTable,
    EntryTable,
    EnvironmentTable,
    ExpectTable,
    MechanismTable,
    OutputsTable,
    OwnSearchTable,
    PairTable,
    RunTable,
    SearchTable,
    SpecTable,
    Table,
    Verdict,
)
from dpframe.spec.problems import accepts, show
from dpframe.spec.uses import parameter_names
from dpframe.spec.wording import Finding, findings, misspelt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.registry import Registry
    from dpframe.spec.document import Document
    from dpframe.spec.problems import Problems

T = TypeVar("T", bound=Table)

_MODELS: dict[str | int, type[Table]] = {
    "audit": AuditTable,
    "pair": PairTable,
    "search": SearchTable,
    "expect": ExpectTable,
    "environments": EnvironmentTable,
    "run": RunTable,
    **dict.fromkeys(KINDS, EntryTable),
    "mechanism": MechanismTable,
}
_WITHIN: dict[str | int, type[Table]] = {"outputs": OutputsTable, "search": OwnSearchTable}
_LISTS = (*KINDS, "expect")

_KIND_AT = {**{kind: kind for kind in KINDS}, **{at: kind for kind, at in PLACES.items()}}


@dataclasses.dataclass(frozen=True)
class Sections:
    """The tables that are whole; None or absent is one with a mistake."""

    audit: AuditTable | None
    run: RunTable | None
    pair: PairTable | None
    entries: dict[str, dict[int, EntryTable]]
    """Kind to position to entry."""
    broken: frozenset[str]
    """Kinds, "pair" and "neighbourhood" included, of which an entry is missing here."""
    expect: dict[int, ExpectTable]
    search: SearchTable | None = None
    """In place of the pair."""
    environments: dict[str, EnvironmentTable] = dataclasses.field(default_factory=dict)


def read_sections(document: Document, registry: Registry, problems: Problems) -> Sections:
    """Checks the whole document against the model."""
    data = document.data
    searches = "search" in data
    if searches and "pair" in data:
        problems.add(("search",), "stands in place of [pair]; the spec has both")
    try:
        SpecTable.model_validate({"pair": {"use": ""}, **data} if searches else data)
    except ValidationError as error:
        for finding in findings(error, data, "key"):
            _report(finding, document, registry, problems)
    _require_trials(document, problems)
    of_pair = PLACES["neighbourhood" if searches else "pair"]
    only = _whole(_MODELS[of_pair], _mended(of_pair, data.get(of_pair), registry))
    entries = {
        kind: _each(ENTRIES.get(kind, EntryTable), _all_mended(kind, data, registry))
        for kind in KINDS
    }
    broken = {kind for kind in KINDS if len(entries[kind]) != _length(data.get(kind))}
    return Sections(
        audit=_whole(AuditTable, data.get("audit")),
        run=_whole(RunTable, data.get("run", {})),
        pair=only if isinstance(only, PairTable) else None,
        entries=entries,
        broken=frozenset(broken if only else broken | {"neighbourhood" if searches else "pair"}),
        expect=_each(ExpectTable, _with_any_verdict(data.get("expect"))),
        search=only if isinstance(only, SearchTable) else None,
        environments=read_environments(data),
    )


def read_environments(data: Any) -> dict[str, EnvironmentTable]:
    """The environments that are whole."""
    tables = data.get("environments")
    try:
        found = ENVIRONMENTS.validate_python(tables if isinstance(tables, dict) else {})
    except ValidationError:
        return {}
    return found


def _report(finding: Finding, document: Document, registry: Registry, problems: Problems) -> None:
    path, hints = finding.path, [finding.hint]
    message = finding.message
    if finding.unknown:
        model = SpecTable if len(path) == 1 else _WITHIN.get(path[-2], _MODELS[path[0]])
        hints.append(accepts(_keys(model), path[-1]))
        *table, key = path
        if key in (found := _misplaced(path[0], _at(document.data, table), registry)):
            use = f"{path[0]} {_at(document.data, table)['use']!r}"
            hints.append(f"a parameter of {use}: write params.{key} = {show(found[str(key)])}")
    elif finding.missing and not path:
        message = f"{_header(finding.missing)} is missing"
    elif len(path) == 1 and path[0] in _LISTS and isinstance(document.data[path[0]], dict):
        message, hints = "is one table and should be a list", [f"write [[{path[0]}]]"]
    problems.add(path, message, *hints)


def _at(data: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        data = data[step]
    return data


_TAKEN = tuple(MechanismTable.model_fields)
"""Keys of a plugin's table that mean what they mean there, whatever the plugin's parameters."""


def _keys(model: type[Table]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _misplaced(kind: Any, table: Any, registry: Registry) -> dict[str, Any]:
    """What stands beside `params` in the table of a plugin and is a parameter of it."""
    try:
        entry = registry.get(_KIND_AT[kind], table["use"]) if kind in _KIND_AT else None
    except (PluginError, LookupError, TypeError):
        return {}
    names = parameter_names(entry.cls) if entry else ()
    return {name: table[name] for name in names if name in table and name not in _TAKEN}


def _mended(kind: str, table: Any, registry: Registry) -> Any:
    """A table with its misplaced parameters in their place, so that none is said to be missing."""
    misplaced = _misplaced(kind, table, registry)
    if not misplaced or not isinstance(params := table.get("params", {}), dict):
        return table
    return {**table, "params": misplaced | params}


def _all_mended(kind: str, data: dict[str, Any], registry: Registry) -> Any:
    tables = data.get(kind)
    return [_mended(kind, t, registry) for t in tables] if isinstance(tables, list) else tables


def _header(key: str) -> str:
    if key == "schema":
        return "schema = 1"
    return f"[[{key}]]" if key in _LISTS else f"[{key}]"


def _require_trials(document: Document, problems: Problems) -> None:
    audit, sweep = document.data.get("audit"), document.data.get("sweep")
    swept = {key for key, _, _ in flatten(sweep, ("sweep",))} if isinstance(sweep, dict) else set()
    if not isinstance(audit, dict) or "trials" in audit or "audit.trials" in swept:
        return
    unknown = [key for key in audit if key not in AuditTable.model_fields]
    if not misspelt("trials", unknown):
        problems.add(("audit",), "key 'trials' is missing", "give it here or with --trials")


def _whole(model: type[T], value: Any) -> T | None:
    """The table, without keys that should not be there; None if anything else is wrong."""
    if isinstance(value, dict):
        value = {key: value[key] for key in _keys(model) if key in value}
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _each(model: type[T], value: Any) -> dict[int, T]:
    tables = enumerate(value if isinstance(value, list) else [])
    read = {position: _whole(model, table) for position, table in tables}
    return {position: table for position, table in read.items() if table is not None}


def _with_any_verdict(rules: Any) -> Any:
    """The rules with a verdict in place of a wrong one, so that their `where` is checked too."""
    if not isinstance(rules, list):
        return rules
    return [
        rule
        if not isinstance(rule, dict) or rule.get("verdict") in get_args(Verdict)
        else {**rule, "verdict": get_args(Verdict)[0]}
        for rule in rules
    ]


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None
