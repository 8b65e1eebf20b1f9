"""Training sets with and without a canary."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

import numpy as np

from dpframe.plugins import Ge, HostArray, Pair
from dpframe_dpsgd.datasets import DIGITS, load_table, stamp
from dpframe_dpsgd.records import Records

Kind = Literal["held-out", "mislabelled", "blank", "gradient"]


class CanaryPair(Pair):
    """Base class of pairs that differ in one row, the last of D′."""

    adjacency = "add or remove one record"

    def record(self) -> tuple[HostArray, int]:
        """Return the features and label of the canary."""
        data = self.d1
        return data.x[-1], int(data.y[-1])


class Canary(CanaryPair, name="canary"):
    """A random subset of a table of labelled records (D), and the same with a canary (D′).

    held-out: another record of the table. mislabelled: that record with the next label. blank: a
    record of zeros with its label. gradient: no record, but a random direction of norm C that
    enters the sum of gradients like a record's gradient.
    """

    data: str = DIGITS
    """"digits" (comes with scikit-learn), a folder with MNIST's IDX files, or a .npz of x and y."""
    records: Annotated[int, Ge(1)] = 1000
    """Number of records in D."""
    canary: Kind = "held-out"
    """The record that only D′ has."""
    index: Annotated[int, Ge(0)] = 0
    """Index of the record outside D from which the canary is made."""
    subset: Annotated[int, Ge(0)] = 0
    """Seed for the choice of D."""

    def check(self) -> None:
        left = len(load_table(self.data).y) - self.records
        if self.index >= left:
            raise ValueError(
                f"records = {self.records} leave {max(0, left)} of {self.data!r} for a canary, "
                f"so index = {self.index} is too large"
            )

    @property
    def d0(self) -> Records:
        return _records(self, False, stamp(self.data))

    @property
    def d1(self) -> Records:
        return _records(self, True, stamp(self.data))


@functools.lru_cache(maxsize=16)
def _records(pair: Canary, with_canary: bool, stamp: tuple[Any, ...]) -> Records:
    table = load_table(pair.data)
    order = np.random.default_rng(pair.subset).permutation(len(table.y))
    chosen = order[: pair.records]
    extra = order[pair.records + pair.index]
    x, y = table.x[extra], int(table.y[extra])
    if pair.canary == "mislabelled":
        y = (y + 1) % table.classes
    if pair.canary == "blank":
        x = np.zeros_like(x)
    present = np.ones(pair.records + 1, bool)
    present[-1] = with_canary
    return Records(
        np.vstack([table.x[chosen], x]),
        np.append(table.y[chosen], np.int32(y)),
        present,
        np.array(pair.canary == "gradient"),
    )
