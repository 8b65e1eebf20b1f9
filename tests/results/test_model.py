"""The record as a type: its schema, its page, and what a run writes agree."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from support.command_line import dpframe

from dpframe.common.text import meanings
from dpframe.results.model import Record, RecordPart, record_schema


def model_in(annotation: Any, path: str = "") -> tuple[type[BaseModel], str] | None:
    """The model that a field holds, and how it is reached."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, path
    inner = path + "[]" if typing.get_origin(annotation) is list else path
    found = (model_in(argument, inner) for argument in typing.get_args(annotation))
    return next(filter(None, found), None)


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and meanings."""
    bases = model.__mro__[: model.__mro__.index(RecordPart)]
    told = {name: text for base in reversed(bases) for name, text in meanings(base).items()}
    for name, field in model.model_fields.items():
        here = f"{path}{field.alias or name}"
        yield here, " ".join(told.get(name, "").split())
        if found := model_in(field.annotation):
            yield from fields(found[0], f"{here}{found[1]}.")


def test_every_field_has_a_meaning() -> None:
    assert [name for name, meaning in fields(Record) if len(meaning) < 3] == []


def test_the_schema_knows_all_tables_and_refuses_others() -> None:
    schema = record_schema()
    json.dumps(schema, allow_nan=False)
    tables = [schema, *schema["$defs"].values()]
    assert len(tables) == len(descendants(RecordPart))
    for table in tables:
        assert table["additionalProperties"] is False, table["title"]
        for name, field in table["properties"].items():
            assert field.get("description"), f"{table['title']}.{name}"
    assert schema["properties"]["schema"]["const"] == 1
    epsilon = schema["$defs"]["EstimateRecord"]["properties"]["epsilon"]
    assert epsilon["anyOf"] == [
        {"type": "number"},
        {"type": "string", "enum": ["inf", "-inf", "nan"]},
    ]


def descendants(cls: type) -> set[type]:
    found = set(cls.__subclasses__())
    return found | {deeper for each in found for deeper in descendants(each)}


def test_a_record_cannot_be_changed() -> None:
    record = Record.model_construct(seed=1)
    with pytest.raises(ValueError, match="frozen"):
        record.seed = 2  # type: ignore[misc]


def test_the_command_line_prints_the_schema(tmp_path: Path) -> None:
    assert json.loads(dpframe("schema", "--record", cwd=tmp_path).stdout) == record_schema()
