"""Bets as they are written down: one event, one line, one round after the other, no arrays."""

from __future__ import annotations

import math

Round = tuple[list[list[int]], int]
"""Draws at or above each cut on D and on D′, and how many draws on each side."""


def nearest(q: float, p: float, slope: float, delta: float) -> tuple[float, float]:
    """The projection of a guess on the line p = e^ε q + δ, by bisection."""
    low, high = 0.0, (1 - delta) / slope
    for _ in range(300):
        x = (low + high) / 2
        y = slope * x + delta
        down = y >= 1 or (
            x > 0 and slope * ((1 - p) / (1 - y) - p / y) + (1 - q) / (1 - x) - q / x >= 0
        )
        low, high = (low, x) if down else (x, high)
    return low, slope * low + delta


def factor(
    hits: tuple[int, int], n: int, bet: tuple[float, float], base: tuple[float, float]
) -> float:
    """Logarithm of the likelihood ratio of two guesses."""
    return sum(
        k * math.log(one / other) + (n - k) * math.log((1 - one) / (1 - other))
        for k, one, other in zip(hits, bet, base, strict=True)
    )


def events(above: list[list[int]], n: int) -> list[tuple[int, int]]:
    """(hits on the multiplied side, on the other) of each cut, above and below, both orders."""
    one = list(zip(*above, strict=True))
    one += [(n - x, n - y) for x, y in one]
    return one + [(y, x) for x, y in one]


def wealth(rounds: list[Round], epsilons: list[float], deltas: list[float]) -> list[float]:
    """Logarithm of the wealth after each round, against the most contradicted of the lines."""
    seen, drawn = [[0] * len(rounds[0][0][0]) for _ in range(2)], 0
    ways, path = [0.0, 0.0], []
    for above, n in rounds:
        best = None
        for epsilon, delta in zip(epsilons, deltas, strict=True):
            slope = math.exp(epsilon)
            for place, hits in enumerate(events(seen, drawn) if drawn else []):
                q, p = ((k + 0.5) / (drawn + 1) for k in hits)
                noise = slope**2 * q * (1 - q) + p * (1 - p)
                z = (p - slope * q - delta) / math.sqrt(noise)
                if best is None or z > best[0]:
                    best = z, place, q, p, slope, delta
        if best is not None and best[0] > 0:
            _, place, q, p, slope, delta = best
            hits = events(above, n)[place]
            base = nearest(q, p, slope, delta)
            half = (q + base[0]) / 2, (p + base[1]) / 2
            ways[0] += factor(hits, n, (q, p), base)
            ways[1] += factor(hits, n, half, nearest(*half, slope, delta))
        top = max(ways)
        path.append(top + math.log(sum(math.exp(way - top) for way in ways) / 2))
        seen = [
            [a + b for a, b in zip(*both, strict=True)] for both in zip(seen, above, strict=True)
        ]
        drawn += n
    return path
