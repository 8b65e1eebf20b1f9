"""What a search asks of its draws: another question of the same draws is another look at them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpframe.engine.planning.fingerprint import source_of, told_as
from dpframe.engine.search.arm import SHARE, WARM_UP
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.spec.audit import Cell, Choice


def asked_of_draws(cell: Cell, seconds: float | None) -> list[Any]:
    """What makes a search another one at the same draws; more trials only where they begin it anew.

    Args:
        cell: what is searched.
        seconds: budget of a box; half of it decides how many pairs are begun.
    """
    assert cell.search is not None
    search = cell.search
    chosen: list[Choice[Any]] = [search.neighbourhood, *search.attacks]
    kinds: list[Any] = [type(choice.value) for choice in chosen]
    values = [
        [choice.distribution, choice.use, choice.value.params(), source_of(kind)]
        for choice, kind in zip(chosen, kinds, strict=True)
    ]
    begins = min(cell.trials, math.ceil(WARM_UP / SHARE))
    asked = [search.mechanism.value.params(), values, repr(cell.delta), begins]
    if isinstance(search.mechanism.value, HostMechanism):
        asked += [seconds, told_as(search.mechanism)]
    return asked
