"""The likelihood ratio of outputs that take few values, learned from their shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import jax.numpy as jnp
import numpy as np

from dpframe import Attack, Ge, Gt, Le
from dpframe.builtin.attacks._words import digests, host_words, words

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Ints, Key, Target, Tree


FEW = 2**16
"""Outputs per dataset after which those of continuous noise, that hardly come twice, are enough."""


class Categories(Attack, name="categories"):
    """ln of the share of the fit stream that is the same output, on D′ over on D.

    Outputs of any shape are taken as wholes: two are the same if all their coordinates are, to the
    bit (but all NaN are alike, and 0 and −0). With counts c the logarithm is
    r = ln((c₁ + s)/(n₁ + sk)) − ln((c₀ + s)/(n₀ + sk)), and its standard error about
    e = √(1/(c₁ + s) + 1/(c₀ + s)). The score is r drawn in to 0 by `caution` times e: else rare
    outputs, whose r is mostly noise, would rank above those that tell. Outputs that were seen less
    than `least` times, in both streams together, or not at all, are one category. So where hardly
    any output comes twice, as with continuous noise, the score is the same for all: use `learned`
    there.
    """

    gives = "score"

    values: Annotated[int, Ge(1), Le(65536)] = 1024
    """Values with a score of their own, at most: those that are seen most often."""
    least: Annotated[int, Ge(1)] = 5
    """How often a value must be seen to have a score of its own."""
    smoothing: Annotated[float, Gt(0)] = 1.0
    """s, added to every count: a value that one dataset has not shown is no proof."""
    caution: Annotated[float, Ge(0)] = 2.0
    """Standard errors by which a ratio must differ from 1 to count."""

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        few = [_whole(*digests(host_words(outputs[:FEW]))) for outputs in train]
        sides = few
        if 2 * len(np.unique(few[0])) <= len(few[0]) == FEW < max(map(len, train)):
            sides = [_whole(*digests(host_words(outputs))) for outputs in train]
        seen, place = np.unique(np.concatenate(sides), return_inverse=True)
        split = len(sides[0])
        counts = np.stack(
            [np.bincount(part, minlength=len(seen)) for part in (place[:split], place[split:])]
        )
        often = np.argsort(-counts.sum(axis=0), kind="stable")[: self.values]
        kept = np.sort(often[counts.sum(axis=0)[often] >= self.least])
        rest = counts.sum(axis=1) - counts[:, kept].sum(axis=1)
        ratios = self.ratios(np.column_stack([counts[:, kept], rest]))
        # Empty places have the score of the rest, so it does not matter who is found there.
        first = np.full(self.values, 2**32 - 1, np.uint32)
        second = np.zeros(self.values, np.uint32)
        scores = np.full(self.values + 1, ratios[-1])
        first[: len(kept)], second[: len(kept)] = seen[kept] >> 32, seen[kept] & 0xFFFFFFFF
        scores[: len(kept)] = ratios[:-1]
        return {"first": first, "second": second, "scores": scores}

    def ratios(self, counts: Ints) -> HostArray:
        """Logarithms of ratios of smoothed shares, drawn in; of counts of shape [2, k]."""
        smooth = counts + self.smoothing
        plain = np.diff(np.log(smooth / smooth.sum(axis=1, keepdims=True)), axis=0)[0]
        error = np.sqrt((1 / smooth).sum(axis=0))
        drawn: HostArray = np.sign(plain) * np.maximum(np.abs(plain) - self.caution * error, 0)
        return drawn

    def score(self, state: Tree, outputs: Array) -> Array:
        first, second = digests(words(outputs))
        at = jnp.searchsorted(state["first"], first, method="scan_unrolled")
        at = jnp.minimum(at, self.values - 1)
        known = (state["first"][at] == first) & (state["second"][at] == second)
        found: Array = state["scores"].astype(float)[jnp.where(known, at, self.values)]
        return found


def _whole(first: HostArray, second: HostArray) -> HostArray:
    """Two numbers of 32 bits as one of 64."""
    return first.astype(np.uint64) << np.uint64(32) | second
