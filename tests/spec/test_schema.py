"""The JSON Schema of a spec."""

import json
from typing import NamedTuple

import pytest
from support import ROOT

from dpframe import Pair
from dpframe.interfaces import registry
from dpframe.interfaces.registry import Entry, Registry
from dpframe.spec.model import SpecTable, spec_schema


class Point(NamedTuple):
    x: int
    y: int


class Nested(Pair, name="nested"):
    adjacency = "replace"
    d0 = d1 = 0
    at: Point = Point(0, 0)


@pytest.fixture
def schema(registry):
    nested = Entry("pair", "nested", "other", "2.0", Nested)
    return spec_schema(Registry((*registry.entries, nested)))


def references(part):
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_every_reference_has_a_definition(schema):
    found = set(references(schema))
    assert any("Point" in reference for reference in found)
    for reference in found:
        target = schema
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step.replace("~1", "/").replace("~0", "~"))
            assert target is not None, reference


def test_plugins_are_named_and_their_parameters_described(schema):
    mechanism = schema["$defs"]["mechanism"]
    names = mechanism["properties"]["use"]["enum"]
    assert names == ["plain", "test/plain", "rich", "test/rich", "fussy", "test/fussy"]
    rules = {rule["if"]["properties"]["use"]["const"]: rule["then"] for rule in mechanism["allOf"]}
    assert rules["rich"] == {"properties": {"params": {"$ref": "#/$defs/mechanism:test:rich"}}}
    rich = schema["$defs"]["mechanism:test:rich"]
    assert rich["description"] == "Has a parameter of every sort."
    assert rich["properties"]["epsilon"]["exclusiveMinimum"] == 0
    assert rich["properties"]["epsilon"]["description"] == "The claim."
    assert rich["properties"]["mode"]["enum"] == ["zero", "keep"]
    assert rich["additionalProperties"] is False
    assert "required" not in rich, "the sweep may give it"


def test_sweep_knows_its_keys(schema):
    sweep = schema["properties"]["sweep"]
    assert {"mechanism.epsilon", "pair.dim", "audit.seed", "mechanism"} <= set(sweep["properties"])
    assert sweep["additionalProperties"] is False


def told(schema, part):
    """Without its remarks, what a schema or each of its alternatives says, references followed."""
    for one in part.get("anyOf", [part]):
        found = one
        if "$ref" in one:
            found = schema
            for step in one["$ref"].removeprefix("#/").split("/"):
                found = found[step]
        remarks = ("description", "title", "default")
        yield {key: value for key, value in found.items() if key not in remarks}


def test_a_swept_value_suits_a_plugin_that_has_the_parameter(schema):
    sweep = schema["properties"]["sweep"]["properties"]
    assert list(told(schema, sweep["mechanism.epsilon"]["items"])) == [
        {"type": "number", "exclusiveMinimum": 0}
    ]
    assert sweep["mechanism.epsilon"] == sweep["mechanism"]["properties"]["epsilon"]
    (trials,) = told(schema, sweep["audit.trials"]["items"])
    assert {"type": "integer", "minimum": 1}.items() <= trials["anyOf"][0].items()
    (mode,) = told(schema, sweep["mechanism.mode"]["items"])
    assert mode["enum"] == ["zero", "keep"]


def test_every_field_has_a_meaning(schema):
    for name, definition in [("", schema), *schema["$defs"].items()]:
        if ":" not in name:
            for field, described in definition["properties"].items():
                target = schema["$defs"].get(described.get("$ref", "").rpartition("/")[2], {})
                assert described.get("description") or target.get("description"), (name, field)
    assert set(schema["properties"]) == {f.alias or n for n, f in SpecTable.model_fields.items()}


def test_it_is_json(schema):
    assert json.loads(json.dumps(schema)) == schema


FILE = ROOT / "dpframe" / "spec" / "schema.json"


def test_the_file_is_that_of_the_built_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is not: `DPFRAME_NO_PLUGINS=1 dpframe schema > dpframe/spec/schema.json`."""
    monkeypatch.setenv("DPFRAME_NO_PLUGINS", "1")
    assert json.loads(FILE.read_text(encoding="utf-8")) == spec_schema(registry.load())
