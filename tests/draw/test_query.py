"""Answers of queries as a message and back, exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dpframe.draw.worker.query import Refused, ask, describe_error, numbers, parse_reply

A_NUMBER = "a number"


@pytest.mark.parametrize(
    ("answer", "form", "expected"),
    [
        (1.5, A_NUMBER, [1.5]),
        (2**70 + 1, A_NUMBER, [2**70 + 1]),
        (True, A_NUMBER, [1]),
        (np.float32(0.1), A_NUMBER, [float(np.float32(0.1))]),
        (jnp.float32(0.1), A_NUMBER, [float(np.float32(0.1))]),
        (np.array(0.1), A_NUMBER, [0.1]),
        (Decimal("0.1"), A_NUMBER, [Fraction(1, 10)]),
        (Fraction(1, 3), A_NUMBER, [Fraction(1, 3)]),
        (math.inf, A_NUMBER, [math.inf]),
        (-math.inf, A_NUMBER, [-math.inf]),
        (5e-324, A_NUMBER, [5e-324]),
        (None, "None", []),
        ([1, 2.0], "shape (2,)", [1, 2.0]),
        (np.array([1.0, 2.0]), "shape (2,)", [1.0, 2.0]),
        (np.ones((2, 1), np.int64), "shape (2, 1)", [1, 1]),
        ({"b": 1, "a": (2, [3.0])}, "{a: [a number, shape (1,)], b: a number}", [2, 3.0, 1]),
    ],
)
def test_there_and_back(answer: Any, form: str, expected: list[Any]) -> None:
    assert parse_reply(ask(lambda: answer)) == (None, form, tuple(expected), None)


def test_nan_and_long_doubles_come_back_too() -> None:
    (one,) = parse_reply(ask(lambda: math.nan)).numbers
    assert math.isnan(one)
    form, (pair,) = numbers(np.longdouble(1) / 3)
    assert form == A_NUMBER
    assert Fraction(*pair) == Fraction(*(np.longdouble(1) / 3).as_integer_ratio())


@pytest.mark.parametrize("answer", ["1", b"1", 1j, object(), np.array(["1"]), [1, "1"]])
def test_what_is_no_number_is_refused(answer: Any) -> None:
    with pytest.raises(Refused, match="number"):
        ask(lambda: answer)


def test_an_exception_is_an_answer() -> None:
    def query() -> Any:
        raise ValueError("only 12 of 3.5e3 records\nand more")

    header, _ = ask(query)
    assert "numbers" not in header
    assert header["raised"] == "ValueError: only # of # records"
    assert describe_error(KeyError()) == "KeyError"
