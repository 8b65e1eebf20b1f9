"""The output as its own score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe import Attack
from dpframe.builtin.attacks._outputs import not_one_number, numbers

if TYPE_CHECKING:
    from dpframe import Array, Target, Tree


class Identity(Attack, name="identity"):
    """The score is the output itself, for mechanisms that release a single number.

    Larger outputs must mean D′. For symmetric noise the likelihood ratio rises with the output,
    and then no attack is better. NaN stays NaN.
    """

    gives = "score"
    hands_out = True

    def unsuited(self, target: Target) -> str | None:
        return not_one_number(target)

    def score(self, state: Tree, outputs: Array) -> Array:
        return numbers(outputs)
