"""Testing by betting: evidence against a claim that is valid at any time.

Draws come in rounds. Before a round, an event and a guess of its two probabilities are chosen from
the earlier rounds; the round then multiplies the wealth by the payoff of the bet. Under a true
claim the wealth is a supermartingale for all choices, so it ever exceeds 1/a with probability at
most a [Ville1939]; see [Shafer2021] for tests as bets. Choosing thresholds and directions and
looking early need no share of the error, and no draws are set aside.

A claim (ε, δ) bounds every event S in both orders of D and D′: p ≤ e^ε q + δ for its probabilities
p on one side and q on the other. Against one event the bet is the likelihood ratio of the guess
(q̂, p̂) to its projection (q₀, p₀) on that half-plane, the nearest point in KL(p̂‖p) + KL(q̂‖q)
(after [Turner2024]). The mean of a factor is (1 + u)(1 + v) with u + v ≤ 0 under the claim, because
u + v = 0 is the boundary of the half-plane; so it is at most ((2 + u + v)/2)² ≤ 1.
"""

from typing import Any, NamedTuple

import numpy as np

from dpframe.common.types import Floats, Ints

NEWTON_STEPS = 10
"""Newton's steps after a closed solution, which rounding leaves inexact where it is small."""

CLOSE = 1e-12  # relative size of a step after which the next would be its square
DEAR = 0.1  # largest accepted loss of ln(wealth) by rounding in a round
TINY = 1e-300


def project(q: Floats, p: Floats, slope: Floats, delta: Floats | float) -> tuple[Floats, Floats]:
    """Return the point of the line p = e^ε q + δ that is nearest to a guess.

    Args:
        q: guessed probability on the side multiplied by e^ε, in [0, 1].
        p: on the other side, in [0, 1].
        slope: e^ε.
        delta: δ in [0, 1); all four broadcast.

    Returns:
        (q₀, p₀), the minimiser of KL(p‖p₀) + KL(q‖q₀) on the line.
    """
    q, p, slope, delta = np.broadcast_arrays(q, p, slope, delta)
    largest_q = (1 - delta) / slope
    # Nearer to the line in both coordinates: q₀ lies between q and where p meets the line.
    ends = np.minimum(q, largest_q), np.minimum(np.maximum((p - delta) / slope, 0), largest_q)
    low, high = np.minimum(*ends), np.maximum(*ends)
    # Exact where δ = 0, which leaves a quadratic equation.
    b = slope + 1 + slope * q + p
    # The discriminant b² − 8 e^ε (p + q), as a sum, because it cancels near q = p = 1.
    apart = (slope - 1) * (1 + q) + (q - p)
    x = 2 * (p + q) / (b + np.sqrt(apart * apart + 4 * slope * (1 - q) * (1 - p)))
    if np.any(delta):
        x = np.where(delta > 0, _cubic(q, p, slope, delta) / slope, x)
        close = delta == 0
        for _ in range(NEWTON_STEPS):
            x = np.minimum(np.maximum(x, low), high)
            y = slope * x + delta
            one, two = slope * x * (1 - x), y * (1 - y)
            dx, dy = x - q, y - p
            rise = dy * one + dx * two
            steep = slope * (one + dy * (1 - 2 * x) + dx * (1 - 2 * y)) + two
            step = np.where(close, 0.0, rise / np.where(steep > 0, steep, np.inf))
            x = x - step
            # Settled entries stay, so that a result does not depend on the rest of its batch.
            close |= np.abs(step) <= CLOSE * x
            if close.all():
                break
    nearest = np.minimum(np.maximum(x, low), high)
    return nearest, np.minimum(slope * nearest + delta, 1 - 1e-16)


def _cubic(q: Floats, p: Floats, slope: Floats, delta: Floats) -> Floats:
    """Return the e^ε q₀ at which the derivative of the distance is 0, a root of a cubic.

    Of its three real roots one is negative and one lies beyond p₀ = 1.
    """
    scale = -slope / 2
    b = scale * (1 + q + (1 - 3 * delta + p) / slope)
    c = scale * (delta - p + delta * (1 - delta) / slope - q * (1 - 2 * delta))
    d = scale * (-q * delta * (1 - delta))
    third = b / 3
    down = np.maximum(third * third - c / 3, TINY)
    over = (third * (2 * third * third - c) + d) / (2 * down * np.sqrt(down))
    angle = np.arccos(np.clip(-over, -1, 1)) / 3
    return np.asarray(2 * np.sqrt(down) * np.cos(angle - 2 * np.pi / 3) - third, np.float64)


class Bet(NamedTuple):
    """The bets of one round, one against each ε; every field has shape [ε]."""

    event: Ints  # index into `events`
    q: Floats  # guessed probability of the event on the side multiplied by e^ε
    p: Floats  # on the other side; there is no bet if the claim allows the guess
    z: Floats
    """Distance of the guess from the claim: in standard errors, once multiplied by the square
    root of the number of draws that it was guessed from."""


def events(above: Ints, trials: Ints | int, outside: Any = None) -> Ints:
    """Count every event, shape [..., 4 cuts, 2]: on the multiplied side and on the other side.

    An event is the scores above or below a cut, taken as evidence for D′ (D is multiplied) or for
    D. `above` counts draws at or above each cut, shape [..., 2, cuts]: on D, on D′.

    `outside` counts draws outside a set of answers K, shape [..., 2]. They are in every event of
    the multiplied side and in none of the other: P(A ∩ K) ≤ e^ε Q(A ∪ Kᶜ) + δ holds under a claim,
    and under any claim that would hold with other answers in their place.
    """
    outside = np.zeros(2, np.int64) if outside is None else outside
    below = (np.asarray(trials)[..., None] - outside)[..., None] - above
    inside = np.swapaxes(np.concatenate([above, below], axis=-1), -1, -2)
    for_d_prime, for_d = (inside + outside[..., None, :] * side for side in np.eye(2, dtype=int))
    return np.concatenate([for_d_prime, for_d[..., ::-1]], axis=-2)


def choose(
    above: Ints, trials: int, slope: Floats, delta: Floats | float, outside: Any = None
) -> Bet:
    """Choose, against each slope e^ε, shape [ε], the event farthest outside in standard errors.

    The counts are all draws before the round that is bet on; δ is one, or one for each ε.
    """
    guess = (events(above, trials, outside) + 0.5) / (trials + 1)
    q, p = guess[:, 0, None], guess[:, 1, None]
    noise = slope**2 * q * (1 - q) + p * (1 - p)
    z = (p - slope * q - delta) / np.sqrt(noise)
    event: Any = np.argmax(z, axis=0)
    return Bet(event, guess[event, 0], guess[event, 1], np.max(z, axis=0))


def pay(
    above: Ints, trials: int, bet: Bet, slope: Floats, delta: Floats | float, outside: Any = None
) -> Floats:
    """Return `earned` for a round given as draws at or above each cut, shape [2, cuts]."""
    return earned(events(above, trials, outside)[bet.event], trials, bet, slope, delta)


def earned(
    hits: Ints, trials: Ints | int, bet: Bet, slope: Floats, delta: Floats | float
) -> Floats:
    """Return the ln of the payoffs of a bet on the guess and of one half-way to the claim.

    Shape [2, ε].

    Args:
        hits: counts of each event on the multiplied side and on the other, shape [ε, 2].
        trials: draws of the round on each side, equal because the proof is for pairs of draws.
        bet: chosen before the round.
        slope: e^ε, shape [ε].
        delta: δ of all of them, or of each.
    """
    outside = bet.p > slope * bet.q + delta
    q0, p0 = project(bet.q, bet.p, slope, delta)
    halfway = (bet.q + q0) / 2, (bet.p + p0) / 2
    q1, p1 = project(*halfway, slope, delta)
    q, p = np.stack([bet.q, halfway[0]]), np.stack([bet.p, halfway[1]])
    nearest = np.stack([q0, q1]), np.stack([p0, p1])
    paid = _log_ratio(hits[..., 1], trials, p, nearest[1])
    paid = paid + _log_ratio(hits[..., 0], trials, q, nearest[0])
    excess = trials * _excess((q, p), nearest, slope, delta)
    return np.where(outside & (excess < DEAR), paid - excess, 0.0)


def _excess(
    bet: tuple[Floats, Floats], base: tuple[Floats, Floats], slope: Floats, delta: Floats | float
) -> Floats:
    """Bound the logarithm by which a pair of draws is overpaid if a projection is inexact.

    The mean of what a pair pays, 1 + u + v + uv, is a quadratic function of q on the line, at most
    1 if the projection is exact. Otherwise the excess of its largest value is given back, so
    rounding in a projection costs evidence and never creates any.
    """
    (bet_q, bet_p), (q, p) = bet, base
    with np.errstate(all="ignore"):  # values without a bet may be anything
        u = slope * (bet_p - p) / (p * (1 - p))
        v = (bet_q - q) / (q * (1 - q))
        far = np.where(u * v < 0, -(u + v) / (2 * u * v), np.sign(u + v) * np.inf)
        far = np.clip(far, -q, np.minimum((1 - delta) / slope, 1.0) - q)
        return np.asarray(np.log1p(np.maximum((u + v) * far + u * v * far * far, 0.0)))


def _log_ratio(hits: Ints, trials: Ints | int, bet: Floats, base: Floats) -> Floats:
    paid = hits * np.log(bet / base) + (trials - hits) * np.log((1 - bet) / (1 - base))
    return np.asarray(paid, np.float64)
