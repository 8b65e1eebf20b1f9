"""Whole numbers by what is left when they are divided, and by their sign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe.builtin.attacks.views.view import first, listed, output, width_of

if TYPE_CHECKING:
    from dpframe import HostArray
    from dpframe.builtin.attacks.views.view import Columns

MOST = 4
"""Numbers of an answer that are looked at, and the sum of all."""

DIVISORS = range(2, 17)

NO_WHOLE = 255
"""Code of what is no whole number."""

SIGNS = ("negative", "zero", "positive")


def _columns(width: int) -> int:
    return (width + (width > 1)) * len(DIVISORS)


class Residues:
    """A column for each number and each divisor: the residue and the sign."""

    columns: ClassVar[Columns] = "codes"

    def see(self, answers: Any) -> HostArray:
        """Codes, 3 × residue + sign."""
        numbers = first(answers, MOST)
        if numbers.shape[1] > 1:
            with np.errstate(invalid="ignore", over="ignore"):
                numbers = np.column_stack([numbers, np.nansum(answers.numbers, axis=1)])
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) < 2.0**53) & (numbers == np.floor(numbers))
        integers = np.where(whole, numbers, 0).astype(np.int64)
        signs = np.sign(integers) + 1
        codes = [np.where(whole, 3 * (integers % d) + signs, NO_WHOLE) for d in DIVISORS]
        return (
            np.stack(codes, axis=2)
            .reshape(len(numbers), len(DIVISORS) * numbers.shape[1])
            .astype(np.uint8)
        )

    def told(self, column: int, number: int, codes: list[int], rest: list[int]) -> str:
        """For example "positive and 0 modulo 3"."""
        width = width_of(number, _columns, MOST)
        place, at = divmod(column, len(DIVISORS))
        name = "the sum of the outputs" if place == width else output(place, width)
        by: dict[int, list[int]] = {}
        for code in codes:
            by.setdefault(code // 3 if code < NO_WHOLE else NO_WHOLE, []).append(code % 3)
        parts: list[str] = []
        for residue, signs in sorted(by.items()):
            if residue == NO_WHOLE:
                parts.append("no whole number")
                continue
            sign = "" if len(signs) == 3 else f"{'/'.join(SIGNS[s] for s in signs)} and "
            parts.append(f"{sign}{residue} modulo {DIVISORS[at]}")
        return f"{name} is {listed(parts)}"
