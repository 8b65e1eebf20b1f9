"""A threshold on a single number, given or chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import jax.numpy as jnp
import numpy as np

from dpframe import Attack, clopper_pearson_upper
from dpframe.builtin.attacks._levels import cuts
from dpframe.builtin.attacks._outputs import host_numbers, not_one_number, numbers

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Ints, Key, Target, Tree

CANDIDATES = 512
ERROR = 0.05
"""The threshold is chosen by the bound that the fit stream would certify at this error."""


class Threshold(Attack, name="threshold"):
    """Decides for D′ where a single number is on the right side of a threshold, or on it.

    What is not given is chosen on the fit stream: of 512 cuts, close together in the tails, and of
    both directions, the one whose Clopper-Pearson limits there certify the largest ε, at the
    claim's own δ (0 without a claim). Decides for D where the output is NaN.
    """

    gives = "decision"

    value: float | None = None
    """The threshold; default: chosen on the fit stream."""
    direction: Literal["up", "down", "either"] = "either"
    """D′ is what is at least the threshold ("up") or at most ("down"); "either": chosen too."""

    def unsuited(self, target: Target) -> str | None:
        return not_one_number(target)

    def learns(self) -> bool:
        return self.value is None or self.direction == "either"

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        if not self.learns():
            return {"value": self.value, "up": self.direction == "up"}
        sides = [np.sort(host_numbers(outputs)) for outputs in train]
        seen = [x[: np.searchsorted(x, np.nan)] for x in sides]  # NaN comes last
        values = np.array([0.0 if self.value is None else self.value])
        if self.value is None and len(pooled := np.sort(np.concatenate(seen))):
            values = cuts(pooled, CANDIDATES)
        claim = target.mechanism.claim(target.pair)
        delta = 0.0 if claim is None else claim.default_delta
        n0, n1 = (len(x) for x in sides)
        best = (-np.inf, values[0], True)
        for up in {"up": (True,), "down": (False,), "either": (True, False)}[self.direction]:
            false, true = (_decided(x, values, up) for x in seen)
            worth = _certified(false, n1 - true, n0, n1, delta)
            at = int(np.argmax(worth))
            best = max(best, (float(worth[at]), values[at], up), key=lambda found: found[0])
        return {"value": best[1], "up": best[2]}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = numbers(outputs)
        value = state["value"].astype(x.dtype)
        return jnp.where(state["up"], x >= value, x <= value)


def _decided(sorted_numbers: Floats, values: Floats, up: bool) -> Ints:
    """How many numbers each threshold decides to be of D′."""
    if up:
        return len(sorted_numbers) - np.searchsorted(sorted_numbers, values, side="left")
    return np.searchsorted(sorted_numbers, values, side="right")


def _certified(false: Ints, missed: Ints, n0: int, n1: int, delta: float) -> Floats:
    """The ε that the limits of both error rates certify; negative where that is nothing."""
    fpr = clopper_pearson_upper(false, n0, ERROR / 2)
    fnr = clopper_pearson_upper(missed, n1, ERROR / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        either = np.maximum((1 - delta - fnr) / fpr, (1 - delta - fpr) / fnr)
        # Where nothing is certified the smaller sum of the error rates is the better start.
        return np.where(either > 1, np.log(either), 1 - fpr - fnr - 2)
