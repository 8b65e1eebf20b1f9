"""Where the draws of a search go: by what they may earn, or to the pair with the largest bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.stats.betting import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.engine.search.making import AnyArm
    from dpframe.engine.search.wealth import Seen
    from dpframe.types import Floats

SURE = 3.0
"""Standard errors of the logarithm by which the loss of the pair that leads is surely larger."""

OTHERS = 0.2
"""Of the draws after a claim is refuted, those of pairs that do not lead."""

UNDECIDED = 0.3
"""Of the draws while it is not."""


def least_losses(
    seen: Seen, delta: float, resolution: float = 0.0, errors: float = 2.0
) -> tuple[Floats, Floats]:
    """The loss that each event shows, and the same less some standard errors of its logarithm.

    Args:
        seen: of one pair.
        delta: δ of the loss.
        resolution: what the sampler does not resolve of either probability.
        errors: how many.

    Returns:
        −∞ where an event shows no loss.
    """
    n = seen.trials
    q, p = ((events(*seen) + 0.5) / (n + 1)).T
    beyond = p > delta + resolution
    excess, base = np.where(beyond, p - delta - resolution, 1.0), q + resolution
    loss = np.where(beyond, np.log(excess / base), -np.inf)
    error = np.sqrt(p * (1 - p) / (n * excess**2) + q * (1 - q) / (n * base**2))
    return loss, np.where(beyond, loss - errors * error, -np.inf)


class Leading:
    """Who is drawn from for a bound: the pair that leads, and others, which may overtake it.

    Args:
        delta: δ of the bound.
        resolution: what the sampler does not resolve.
    """

    def __init__(self, delta: float, resolution: float) -> None:
        self._about = delta, resolution
        self._led = self._others = 0

    def pick(
        self, arms: Sequence[AnyArm], growth: Callable[[AnyArm], float], share: float
    ) -> tuple[AnyArm, bool]:
        """Who is next, and whether it leads.

        Args:
            arms: of the search.
            growth: about how much a draw would earn against the claim or, once that is refuted,
                against what is not.
            share: of the draws, that others than the one that leads get.
        """

        def shown(arm: AnyArm) -> float:
            return (
                float(np.max(least_losses(arm.seen, *self._about)[1], initial=-np.inf)) / arm.scale
            )

        leader = max(arms, key=shown)
        others = [arm for arm in arms if arm is not leader]
        if others and self._others < share * (self._led + self._others):
            return max(others, key=growth), False
        return leader, True

    def spent(self, draws: int, *, leads: bool) -> None:
        """Draws were made of who was picked."""
        if leads:
            self._led += draws
        else:
            self._others += draws
