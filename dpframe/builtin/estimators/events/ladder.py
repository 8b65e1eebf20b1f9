"""Events {score beyond a threshold} and how often they happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dpframe.stats.joint import joint_staircases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Floats, HostArray, Ints


RATIO = 3.0
"""Ratio of neighbouring ranks. Two between them would cost more than they find."""


class Ladder(Protocol):
    """Scores in the order in which an event takes them in, from one end.

    An event says one dataset; it is false on the other. "The first j steps" are the j most
    extreme values, whatever a step is.
    """

    @property
    def trials_false(self) -> int:
        """Scores on the dataset that the event does not say."""

    @property
    def trials_true(self) -> int:
        """Scores on the dataset that it says."""

    def at_rank(self, ranks: Ints) -> Ints:
        """True counts of the events strictly beyond the rank-th most extreme false score."""


class Bins(NamedTuple):
    """A ladder over bins; a step is a bin."""

    false: Ints
    """Counts in the first j bins, shape [bins + 1]."""
    true: Ints
    """The same."""

    @property
    def trials_false(self) -> int:
        return int(self.false[-1])

    @property
    def trials_true(self) -> int:
        return int(self.true[-1])

    def at_rank(self, ranks: Ints) -> Ints:
        beyond: Ints = self.true[np.searchsorted(self.false, ranks - 1, side="right") - 1]
        return beyond


class Sorted(NamedTuple):
    """A ladder over raw scores."""

    false: HostArray
    """Ascending, and the most extreme last."""
    true: HostArray
    """The same."""

    @property
    def trials_false(self) -> int:
        return len(self.false)

    @property
    def trials_true(self) -> int:
        return len(self.true)

    def at_rank(self, ranks: Ints) -> Ints:
        thresholds = self.false[len(self.false) - ranks]
        beyond: Ints = len(self.true) - np.searchsorted(self.true, thresholds, side="right")
        return beyond


class Family(NamedTuple):
    """Which end of the scores says which dataset."""

    top: bool
    """Whether events are {score > t}; else {score < t}."""
    says: int
    """0 for D, 1 for D′."""

    def bins(self, counts: Ints) -> Bins:
        """The ladder over bin counts, shape [2, bins]."""
        ordered = counts[:, ::-1] if self.top else counts
        steps = np.pad(np.cumsum(ordered, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
        return Bins(steps[1 - self.says], steps[self.says])

    def sorted(self, scores: tuple[HostArray, HostArray]) -> Sorted:
        """The ladder over raw scores, each sorted in ascending order and without NaN."""
        extreme = [values if self.top else -values[::-1] for values in scores]
        return Sorted(extreme[1 - self.says], extreme[self.says])


UP = (Family(top=True, says=1), Family(top=False, says=0))
DOWN = (Family(top=True, says=0), Family(top=False, says=1))


class Events(NamedTuple):
    """Events with what was counted, and how the error is shared among them."""

    false: Ints
    """Rank − 1, or the count of a fixed event, shape [k]."""
    trials_false: Ints
    true: Ints
    trials_true: Ints
    weight: Floats
    share: Floats
    """Of the error; the sum is at most 1."""
    ranked: HostArray
    """Whether the event is a rank's; else it is a fixed one."""

    @property
    def fpr(self) -> Floats:
        """Estimated false-positive rates."""
        fixed = self.false / self.trials_false
        return np.asarray(
            np.where(self.ranked, (self.false + 1) / (self.trials_false + 1), fixed), np.float64
        )

    @property
    def tpr(self) -> Floats:
        """Estimated true-positive rates."""
        return np.asarray(self.true / self.trials_true, np.float64)

    def staircases(self, error: float) -> Floats:
        """Staircases that all hold together with probability 1 − error, shape [k, corners, 2]."""
        return joint_staircases(
            self.false,
            self.trials_false,
            self.true,
            self.trials_true,
            self.weight,
            np.minimum(error * self.share, 1),
        )

    def only(self, chosen: Sequence[int]) -> Events:
        """Some of the events."""
        columns: list[Any] = [column[list(chosen)] for column in self]
        return Events(*columns)


def joined(parts: Sequence[Events]) -> Events:
    """Events of several kinds together."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Events(*columns)


def rank_events(ladder: Ladder, ranks: Ints, weight: Floats, share: Floats) -> Events:
    """Events beyond the given ranks of the false scores."""
    same = np.ones(len(ranks), np.int64)
    return Events(
        ranks - 1,
        ladder.trials_false * same,
        ladder.at_rank(ranks),
        ladder.trials_true * same,
        weight,
        share,
        same.astype(bool),
    )


def geometric(ladder: Ladder, share: float) -> Events:
    """Events at ranks 1, 3, 9, … up to half of the false scores, the rare ones favoured.

    Which rank is best depends on the mechanism: 1 where one output gives the record away, about
    20 for Gaussian noise, a quarter of all for Laplace noise. A rare event needs its share of the
    error more than a frequent one.
    """
    most = max(1.0, ladder.trials_false / 2)
    steps = np.arange(int(np.log(most) / np.log(RATIO) + 1e-9) + 1)
    ranks = np.round(RATIO**steps).astype(np.int64)
    shares = 1 / (steps + 1.5) ** 1.5
    weight = expected_weight(ranks, ladder.trials_false)
    return rank_events(ladder, ranks, weight, share * shares / shares.sum())


def expected_weight(ranks: Ints | Floats, trials: int) -> Floats:
    """The weight of the false positives if TPR were FPR^{2/3}: a guess, right for no mechanism.

    The best weight is the share of the false positives in the standard error of ln(TPR/FPR).
    """
    fpr = np.clip(np.asarray(ranks, np.float64) / trials, 0, 0.5)
    tpr = fpr ** (2 / 3)
    return np.asarray(1 / np.sqrt(1 + fpr * (1 - tpr) / tpr), np.float64)
