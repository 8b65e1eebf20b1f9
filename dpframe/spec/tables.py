"""Read the tables of a spec, check their shape, and hand on every table that is whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import tomli
from pydantic import ValidationError

from dpframe.common.files import NotReadableError, read_regular
from dpframe.common.text import closest, listed
from dpframe.errors import PluginError, SpecError
from dpframe.spec.document import Document, UnfitError, flatten, plain
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
from dpframe.spec.problems import Finding, Problems, accepts, findings, misspelt, place, quote, show
from dpframe.spec.uses import parameter_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpframe.interfaces.registry import Registry


# Reads the tables of a spec, from a file or as Python values.


MOST_BYTES = 4 << 20
"""Of a file; a spec of ten thousand mechanisms has a tenth."""


def read(path: str | os.PathLike[str]) -> Document:
    """Reads and parses a spec.

    Raises:
        SpecError: the file is missing, unreadable, too large, not UTF-8 or not TOML.
    """
    # A file name may hold bytes that are no text, and messages and records are text.
    name = os.fspath(path).encode("utf-8", "backslashreplace").decode()
    raw = _bytes(Path(path), name)
    try:
        written = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SpecError([f"{place(name, line)}: is not UTF-8 text"]) from None
    text = written.replace("\r\n", "\n")
    try:
        data = tomli.loads(written)
    except tomli.TOMLDecodeError as error:
        raise SpecError([_of_a_run(name, text) or _syntax_error(name, text, error)]) from None
    except RecursionError:
        raise SpecError([f"{name}: is nested too deeply"]) from None
    except ValueError:  # what Python says of so long a number
        raise SpecError([_too_long(name, text)]) from None
    return _checked(Document(name, text, hashlib.sha256(raw).hexdigest(), data))


def from_mapping(data: Mapping[str, Any]) -> Document:
    """A document from Python values, as a notebook has them; its text is their JSON form.

    Raises:
        SpecError: a value cannot stand in a spec.
    """
    document = _checked(Document("", "", "", dict(data)))
    document.text = json.dumps(document.data, indent=2, ensure_ascii=False, default=str)
    document.sha256 = hashlib.sha256(document.text.encode()).hexdigest()
    return document


def _checked(document: Document) -> Document:
    try:
        document.data = plain(document.data)
    except UnfitError as error:
        problems = Problems(document)
        problems.add(error.path, error.message)
        problems.raise_if_any()
    return document


def _bytes(path: Path, name: str) -> bytes:
    try:
        return read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        message = f"{name}: no such file"
        if similar := _similar(path):
            message += f"; did you mean {similar!r}?"
    except IsADirectoryError:
        message = f"{name}: is a directory; a spec is a TOML file"
        if (path / "record.json").exists():
            message = f"{name}: is the directory of a run; a spec is a TOML file"
            message += f"\n   to print what it found: dpframe show {name}"
        elif specs := sorted(found.name for found in path.glob("*.toml")):
            message += f"\n   in it: {listed(specs)}"
    except NotReadableError as error:
        message = _record(name) if path.name == "record.json" else f"{name}: {error}"
    raise SpecError([message]) from None


def _similar(path: Path) -> str | None:
    try:
        names = [found.name for found in path.parent.iterdir() if found.suffix == ".toml"]
    except OSError:
        return None
    close = closest(names, path.name)
    return str(path.with_name(close)) if close else None


def _of_a_run(name: str, text: str) -> str | None:
    """What to say of a file that is no spec but the record of a run, or another answer."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or "schema" not in content:
        return f"{name}: is JSON; a spec is a TOML file"
    if "cells" not in content:
        return f"{name}: is what dpframe printed; a spec is a TOML file"
    spec = content.get("spec")
    path = spec.get("path") if isinstance(spec, dict) else None
    return _record(name, f"; it was made from {path}" if isinstance(path, str) and path else "")


def _record(name: str, more: str = "") -> str:
    return (
        f"{name}: is the record of a run: what a spec found; a spec is a TOML file{more}\n"
        f"   to print it: dpframe show {name}"
    )


def _syntax_error(name: str, text: str, error: tomli.TOMLDecodeError) -> str:
    message = error.msg[:1].lower() + error.msg[1:]
    return _at(name, text, error.lineno, f"{message}, column {error.colno}")


def _too_long(name: str, text: str) -> str:
    most = sys.get_int_max_str_digits()
    digits = re.search(rf"(?:\d_?){{{most + 1}}}", text)
    number = text[: digits.start() if digits else 0].count("\n") + 1
    return _at(name, text, number, f"an integer has more than {most} digits")


def _at(name: str, text: str, line: int, message: str) -> str:
    lines = text.split("\n")
    line = min(line, len(lines))
    return f"{place(name, line)}: is not TOML: {message}\n{quote(line, lines[line - 1])}"


# Stage 1: checks the shape of a spec and hands on every table that is whole.
#
# A table with a mistake does not keep the others from being checked further, so that the user
# sees all mistakes at once.


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
        if key in (found := _misplaced(path[0], _tables_at(document.data, table), registry)):
            use = f"{path[0]} {_tables_at(document.data, table)['use']!r}"
            hints.append(f"a parameter of {use}: write params.{key} = {show(found[str(key)])}")
    elif finding.missing and not path:
        message = f"{_header(finding.missing)} is missing"
    elif len(path) == 1 and path[0] in _LISTS and isinstance(document.data[path[0]], dict):
        message, hints = "is one table and should be a list", [f"write [[{path[0]}]]"]
    problems.add(path, message, *hints)


def _tables_at(data: Any, path: Sequence[str | int]) -> Any:
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
