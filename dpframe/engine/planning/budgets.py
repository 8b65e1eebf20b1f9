"""What a pass may draw beside what it counts, and in which precision it is scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.mechanism import Mechanism
    from dpframe.spec.audit import RunSettings

ENOUGH = 100_000
"""Draws per dataset to learn or to choose from, where they cost nothing."""

FEW = 1_000
"""For a black box at least so many, unless it is counted on fewer."""


def learning_draws(asked: int | None, mechanism: Mechanism | HostMechanism, trials: int) -> int:
    """Draws per dataset of a fit or pilot stream.

    The releases of a black box are dear: a tenth of those that are counted, and never more than
    those.

    Args:
        asked: what the spec says, if it says anything.
        mechanism: what is drawn from.
        trials: draws per dataset that are counted.
    """
    if asked is not None:
        return asked
    if not isinstance(mechanism, HostMechanism):
        return ENOUGH
    return min(trials, max(FEW, trials // 10), ENOUGH)


def resolved(run: RunSettings, mechanism: Mechanism | HostMechanism, trials: int) -> RunSettings:
    """The settings of one pass, with nothing left open.

    Black boxes are scored in float64 whatever the precision of simulations: what they return is
    exact, and scoring costs nothing beside making it.
    """
    fit, pilot = (learning_draws(asked, mechanism, trials) for asked in (run.fit, run.pilot))
    found = run._replace(fit=fit, pilot=pilot)
    exact = isinstance(mechanism, HostMechanism)
    return found._replace(precision="float64") if exact else found
