"""The privacy loss of Poisson-sampled Gaussian steps, with a time limit for tiny noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from dpframe.plugins import AccountedDP

LARGEST = 100.0
"""ε above which no claim is stated: m canaries can refute about ln(m/10), which is far below."""
FINEST = 1e-4  # spacing of privacy losses; distributions of a larger ε need no finer ones
OF_EPSILON = 2e-4  # spacing ÷ ε
REFINED = 4.0
TOLERANCE = 0.01  # share by which a stated ε may be below the computed one
ROUGH = 3.0  # ratio of an ε from Rényi divergences and the exact one, at most, if both are large
USUAL = 1e-9  # δ at which ε is estimated if the claim has δ = 0
ORDERS = (*range(2, 65), 128, 256, 512)

Steps = Mapping[tuple[float, float], int]
"""Numbers of steps by noise multiplier and sampling rate."""


def counted(history: Iterable[tuple[float, float, int]]) -> Steps:
    """Return the steps that Opacus's accountant has counted."""
    steps_of: dict[tuple[float, float], int] = {}
    for noise, rate, steps in history:
        key = float(noise), min(float(rate), 1.0)
        steps_of[key] = steps_of.get(key, 0) + int(steps)
    return steps_of


class Loss:
    """The privacy loss of steps for adding or removing one record.

    `rough` is an upper limit of ε from Rényi divergences, which is fast for any noise.

    Args:
        steps: with noise above 0.
        delta: at which ε is needed.
    """

    def __init__(self, steps: Steps, delta: float) -> None:
        self.event = dp_event.ComposedDpEvent(
            [
                dp_event.SelfComposedDpEvent(
                    dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise)), number
                )
                for (noise, rate), number in steps.items()
            ]
        )
        self.delta = delta
        accountant = RdpAccountant(ORDERS)
        accountant.compose(self.event)
        self.rough = float(accountant.get_epsilon(delta or USUAL))

    @property
    def is_too_large(self) -> bool:
        """True if ε is too large to compute or to refute."""
        return self.rough > LARGEST

    def claim(self, finer: float = 1.0) -> AccountedDP:
        """Return the claim of these steps, on a grid that suits its ε."""
        return AccountedDP(self.event, discretization=max(FINEST, OF_EPSILON * self.rough) / finer)

    def exceeds(self, epsilon: float) -> float | None:
        """Return the ε of these steps if the given one is more than 1 % below it, else None."""
        if epsilon >= (1 - TOLERANCE) * self.rough:
            return None
        if self.is_too_large:
            return self.rough if epsilon < self.rough / ROUGH else None
        for finer in (1.0, REFINED):  # a coarse grid gives a larger ε
            exact = self.claim(finer).epsilon_at(self.delta)
            if epsilon >= (1 - TOLERANCE) * exact:
                return None
        return exact
