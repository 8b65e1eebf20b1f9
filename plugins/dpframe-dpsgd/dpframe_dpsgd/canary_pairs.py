"""Data of runs with many canaries: D and D′ are the same, and only the coins differ."""

from __future__ import annotations

import functools
from typing import Annotated, Literal

import numpy as np

from dpframe.plugins import Ge, HostArray, Pair
from dpframe_dpsgd.datasets import DIGITS, load_table
from dpframe_dpsgd.fedavg import Clients
from dpframe_dpsgd.records import Records


class ManyCanaries(Pair, name="many-canaries"):
    """A random subset of a table of labelled records, and further records of the table as canaries.

    For trainers that toss a coin for each canary. The pair marks the canaries as absent.
    """

    adjacency = "add or remove one record"
    data: str = DIGITS
    """"digits" (comes with scikit-learn), a folder with MNIST's IDX files, or a .npz of x and y."""
    records: Annotated[int, Ge(1)] = 1000
    """Number of records that always take part."""
    count: Annotated[int, Ge(1)] = 500
    """Number of canaries."""
    canary: Literal["held-out", "mislabelled"] = "mislabelled"
    """Other records of the table, as they are or with the next label."""
    subset: Annotated[int, Ge(0)] = 0
    """Seed for the choice of records and canaries."""

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


class FederatedClients(Pair, name="clients"):
    """Clients whose records have few labels each, and canary clients; for `dp-fedavg`.

    direction: a canary client sends a random direction instead of an update. mislabelled: a canary
    client has its own records, each with the next label.
    """

    adjacency = "add or remove one client"
    data: str = DIGITS
    """"digits" (comes with scikit-learn), a folder with MNIST's IDX files, or a .npz of x and y."""
    clients: Annotated[int, Ge(1)] = 60
    """Number of clients that are in every run."""
    records: Annotated[int, Ge(1)] = 10
    """Number of records of each client."""
    count: Annotated[int, Ge(1)] = 500
    """Number of canary clients."""
    canary: Literal["direction", "mislabelled"] = "direction"
    """The update of canary clients."""
    shards: Annotated[int, Ge(1)] = 2
    """Number of shards of the label-sorted records that a client gets [McMahan2017, section 3]."""
    subset: Annotated[int, Ge(0)] = 0
    """Seed for the choice of records and their distribution to clients."""

    def check(self) -> None:
        there = len(load_table(self.data).y)
        wanted = self.clients * self.records
        if self.canary == "mislabelled":
            wanted += self.count * self.records
        if wanted > there:
            raise ValueError(
                f"these clients need {wanted:,} records, but {self.data!r} has {there:,}; lower "
                "clients, count or records"
            )
        if self.records % self.shards:
            raise ValueError(
                f"records = {self.records} cannot be cut into shards = {self.shards} equal pieces"
            )

    @property
    def d0(self) -> Clients:
        return _clients(self)

    @property
    def d1(self) -> Clients:
        return _clients(self)


class NoData(Pair, name="no-data"):
    """No data, for mechanisms that create their canaries themselves."""

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


@functools.lru_cache(maxsize=16)
def _clients(pair: FederatedClients) -> Clients:
    table = load_table(pair.data)
    rng = np.random.default_rng(pair.subset)
    order = rng.permutation(len(table.y))

    def dealt(chosen: HostArray) -> tuple[HostArray, HostArray]:
        """Sort records by label, cut them into shards, and deal the shards to clients."""
        ordered = chosen[np.argsort(table.y[chosen], kind="stable")]
        pieces = ordered.reshape(-1, max(1, pair.records // pair.shards))
        own = rng.permutation(pieces).reshape(-1, pair.records)
        return table.x[own], table.y[own]

    first = pair.clients * pair.records
    x, y = dealt(order[:first])
    if pair.canary == "direction":
        empty = np.zeros((pair.count, 0, x.shape[2]), x.dtype)
        return Clients(x, y, empty, np.zeros((pair.count, 0), y.dtype))
    canary_x, canary_y = dealt(order[first : first + pair.count * pair.records])
    return Clients(x, y, canary_x, ((canary_y + 1) % table.classes).astype(y.dtype))
