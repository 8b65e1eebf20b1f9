"""Read the tables of a spec, check their shape, and return every valid table."""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import tomli
from pydantic import ValidationError

from dpframe.common.files import NotReadableError, read_regular
from dpframe.common.text import closest, listed
from dpframe.errors import PluginError, SpecError
from dpframe.interfaces.plugin import names_in_specs
from dpframe.interfaces.registry import Registry
from dpframe.spec import model
from dpframe.spec.document import (
    Document,
    Mistake,
    SpecValueError,
    accepts,
    findings,
    place,
    plain,
    quote,
    show,
)
from dpframe.spec.model import LISTED, AuditTable, EntryTable, ExpectTable, SpecTable

MOST_BYTES = 4 << 20  # largest spec; ten thousand mechanisms need a tenth of it


def read(path: str | os.PathLike[str]) -> Document:
    """Read and parse a spec.

    Raises:
        SpecError: the file is missing, unreadable, too large, not UTF-8 or not TOML.
    """
    # A file name may contain bytes that are not text, but messages and records are text.
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
        message = error.msg[:1].lower() + error.msg[1:]
        no_toml = _no_toml(name, text, error.lineno, f"{message}, column {error.colno}")
        raise SpecError([_of_a_run(name, text) or no_toml]) from None
    except RecursionError:
        raise SpecError([f"{name}: is nested too deeply"]) from None
    except ValueError:  # Python refuses numbers of so many digits
        most = sys.get_int_max_str_digits()
        digits = re.search(rf"(?:\d_?){{{most + 1}}}", text)
        line = text[: digits.start() if digits else 0].count("\n") + 1
        message = f"an integer has more than {most} digits"
        raise SpecError([_no_toml(name, text, line, message)]) from None
    return _checked(Document(name, text, hashlib.sha256(raw).hexdigest(), data))


def from_mapping(data: Mapping[str, Any]) -> Document:
    """Make a document from Python values, for example of a notebook; its text is their JSON.

    Raises:
        SpecError: a spec cannot contain a value.
    """
    document = _checked(Document("", "", "", dict(data)))
    document.text = json.dumps(document.data, indent=2, ensure_ascii=False, default=str)
    document.sha256 = hashlib.sha256(document.text.encode()).hexdigest()
    return document


def _checked(document: Document) -> Document:
    try:
        document.data = plain(document.data)
    except SpecValueError as error:
        document.note(error.path, error.message)
        document.raise_noted()
    return document


def _bytes(path: Path, name: str) -> bytes:
    try:
        return read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        message = f"{name}: no such file"
        with contextlib.suppress(OSError):
            names = [file.name for file in path.parent.iterdir() if file.suffix == ".toml"]
            if close := closest(names, path.name):
                message += f"; did you mean {str(path.with_name(close))!r}?"
    except IsADirectoryError:
        message = f"{name}: is a directory; a spec is a TOML file"
        if (path / "record.json").exists():
            message = f"{name}: is the directory of a run; a spec is a TOML file"
            message += f"\n   to print what it found: dpframe show {name}"
        elif specs := sorted(file.name for file in path.glob("*.toml")):
            message += f"\n   in it: {listed(specs)}"
    except NotReadableError as error:
        message = _record(name) if path.name == "record.json" else f"{name}: {error}"
    raise SpecError([message]) from None


def _of_a_run(name: str, text: str) -> str | None:
    """Return a message if a file is a record or other JSON output of dpframe."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or "schema" not in content:
        return f"{name}: is JSON; a spec is a TOML file"
    if "cells" not in content:
        return f"{name}: is output of dpframe; a spec is a TOML file"
    spec = content.get("spec")
    path = spec.get("path") if isinstance(spec, dict) else None
    return _record(name, f"; it was made from {path}" if isinstance(path, str) and path else "")


def _record(name: str, more: str = "") -> str:
    return (
        f"{name}: is the record of a run; a spec is a TOML file{more}\n"
        f"   to print it: dpframe show {name}"
    )


def _no_toml(name: str, text: str, line: int, message: str) -> str:
    lines = text.split("\n")
    line = min(line, len(lines))
    return f"{place(name, line)}: is not TOML: {message}\n{quote(line, lines[line - 1])}"


T = TypeVar("T", bound=model.TomlTable)

_MODELS: dict[Any, type[model.TomlTable]] = {
    "audit": AuditTable,
    "pair": model.PairTable,
    "search": model.SearchTable,
    "expect": ExpectTable,
    "environments": model.EnvironmentTable,
    "run": model.RunTable,
    **model.ENTRIES,
}
_WITHIN: dict[Any, type[model.TomlTable]] = {
    "outputs": model.OutputsTable,
    "search": model.OwnSearchTable,
}
_LISTS = (*LISTED, "expect")
_KIND_AT = {
    **{kind: kind for kind in LISTED},
    **{at: kind for kind, at in model.PLACES.items()},
}


@dataclasses.dataclass(frozen=True)
class Sections:
    """The valid tables; a table with a mistake is None or absent.

    The valid tables are checked further despite mistakes in others, so that the user sees all
    mistakes at once.
    """

    audit: AuditTable | None
    run: model.RunTable | None
    pair: model.PairTable | None
    entries: dict[str, dict[int, EntryTable]]  # kind to position to entry
    broken: frozenset[str]
    """Kinds, including "pair" and "neighbourhood", with an entry that is missing here."""
    expect: dict[int, ExpectTable]
    search: model.SearchTable | None  # in place of the pair
    environments: dict[str, model.EnvironmentTable]


def read_sections(document: Document, registry: Registry) -> Sections:
    """Check the whole document against the model."""
    data = document.data
    searches = "search" in data
    if searches and "pair" in data:
        document.note(("search",), "replaces [pair]; the spec has both")
    try:
        SpecTable.model_validate({"pair": {"use": ""}, **data} if searches else data)
    except ValidationError as error:
        for finding in findings(error, data, "key"):
            _report(finding, document, registry)
    _require_trials(document)
    kind = "neighbourhood" if searches else "pair"
    at = model.PLACES[kind]
    only = _whole(_MODELS[at], _mended(at, data.get(at), registry))
    broken = set() if only else {kind}
    entries: dict[str, dict[int, EntryTable]] = {}
    for kind in LISTED:
        tables = data.get(kind)
        mended = [_mended(kind, t, registry) for t in tables] if isinstance(tables, list) else []
        entries[kind] = _each(model.ENTRIES[kind], mended)
        if not isinstance(tables, list) or len(entries[kind]) != len(tables):
            broken.add(kind)
    return Sections(
        audit=_whole(AuditTable, data.get("audit")),
        run=_whole(model.RunTable, data.get("run", {})),
        pair=only if isinstance(only, model.PairTable) else None,
        entries=entries,
        broken=frozenset(broken),
        expect=_each(ExpectTable, _with_any_verdict(data.get("expect"))),
        search=only if isinstance(only, model.SearchTable) else None,
        environments=read_environments(data),
    )


def read_environments(data: Mapping[str, Any]) -> dict[str, model.EnvironmentTable]:
    """Return the environments; none if one of them is not valid."""
    tables = data.get("environments")
    try:
        return model.ENVIRONMENTS.validate_python(tables if isinstance(tables, dict) else {})
    except ValidationError:
        return {}


def _report(finding: Mistake, document: Document, registry: Registry) -> None:
    path, hints = finding.path, [finding.hint]
    message = finding.message
    if finding.unknown:
        of = SpecTable if len(path) == 1 else _WITHIN.get(path[-2], _MODELS[path[0]])
        *around, key = path
        hints.append(accepts(_keys(of), key))
        table: Any = document.data
        for step in around:
            table = table[step]
        if key in (misplaced := _misplaced(path[0], table, registry)):
            use = f"{path[0]} {table['use']!r}"
            hints.append(f"a parameter of {use}: write params.{key} = {show(misplaced[str(key)])}")
        if path == ("run", "verify"):
            hints = ["remove it: `dpframe verify RUN` checks a result by drawing a share again"]
    elif finding.missing and not path:
        name = finding.missing
        header = f"[[{name}]]" if name in _LISTS else f"[{name}]"
        message = f"{'schema = 1' if name == 'schema' else header} is missing"
    elif len(path) == 1 and path[0] in _LISTS and isinstance(document.data[path[0]], dict):
        message, hints = "is a single table; it should be a list", [f"write [[{path[0]}]]"]
    document.note(path, message, *hints)


def _keys(of: type[model.TomlTable]) -> list[str]:
    return [field.alias or name for name, field in of.model_fields.items()]


def _misplaced(kind: Any, table: Any, registry: Registry) -> dict[str, Any]:
    """Return the parameters of a plugin that were written beside `params` in its table."""
    use = table.get("use") if isinstance(table, dict) else None
    try:
        entry = registry.get(_KIND_AT[kind], use) if isinstance(use, str) else None
    except (PluginError, KeyError):  # an ambiguous name; a table of no kind
        return {}
    # Keys of the table itself are never taken for parameters of the plugin.
    taken = model.MechanismTable.model_fields
    names = names_in_specs(entry.cls).values() if entry else ()
    return {name: table[name] for name in names if name in table and name not in taken}


def _mended(kind: str, table: Any, registry: Registry) -> Any:
    """Move misplaced parameters into `params`, so that they are not reported as missing."""
    misplaced = _misplaced(kind, table, registry)
    if not misplaced or not isinstance(params := table.get("params", {}), dict):
        return table
    return {**table, "params": misplaced | params}


def _require_trials(document: Document) -> None:
    audit = document.data.get("audit")
    swept = any(key == "audit.trials" for key, _, _ in document.swept)
    if not isinstance(audit, dict) or "trials" in audit or swept:
        return
    unknown = [key for key in audit if key not in AuditTable.model_fields]
    if closest(unknown, "trials") is None:
        document.note(("audit",), "key 'trials' is missing", "give it here or with --trials")


def _whole(of: type[T], value: Any) -> T | None:
    """Return the table without unknown keys; None if it has any other mistake."""
    if isinstance(value, dict):
        value = {key: value[key] for key in _keys(of) if key in value}
    try:
        return of.model_validate(value)
    except ValidationError:
        return None


def _each(of: type[T], tables: list[Any]) -> dict[int, T]:
    read = {position: _whole(of, table) for position, table in enumerate(tables)}
    return {position: table for position, table in read.items() if table is not None}


def _with_any_verdict(rules: Any) -> list[Any]:
    """Replace wrong verdicts of rules by a valid one, so that `where` is checked too."""
    known = get_args(model.Verdict)
    return [
        {**rule, "verdict": known[0]}
        if isinstance(rule, dict) and rule.get("verdict") not in known
        else rule
        for rule in (rules if isinstance(rules, list) else ())
    ]
