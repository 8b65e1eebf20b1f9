"""What all searches of a run have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.engine.boxes.lending import Source
    from dpframe.engine.counts.checkpoint import Store
    from dpframe.engine.programs.recipe import Away
    from dpframe.record.looks import Looks
    from dpframe.spec.audit import Cell, RunSettings


class Settings(NamedTuple):
    """What all searches of a run have in common."""

    run: RunSettings
    prng: str
    store: Store
    source: Source
    error_of: Callable[[Cell], float]
    """Share of the error that a cell has, at its look."""
    looks_of: Callable[[Cell], Looks]
    """Which look at the draws of a cell this is."""
    resolution_of: Callable[[Cell], float]
    """What the sampler resolves; added to both rates of what is bet against."""
    ends_when_decided: bool
    away: Away | None = None
    """Who counts and draws traced mechanisms elsewhere; None: that is done here."""
