"""Split the cases of a test into those of the default run and those of the slow tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def mostly_slow(cases: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Mark all cases of a parametrization as slow, but for a few.

    Args:
        cases: values, or tuples of values.
        quick: those that run by default, by their positions or, if they are texts, themselves.
    """
    return [
        case
        if number in quick or (isinstance(case, str) and case in quick)
        else pytest.param(*_values(case), id=getattr(case, "id", None), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


def _values(case: Any) -> Iterable[Any]:
    if isinstance(case, type(pytest.param())):
        return case.values
    return case if type(case) is tuple else (case,)  # a named tuple is one value
