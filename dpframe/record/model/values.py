"""The kinds of values that a record is made of."""

from __future__ import annotations

import math
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, PlainSerializer
from pydantic_core import CoreSchema, core_schema

WORDS = ("inf", "-inf", "nan")
"""What strict JSON writes for the numbers that it does not have."""


class Part(BaseModel):
    """A JSON object with fixed keys. Nothing is converted: a "1" is no number, and true is none."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    def __getitem__(self, key: str) -> Any:
        """A field by its key in JSON, so that the same code reads this and a file's content."""
        for name, field in type(self).model_fields.items():
            if key == (field.alias or name):
                return getattr(self, name)
        raise KeyError(key)


def in_words(number: float) -> float | str:
    """A number as strict JSON has it: "inf", "-inf" and "nan" are strings."""
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def strict(value: Any) -> Any:
    """Any JSON value with its numbers in words where they are not finite."""
    if isinstance(value, float):
        return in_words(value)
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value


class _InWords:
    """A float that may be infinite or NaN, and is then a word in JSON.

    The words are looked at only after a number was not found, so that reading stays native code.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: type[Any], _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        words = core_schema.literal_schema(list(WORDS))
        return core_schema.union_schema(
            [
                core_schema.float_schema(strict=True, allow_inf_nan=True),
                core_schema.no_info_after_validator_function(float, words),
            ],
            mode="left_to_right",
            custom_error_type="number",
            custom_error_message="a number is wanted",
            serialization=core_schema.plain_serializer_function_ser_schema(
                in_words, when_used="json"
            ),
        )


Number = Annotated[float, _InWords]
"""A number that need not be finite."""

Count = Annotated[int, Ge(0), Le(2**63 - 1)]
Position = Annotated[int, Ge(1), Le(2**31 - 1)]
Amount = Annotated[float, Ge(0)]
PValue = Annotated[float, Gt(0), Le(1)]
Probability = Annotated[float, Ge(0), Le(1)]
Point = Annotated[list[Number], Field(min_length=2, max_length=2)]
Counts = Annotated[list[Count], Field(min_length=2, max_length=2)]
"""One count for D, one for D′."""

Free = Annotated[Any, PlainSerializer(strict, when_used="json")]
"""Whatever a plugin has: any JSON value."""

FreeTable = Annotated[dict[str, Any], PlainSerializer(strict, when_used="json")]
"""A table whose keys a plugin or a spec decides."""
