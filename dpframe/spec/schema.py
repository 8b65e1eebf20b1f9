"""JSON Schema of a spec that knows the installed plugins, for editors."""

import inspect
import json
from typing import Any

from dpframe.interfaces.plugin import json_schema
from dpframe.interfaces.registry import Entry, Registry
from dpframe.spec.model import ENTRIES, KINDS, PLACES, SEARCHED_BY, SWEEPABLE, SpecTable

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def spec_schema(registry: Registry) -> dict[str, Any]:
    """Return the schema as plain JSON values.

    A name shared by several distributions is offered as `distribution/name` as well.
    """
    plain = SpecTable.model_json_schema(by_alias=True)
    schema: dict[str, Any] = {"$schema": _DIALECT, **plain, "title": "dpframe audit"}
    definitions, properties = schema["$defs"], schema["properties"]
    entry = definitions.pop("EntryTable")
    entries = {kind: definitions.pop(of.__name__) for kind, of in ENTRIES.items()}
    tables = {"pair": definitions.pop("PairTable"), "search": definitions.pop("SearchTable")}
    for kind in KINDS:
        table = entries.get(kind, entry)
        definitions[kind] = _with_plugins(table, kind, registry, definitions)
        properties[kind] = {**properties[kind], "items": {"$ref": f"#/$defs/{kind}"}}
    for kind, at in PLACES.items():
        definitions[kind] = _with_plugins(tables[at], kind, registry, definitions)
        properties[at] = {"$ref": f"#/$defs/{kind}"}
    properties["sweep"] = _sweep(registry, properties["sweep"], definitions)
    # A search has default attacks and a default estimator.
    given = {*schema["required"]} - {"pair", *SEARCHED_BY}
    schema["required"] = [name for name in schema["required"] if name in given]
    searched: dict[str, Any] = {"required": ["search"], "properties": {"pair": False}}
    paired = {"required": ["pair", *SEARCHED_BY], "properties": {"search": False}}
    return {**schema, "if": {"required": ["search"]}, "then": searched, "else": paired}


def _with_plugins(
    table: dict[str, Any], kind: str, registry: Registry, definitions: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of an entry: `use` is one of the names and determines `params`."""
    names: dict[str, Entry] = {}
    for entry in registry.of_kind(kind):
        names.setdefault(entry.name, entry)  # the built-in comes first
        names[f"{entry.distribution}/{entry.name}"] = entry
    rules = []
    for name, entry in names.items():
        key = f"{kind}:{entry.distribution}:{entry.name}"
        definitions[key] = _params(entry, key, definitions)
        rules.append(
            {
                "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
                "then": {"properties": {"params": {"$ref": f"#/$defs/{_pointer(key)}"}}},
            }
        )
    use = {**table["properties"]["use"], "enum": list(names)}
    properties = {**table["properties"], "use": use}
    return {**table, "title": kind, "properties": properties, "allOf": rules}


def _params(entry: Entry, key: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a plugin's parameters; none is required, because a sweep may set it."""
    own = dict(json_schema(entry.cls))
    own.pop("required", None)
    for name, definition in own.pop("$defs", {}).items():
        definitions[f"{key}:{name}"] = _moved(definition, key)
    described = {"description": inspect.getdoc(entry.cls) or "", "title": entry.name}
    moved: dict[str, Any] = _moved(own, key)
    return {**moved, **described}


def _moved(schema: Any, key: str) -> Any:
    """Return a schema with its references renamed to the new names of its definitions."""
    if isinstance(schema, list):
        return [_moved(part, key) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _moved(part, key) for name, part in schema.items()}
    if isinstance(reference := schema.get("$ref"), str):
        moved["$ref"] = reference.replace("#/$defs/", f"#/$defs/{_pointer(key)}:", 1)
    return moved


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _sweep(
    registry: Registry, plain: dict[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of the sweep, with dotted keys in quotes or as nested tables.

    A value must suit one of the plugins with the parameter, because a schema cannot know which of
    them the spec uses.
    """
    values: dict[str, dict[str, Any]] = {}
    for kind in (*KINDS, "pair"):
        owners: dict[str, list[str]] = {}
        for entry in registry.of_kind(kind):
            key = f"{kind}:{entry.distribution}:{entry.name}"
            for name in definitions[key].get("properties", {}):
                owners.setdefault(name, []).append(key)
        values[kind] = {name: _list(name, owners[name], definitions) for name in sorted(owners)}
    values["audit"] = {name: _list(name, ["AuditTable"], definitions) for name in SWEEPABLE}
    quoted = {f"{group}.{name}": each for group, of in values.items() for name, each in of.items()}
    nested = {
        group: {"type": "object", "properties": of, "additionalProperties": False}
        for group, of in values.items()
    }
    return {**plain, "properties": {**quoted, **nested}, "additionalProperties": False}


def _list(name: str, owners: list[str], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of values for a parameter of these definitions."""
    apart: dict[str, str] = {}
    for key in owners:
        told = {**definitions[key]["properties"][name]}
        for remark in ("description", "title", "default"):
            told.pop(remark, None)
        apart.setdefault(json.dumps(told, sort_keys=True), key)
    found = [{"$ref": f"#/$defs/{_pointer(key)}/properties/{name}"} for key in apart.values()]
    items = found[0] if len(found) == 1 else {"anyOf": found}
    return {"type": "array", "minItems": 1, "uniqueItems": True, "items": items}
