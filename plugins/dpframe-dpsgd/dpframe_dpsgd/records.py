"""Training data: records in arrays of one shape, with or without the canary."""

from __future__ import annotations

from typing import Any, NamedTuple


class Records(NamedTuple):
    """A training set. Its last row is reserved for the canary: D and D′ differ in its presence."""

    x: Any
    """Features, shape [rows, features], floating."""
    y: Any
    """Labels, shape [rows], integers from 0."""
    present: Any
    """True for rows that exist, shape [rows]; other rows are never sampled."""
    gradient: Any
    """True if the last row stands for a canary gradient, made by the trainer; a boolean scalar."""

    @property
    def place(self) -> int:
        """The row of the canary."""
        return int(self.present.shape[0]) - 1

    def without_canary(self) -> Records:
        """Return D, given either dataset; traceable by JAX."""
        return self._replace(present=self.present.at[-1].set(False))
