"""Data of runs with many canaries: D and D′ are the same, what differs are the coins."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from dpframe.plugins import Ge, Pair
from dpframe_dpsgd.datasets import DIGITS, load_table
from dpframe_dpsgd.records import Records

if TYPE_CHECKING:
    from dpframe.plugins import HostArray


class ManyCanaries(Pair, name="many-canaries"):
    """A random subset of a table of labelled records, and others that are canaries.

    For trainers that toss a coin for each canary. Of these rows it says that they are not there.
    """

    adjacency = "add or remove one record"
    data: str = DIGITS
    """"digits" (comes with scikit-learn), a folder with MNIST's IDX files, or a .npz of x and y."""
    records: Annotated[int, Ge(1)] = 1000
    """Records that always take part."""
    count: Annotated[int, Ge(1)] = 500
    """Number of canaries."""
    canary: Literal["held-out", "mislabelled"] = "mislabelled"
    """Other records of the table, as they are or with the next label."""
    subset: Annotated[int, Ge(0)] = 0
    """Seed of the choice of records and canaries."""

    def check(self) -> None:
        there = len(load_table(self.data).y)
        if self.records + self.count > there:
            raise ValueError(
                f"records = {self.records} and count = {self.count} are more than the {there} of "
                f"{self.data!r}"
            )

    @property
    def d0(self) -> Records:
        return _records(self)

    @property
    def d1(self) -> Records:
        return _records(self)


class NoData(Pair, name="no-data"):
    """Nothing: for mechanisms that make their canaries themselves."""

    adjacency = "add or remove one canary"

    @property
    def d0(self) -> HostArray:
        return np.zeros(1)

    @property
    def d1(self) -> HostArray:
        return np.zeros(1)


@functools.lru_cache(maxsize=16)
def _records(pair: ManyCanaries) -> Records:
    table = load_table(pair.data)
    chosen = np.random.default_rng(pair.subset).permutation(len(table.y))
    chosen = chosen[: pair.records + pair.count]
    y = table.y[chosen].copy()
    if pair.canary == "mislabelled":
        y[pair.records :] = (y[pair.records :] + 1) % table.classes
    return Records(table.x[chosen], y, np.arange(len(y)) < pair.records, np.array(False))
