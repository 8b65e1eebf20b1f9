"""Testing by betting: evidence against a claim that is valid at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import rel_entr

# Testing by betting: evidence against a claim that may be looked at at any time.
#
# Draws come in rounds. Before a round an event and a guess of its two probabilities are chosen
# from
# the rounds before; the round then multiplies the wealth by what the bet pays. If the claim is
# true,
# wealth stays a supermartingale, whatever is chosen, so that it exceeds 1/a at any time with
# probability a at most [Ville1939]; see [Shafer2021] for tests in terms of bets. Nothing is paid
# for
# thresholds, directions or looks, and no draw is set aside: what was bet on chooses the next
# event.
#
# A claim (ε, δ) is about every event S and both orders of D and D′: p ≤ e^ε q + δ for the
# probabilities p of S on one side and q on the other. Against one event the bet is the likelihood
# ratio of the guess (q̂, p̂) to its projection (q₀, p₀) on that half-plane, the point of it that
# is
# nearest in KL(p̂‖p) + KL(q̂‖q) (after [Turner2024]). The mean of a factor is (1 + u)(1 + v) with
# u + v ≤ 0 under the claim, because (u, v) = 0 is the line that supports the half-plane there; so
# it
# is at most ((2 + u + v)/2)² ≤ 1.


if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

STEPS = 10
"""Newton's steps after a closed solution, which rounding leaves inexact where it is small."""

CLOSE = 1e-12
"""Of a step, as a share of what it leads to: the next one would be its square."""

DEAR = 0.1
"""A round is not bet on if what rounding does to the bet costs more, as a logarithm."""

TINY = 1e-300


def project(q: Floats, p: Floats, slope: Floats, delta: Floats | float) -> tuple[Floats, Floats]:
    """The nearest point of the line p = e^ε q + δ to a guess above it.

    Args:
        q: guessed probability on the side that is multiplied, in (0, 1).
        p: on the other side, in (0, 1), above the line.
        slope: e^ε; broadcasts with q and p.
        delta: δ in [0, 1); broadcasts too.

    Returns:
        (q₀, p₀), the minimiser of KL(p‖p₀) + KL(q‖q₀) on the line.
    """
    q, p, slope, delta = np.broadcast_arrays(q, p, slope, delta)
    most = (1 - delta) / slope
    # Nearer to the line in both coordinates: q₀ lies between q and where p meets the line.
    ends = np.minimum(q, most), np.minimum(np.maximum((p - delta) / slope, 0), most)
    low, high = np.minimum(*ends), np.maximum(*ends)
    # Exact where δ = 0, which leaves a quadratic equation.
    b = slope + 1 + slope * q + p
    # The discriminant, b² − 8 e^ε (p + q), as a sum: next to q = p = 1 nothing of it would be left.
    apart = (slope - 1) * (1 + q) + (q - p)
    x = 2 * (p + q) / (b + np.sqrt(apart * apart + 4 * slope * (1 - q) * (1 - p)))
    if np.any(delta):
        x = np.where(delta > 0, _cubic(q, p, slope, delta) / slope, x)
        close = delta == 0
        for _ in range(STEPS):
            x = np.minimum(np.maximum(x, low), high)
            y = slope * x + delta
            one, two = slope * x * (1 - x), y * (1 - y)
            dx, dy = x - q, y - p
            rise = dy * one + dx * two
            steep = slope * (one + dy * (1 - 2 * x) + dx * (1 - 2 * y)) + two
            step = np.where(close, 0.0, rise / np.where(steep > 0, steep, np.inf))
            x = x - step
            # Who is there stays there: what is found does not depend on who else is looked at.
            close |= np.abs(step) <= CLOSE * x
            if close.all():
                break
    nearest = np.minimum(np.maximum(x, low), high)
    return nearest, np.minimum(slope * nearest + delta, 1 - 1e-16)


def _cubic(q: Floats, p: Floats, slope: Floats, delta: Floats) -> Floats:
    """e^ε q₀ from where the derivative of the distance is 0, multiplied by its denominators.

    Of the three roots, which are all real, one is negative and one is beyond p₀ = 1.
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


class Evidence(NamedTuple):
    """What bets against each of several ε have earned."""

    above: Ints
    """Draws at or above each cut in the rounds so far, shape [2, cuts]: on D, on D′."""
    trials: int
    """Draws so far, on each side."""
    log_wealth: Floats
    """Of each way to guess, against each ε, shape [2, ε]."""
    best: Floats
    """Largest logarithm of their mean so far, shape [ε]."""


def nothing(cuts: int, epsilons: int) -> Evidence:
    """Before the first round: a wealth of 1 against every ε."""
    zeros = np.zeros((2, epsilons))
    return Evidence(np.zeros((2, cuts), np.int64), 0, zeros, np.zeros(epsilons))


def played(
    evidence: Evidence, above: Ints, trials: int, epsilons: Floats, delta: float
) -> Evidence:
    """Bets on one round, and keeps its draws for what is chosen next.

    Args:
        evidence: of the rounds before.
        above: draws of this round at or above each cut, shape [2, cuts].
        trials: draws of this round on each side: the proof is for pairs of draws.
        epsilons: what is bet against, shape [ε].
        delta: δ of all of them.
    """
    log_wealth, best = evidence.log_wealth, evidence.best
    if evidence.trials:
        slope = np.exp(np.asarray(epsilons, np.float64))
        bet = choose(evidence.above, evidence.trials, slope, delta)
        log_wealth = log_wealth + pay(above, trials, bet, slope, delta)
        best = np.maximum(best, np.logaddexp(*log_wealth) - np.log(2))
    return Evidence(evidence.above + above, evidence.trials + trials, log_wealth, best)


def refuted(evidence: Evidence, error: float) -> npt.NDArray[np.bool_]:
    """Which ε are refuted at an error level, at whatever time this is asked, shape [ε]."""
    return np.asarray(evidence.best >= -np.log(error))


def lower_bound(evidence: Evidence, epsilons: Floats, error: float) -> float:
    """The loss is at least this, with probability 1 − error at all times together.

    Args:
        evidence: against each ε of the grid.
        epsilons: ascending, shape [ε].
        error: the level.

    Returns:
        The last ε below which every one of the grid is refuted; 0 if the first is not.
    """
    kept = np.flatnonzero(~refuted(evidence, error))
    first = int(kept[0]) if len(kept) else len(epsilons)
    return float(max(0.0, epsilons[first - 1])) if first else 0.0


class Bet(NamedTuple):
    """What is bet on in a round, against each ε; all of shape [ε]."""

    event: Ints
    """Which one of `events`."""
    q: Floats
    """Its guessed probability on the side that is multiplied by e^ε."""
    p: Floats
    """On the other side; a guess that the claim allows is not bet on."""
    z: Floats
    """How far the guess lies outside of the claim: in standard errors, once multiplied by the
    square root of the number of draws that it was guessed from."""


def events(above: Ints, trials: Ints | int) -> Ints:
    """Counts of every event, shape [..., 4 cuts, 2]: on the multiplied side, on the other.

    An event is a cut with what is above or below it, said of D′ (D is multiplied) or of D.

    Args:
        above: draws at or above each cut, shape [..., 2, cuts]: on D, on D′.
        trials: draws on each side, shape [...].
    """
    below = np.asarray(trials)[..., None, None] - above
    said_of_one = np.swapaxes(np.concatenate([above, below], axis=-1), -1, -2)
    return np.concatenate([said_of_one, said_of_one[..., ::-1]], axis=-2)


def choose(above: Ints, trials: int, slope: Floats, delta: Floats | float) -> Bet:
    """The event against each ε that lies farthest outside in standard errors, and its guess.

    Args:
        above: of all that was drawn before the round that is bet on, shape [2, cuts].
        trials: draws of it on each side.
        slope: e^ε, shape [ε].
        delta: δ of all of them, or of each.
    """
    guess = (events(above, trials) + 0.5) / (trials + 1)
    q, p = guess[:, 0, None], guess[:, 1, None]
    noise = slope**2 * q * (1 - q) + p * (1 - p)
    z = (p - slope * q - delta) / np.sqrt(noise)
    event: Any = np.argmax(z, axis=0)
    return Bet(event, guess[event, 0], guess[event, 1], np.max(z, axis=0))


def pay(above: Ints, trials: int, bet: Bet, slope: Floats, delta: Floats | float) -> Floats:
    """What two bets earn in a round: one on the guess, one half-way from it to the claim.

    Args:
        above: of the round, shape [2, cuts].
        trials: draws of the round on each side: the proof is for pairs of draws.
        bet: chosen before.
        slope: e^ε, shape [ε].
        delta: δ of all of them, or of each.

    Returns:
        Logarithms of the factors, shape [2, ε].
    """
    return earned(events(above, trials)[bet.event], trials, bet, slope, delta)


def earned(
    hits: Ints, trials: Ints | int, bet: Bet, slope: Floats, delta: Floats | float
) -> Floats:
    """What two bets earn in a round, given how often their events happened.

    Args:
        hits: on the multiplied side and on the other, shape [ε, 2].
        trials: draws of the round on each side.
        bet: chosen before.
        slope: e^ε, shape [ε].
        delta: δ of all of them, or of each.

    Returns:
        Logarithms of the factors, shape [2, ε].
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
    """By how much a point that is not quite the nearest lets a pair of draws pay too much.

    The mean of what a pair pays, 1 + u + v + uv, is a quadratic function of q on the line; its
    largest value there, less 1, is 0 at the nearest point, and is given back elsewhere. So what
    rounding does to a projection costs evidence, and makes none.
    """
    (bet_q, bet_p), (q, p) = bet, base
    with np.errstate(all="ignore"):  # what is not bet on may be anything
        u = slope * (bet_p - p) / (p * (1 - p))
        v = (bet_q - q) / (q * (1 - q))
        far = np.where(u * v < 0, -(u + v) / (2 * u * v), np.sign(u + v) * np.inf)
        far = np.clip(far, -q, np.minimum((1 - delta) / slope, 1.0) - q)
        return np.asarray(np.log1p(np.maximum((u + v) * far + u * v * far * far, 0.0)))


def _log_ratio(hits: Ints, trials: Ints | int, bet: Floats, base: Floats) -> Floats:
    paid = hits * np.log(bet / base) + (trials - hits) * np.log((1 - bet) / (1 - base))
    return np.asarray(paid, np.float64)


# A bound from bets: which ε of a fixed grid the wealth refutes.
#
# Bets against ε are bets against every smaller ε as well, whose claims allow less. So a grid can
# be
# coarse and fine at once: each point of the fine one is bet against by its own bets and, with a
# hundredth of the wealth, by those against the end of its part of the coarse one. Where these
# alone
# earn enough the whole part is refuted, and the fine points in it need not be looked at.


if TYPE_CHECKING:
    import numpy.typing as npt

    BettingBoundFloats = npt.NDArray[np.float64]
    BettingBoundInts = npt.NDArray[np.int64]

COARSE = np.concatenate([[0.0], 0.01 * 1.08 ** np.arange(108)])
"""ε from 0 to 38: ends of the parts."""

FINE = 64
"""Points of each part: a bound is rounded down by about a thousandth of itself."""

SHARED = 0.01
"""Share of the wealth against a fine point that bets against the end of its part."""

MOST_AT_ONCE = 2_000_000
"""Numbers of events, rounds and ε that are looked at together."""


class History(NamedTuple):
    """What came before each round, and what came in it."""

    before: BettingBoundInts
    """Draws at or above each cut before it, shape [rounds, 2, cuts]."""
    drawn: BettingBoundInts
    """Draws before it on each side, shape [rounds]."""
    above: BettingBoundInts
    """Those of the round, shape [rounds, 2, cuts]."""
    trials: BettingBoundInts
    """Draws of the round, shape [rounds]."""


def history(rounds: list[tuple[BettingBoundInts, int]]) -> History:
    """Of rounds in order; nothing is bet on the first.

    Args:
        rounds: draws at or above each cut, shape [2, cuts], and how many draws on each side.
    """
    above = np.stack([one for one, _ in rounds]).astype(np.int64)
    trials = np.array([size for _, size in rounds], np.int64)
    before = np.cumsum(above, axis=0)[:-1]
    return History(before, np.cumsum(trials)[:-1], above[1:], trials[1:])


def best_wealth(
    past: History, epsilons: BettingBoundFloats, delta: float
) -> tuple[BettingBoundFloats, BettingBoundFloats]:
    """Wealth against each ε over time, as `betting.played` earns it.

    Returns:
        Logarithms, shape [rounds, ε], and the same of the largest so far.
    """
    path = _path(past, epsilons, delta)
    return path, np.maximum.accumulate(path, axis=0)


def bound(past: History, delta: float, error: float) -> float:
    """The loss is at least this, with probability 1 − error at all times together."""
    if not len(past.trials):
        return 0.0
    wanted = -np.log(error)
    # Against a loss that no round was told of nothing is bet.
    ends = COARSE[: np.searchsorted(COARSE, _largest_loss(past, delta)) + 2]
    coarse = _path(past, ends, delta)
    surely = coarse.max(axis=0) + np.log(SHARED) >= wanted
    if coarse[:, 0].max() < wanted:
        return 0.0
    found = 0.0
    for part in range(1, len(ends)):
        if surely[part]:
            found = ends[part]
            continue
        points = np.linspace(ends[part - 1], ends[part], FINE + 1)[1:]
        own = _path(past, points, delta)
        mixed = np.logaddexp(own + np.log1p(-SHARED), coarse[:, part, None] + np.log(SHARED))
        kept = np.flatnonzero(mixed.max(axis=0) < wanted)
        if len(kept):
            return float(points[kept[0] - 1]) if kept[0] else float(found)
        found = ends[part]
    return float(found)


def _largest_loss(past: History, delta: float) -> float:
    """The largest that the draws before any round suggest of any event."""
    guess = _guesses(past)
    excess = np.maximum(guess[..., 1] - delta, 1e-300)
    return float(np.log(excess / guess[..., 0]).max())


def _path(past: History, epsilons: BettingBoundFloats, delta: float) -> BettingBoundFloats:
    slope = np.exp(epsilons)
    cuts = past.above.shape[2]
    size = max(1, MOST_AT_ONCE // (4 * cuts * len(slope)))
    blocks = [
        _factors(History(*(part[at : at + size] for part in past)), slope, delta)
        for at in range(0, len(past.trials), size)
    ]
    log_wealth = np.cumsum(np.concatenate(blocks, axis=1), axis=1)
    return np.asarray(np.logaddexp(*log_wealth) - np.log(2), np.float64)


def suspected(
    past: History, slope: BettingBoundFloats, delta: BettingBoundFloats | float
) -> tuple[BettingBoundFloats, BettingBoundFloats]:
    """What the draws before each round say of every event, as `betting.choose` sees it.

    Args:
        past: the rounds.
        slope: e^ε, shape [ε].
        delta: δ of all of them, or of each.

    Returns:
        The guesses, shape [rounds, events, 2], and by how many standard errors each lies outside of
        each claim, shape [rounds, events, ε].
    """
    guess = _guesses(past)
    q, p = guess[..., 0, None], guess[..., 1, None]
    noise = slope**2 * (q * (1 - q)) + p * (1 - p)
    return guess, np.asarray((p - slope * q - delta) / np.sqrt(noise), np.float64)


def _guesses(past: History) -> BettingBoundFloats:
    return np.asarray((events(past.before, past.drawn) + 0.5) / (past.drawn[:, None, None] + 1))


def _factors(past: History, slope: BettingBoundFloats, delta: float) -> BettingBoundFloats:
    """Logarithms of what rounds pay, shape [2, rounds, ε]."""
    guess, z = suspected(past, slope, delta)
    event = np.argmax(z, axis=1)
    rounds = np.arange(len(event))[:, None]
    hits = events(past.above, past.trials)[rounds, event]
    bet = Bet(event, guess[rounds, event, 0], guess[rounds, event, 1], np.max(z, axis=1))
    return earned(hits, past.trials[:, None], bet, slope, delta)


# How fast bets against a claim grow where the truth is known.


if TYPE_CHECKING:
    import numpy.typing as npt

    GrowthRateFloats = npt.NDArray[np.float64]


def growth_rate(
    q: GrowthRateFloats, p: GrowthRateFloats, slope: GrowthRateFloats, delta: GrowthRateFloats
) -> float:
    """Largest expected growth of ln of the wealth with each pair of draws.

    A bet on the truth itself grows by the distance of the truth to the claim, KL(p‖p₀) + KL(q‖q₀)
    at the nearest point (q₀, p₀) that the claim allows.

    Args:
        q: probability of each event on the side that is multiplied, shape [events].
        p: on the other side.
        slope: e^ε of each half-plane p ≤ e^ε q + δ that the claim implies, shape [lines].
        delta: its δ.

    Returns:
        0 where no event lies outside.
    """
    q, p = np.clip(q, 1e-15, 1 - 1e-15)[:, None], np.clip(p, 1e-15, 1 - 1e-15)[:, None]
    q0, p0 = project(q, p, slope, delta)
    distance = rel_entr(p, p0) + rel_entr(1 - p, 1 - p0) + rel_entr(q, q0) + rel_entr(1 - q, 1 - q0)
    return float(np.max(np.where(p > slope * q + delta, distance, 0.0), initial=0.0))
