"""Whether memberships can have been decided by fair coins, as auditing one run supposes."""

from __future__ import annotations

import math

from scipy import special

from dpframe import DpframeError

FAR = 4.5
"""Members may be so many half standard deviations of a coin away from half, once in many runs."""

IMPOSSIBLE = 1e-6
"""Fair coins are refused with a probability below; three looks share it."""

RULE = "each canary must be in with probability ½, independently of all others"


def check_coins(canaries: int, runs: int, members: int, even: int, far: int) -> None:
    """Refuses memberships that fair coins would make with probability below 1e-6.

    It cannot see every dependence: one run with exactly half of its canaries in looks as usual.

    Args:
        canaries: m, of each run.
        runs: how many there are.
        members: canaries that were in, in all runs.
        even: runs with exactly half of the canaries in.
        far: runs with |2 · members − m| > FAR √m.

    Raises:
        DpframeError: they were not decided by fair coins.
    """
    n = canaries * runs
    few = min(members, n - members)
    if 2 * float(special.bdtr(few, n, 0.5)) < IMPOSSIBLE / 3:
        raise DpframeError(f"{members:,} of {n:,} canaries are members: {RULE}")
    half = _half(canaries)
    if even and float(special.betainc(even, runs - even + 1, half)) < IMPOSSIBLE / 3:
        raise DpframeError(f"{even:,} of {runs:,} runs have exactly half of their canaries: {RULE}")
    rare = 2 * math.exp(-(FAR**2) / 2)  # Hoeffding
    if far and float(special.betainc(far, runs - far + 1, rare)) < IMPOSSIBLE / 3:
        raise DpframeError(f"{far:,} of {runs:,} runs have nearly none or nearly all: {RULE}")


def coin_notes(canaries: int, runs: int, even: int) -> tuple[str, ...]:
    """A remark where one run has exactly half of its canaries in, as it should rarely have."""
    if runs != 1 or not even or _half(canaries) > 0.1:
        return ()
    return (
        "exactly half of the canaries are members; if that was arranged, instead of a coin for "
        "each, nothing here holds",
    )


def _half(canaries: int) -> float:
    """Probability that exactly half of them are in."""
    if canaries % 2:
        return 0.0
    k = canaries / 2
    return math.exp(math.lgamma(canaries + 1) - 2 * math.lgamma(k + 1) - canaries * math.log(2))
