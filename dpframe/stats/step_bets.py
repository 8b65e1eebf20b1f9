"""Bets against the noise of training steps, seen by canaries: one training, any dependence.

Step t releases g = clipped sum + N(0, σ²C²I). Canary i adds a direction c_i of norm C if its coin
puts it into the batch, with probability q. Let x_i = ⟨g, c_i⟩/C² and A = {x_i > ½ + εσ²}. Given all
other coins and the past, the two laws of the release satisfy GDP(1/σ), so the probability of every
event of the whole release is at most e^ε times as large if i is in, plus δ = δ_{1/σ}(ε). With k₁
the number of canaries that are in and have A, divided by mq, and k₀ the number of the others that
have A, divided by m(1 − q),

E = 1 + λ (k₁ − e^ε k₀ − δ)

has a mean of at most 1, however canaries depend on each other, because each canary's term has. If A
also requires that at most n canaries exceed, k₀ is at most n/(m(1 − q)), and E is above 0 for every
λ < 1/(e^ε n/(m(1 − q)) + δ). So if ε, n and λ depend on earlier steps only, the product of E over
steps is an e-process, and its largest value is at most 1/α with probability 1 − α [Shafer2021].
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dpframe.common.types import Bools, Floats
from dpframe.stats.gaussian import gaussian_delta

EPSILONS = (0.1, 0.25, 0.5)  # ε of the bets, in multiples of 1/σ; the wealth is divided equally
LARGEST = 30.0  # ε of a bet, at most; more would overflow
STAKE = 0.99  # share of the largest stake that loses less than everything
REMEMBERED = 100  # earlier steps whose exceedances limit the number in the next one
FIRST = 10  # steps without a limit
SPREADS = 4.0  # standard deviations above the mean of earlier numbers at which the limit is
ERROR = 0.05  # at which a description names the step that refutes the noise
POINTS = 200  # of the wealth in a description, at most


class StepBets:
    """Wealth of bets against the stated noise, step by step."""

    def __init__(self) -> None:
        self._logs = np.zeros(len(EPSILONS))
        self._exceeding: deque[Floats] = deque(maxlen=REMEMBERED)  # of the last steps, for each ε
        self.wealth: list[float] = []
        """ln of the wealth after each step; the start is 0."""
        self._sigmas: set[float] = set()

    def update(self, released: Floats, included: Bools, sigma: float, rate: float) -> None:
        """Bet on a step.

        Args:
            released: x of each canary, shape [m].
            included: True for canaries in the batch, each by its own coin, shape [m].
            sigma: the noise multiplier σ that is stated, above 0.
            rate: q, strictly between 0 and 1; or any larger number, which costs wealth only.
        """
        epsilons = np.minimum(np.array(EPSILONS) / sigma, LARGEST)
        deltas = gaussian_delta(epsilons, 1 / sigma)
        outside = len(released) * (1 - rate)
        limits = self._limits(len(released))
        stakes = STAKE / (np.exp(epsilons) * limits / outside + deltas)
        exceeding = np.asarray(released) > (0.5 + epsilons * sigma**2)[:, None]
        numbers = exceeding.sum(axis=1)
        inside = (exceeding & included).sum(axis=1)
        counted = numbers <= limits
        gains = inside / (len(released) * rate) - np.exp(epsilons) * (numbers - inside) / outside
        self._logs += np.log1p(stakes * (np.where(counted, gains, 0.0) - deltas))
        self._exceeding.append(numbers.astype(np.float64))
        self._sigmas.add(float(sigma))
        self.wealth.append(float(logsumexp(self._logs)) - math.log(len(EPSILONS)))

    def _limits(self, canaries: int) -> Floats:
        """Return the largest numbers of exceedances that count, from earlier steps."""
        if len(self._exceeding) < FIRST:
            return np.full(len(EPSILONS), float(canaries))
        earlier = np.array(self._exceeding)
        most = earlier.mean(axis=0) + SPREADS * earlier.std(axis=0) + 1
        return np.asarray(np.minimum(most, canaries))

    @property
    def p_value(self) -> float:
        """Return the p-value of the stated noise: 1 over the largest wealth so far."""
        return math.exp(-max(0.0, *self.wealth)) if self.wealth else 1.0

    def refuted_after(self, error: float) -> int | None:
        """Return the number of steps after which the noise was refuted; None if it was not."""
        most = -math.log(error)
        return next((n for n, log in enumerate(self.wealth, 1) if log >= most), None)

    def described(self, others: float | None = None) -> dict[str, Any] | None:
        """Return the field `step_bets` of a score record; None before the first step.

        Its `wealth` has at most `POINTS` points (step, ln wealth) at equal distances, with the last
        step and the one that refutes the noise.

        Args:
            others: root mean square of what other records add to x, in units of σ; None if unknown.
        """
        if not (steps := len(self.wealth)):
            return None
        after = self.refuted_after(ERROR)
        shown = {*range(steps, 0, -max(1, -(-steps // (POINTS - 1)))), *([after] if after else [])}
        return {
            "steps": steps,
            "sigma": [min(self._sigmas), max(self._sigmas)],
            "confidence": 1 - ERROR,
            "p_value": self.p_value,
            "refuted_at": after,
            "largest": max(self.wealth),
            "others": others,
            "wealth": [[step, round(self.wealth[step - 1], 3)] for step in sorted(shown)],
        }
