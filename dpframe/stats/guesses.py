"""The exact test of right guesses about the canaries of one run, and a test of ranked guesses.

Each of m canaries is in the data by its own fair coin. A guesser sees the output and decides for r
canaries if they are in. The tests hold for every mechanism that satisfies the claim, however its
guesses depend on each other; docs/explanation/one-run.md has the proofs.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from dpframe.common.types import Floats, Ints
from dpframe.stats.roots import crossing

GROUPS = 16  # largest weight of ranked guesses
SINGLE = 48  # losses of a curve of which the best alone is sought first
NEAR = (0.3, 2.2)  # losses that get a price, over this best one
LOSSES = 28  # number of these losses
SCALES = tuple(2.0**power for power in (-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5))
"""Factors of the prices of equal guesses, of which the best serves ranked guesses."""
LEAST_MASSES = (1e-8, 1e-10)  # probability that the solver does not see; both if p is small
SMALL_P = 1e-4
LEAST_BUDGET = 1e-14  # a smaller δm/r gets no price, because the solver would round it
ROUNDING = 1e-12  # of differences in float64
RELATIVE = 1e-10  # of sums of products, because of ln Γ
LEAST_NU, HALVINGS = 1e-14, 30  # of the search for ν; its relative error is then below 1e-7


def guess_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the p-value of the claim of (ε, δ)-DP: the largest probability of v or more right.

    By symmetry the probabilities a_w of w right guesses describe the worst mechanism. They maximise
    Σ_{w ≥ v} a_w with Σ_w (a_w w/r − e^ε a_{w−1} (r − w + 1)/r)₊ ≤ δm/r. The extreme points are the
    laws of X ~ Bin(r, e^ε/(1 + e^ε)) given X ≥ j, which spend κ_j = Pr[X = j] j/(r Pr[X ≥ j]) and
    reach γ_j = min(1, Pr[X ≥ v]/Pr[X ≥ j]). So the largest probability is the least concave
    function above the points (κ_j, γ_j), taken at δm/r.

    Args:
        canaries: m.
        guesses: r ≤ m.
        correct: v ≤ r.
        epsilon: at least 0.
        delta: in [0, 1].
    """
    if correct <= 0 or delta >= 1:
        return 1.0
    if delta <= 0:
        return float(special.betainc(correct, guesses - correct + 1, special.expit(epsilon)))
    mass = _log_binomial(guesses, epsilon)
    tails = np.logaddexp.accumulate(mass[::-1])[::-1][: correct + 1]
    spent = np.arange(correct + 1) / guesses * np.exp(mass[: correct + 1] - tails)
    return _hull(spent, np.exp(tails[-1] - tails), delta * canaries / guesses)


def guess_epsilon(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """Return a lower limit of ε at δ: up to it every p-value is at most the error."""
    return crossing(
        lambda epsilon: guess_p_value(canaries, guesses, correct, epsilon, delta) - error
    )


def _log_binomial(n: int, epsilon: float) -> Floats:
    """Return ln Pr[Bin(n, e^ε/(1 + e^ε)) = w], w = 0 … n."""
    w, nothing = np.arange(n + 1, dtype=np.float64), math.log1p(math.exp(-epsilon))
    ways = special.gammaln(n + 1) - special.gammaln(w + 1) - special.gammaln(n - w + 1)
    return np.asarray(ways - w * nothing - (n - w) * (epsilon + nothing), np.float64)


def _hull(x: Floats, y: Floats, at: float) -> float:
    """Return the least concave function above points, ascending in both, at a place ≥ x[0]."""
    if at >= x[-1]:
        return float(y[-1])
    left = int(np.searchsorted(x, at, "right")) - 1
    right = left + 1
    while True:
        slope = float((y[right] - y[left]) / (x[right] - x[left]))
        above = y - slope * x
        best = int(np.argmax(above))
        if above[best] <= above[left] + ROUNDING * slope * x[right]:
            return min(1.0, float(above[best]) + slope * at)
        left, right = (best, right) if x[best] <= at else (left, best)


# Ranked guesses: the clearest canaries have larger weights.


def rank_cuts(guesses: int) -> Ints:
    """Return how many of n ranked guesses have a weight of at least 1, 2, … `GROUPS`; descending.

    The weights fall from `GROUPS` at rank 1 about as ln((n + 1)/rank).

    Args:
        guesses: n ≥ 1.
    """
    share = (np.arange(GROUPS) + 0.5) / GROUPS
    return np.minimum(guesses, np.floor((guesses + 1.0) ** (1 - share))).astype(np.int64)


def rank_p_value(
    canaries: int, cuts: Sequence[int], total: int, epsilon: float, delta: float
) -> float:
    """Return a p-value of the claim of (ε, δ)-DP for the sum of the weights of right guesses.

    Let T be the sum if guesses were right independently with probability q = e^ε/(1 + e^ε), c the
    largest weight, t the observed sum. For every width i ≥ 1 the probability of t or more is at
    most E min(1, (1 − (t − T)/i)₊) + min(1, c/i) δm/(1 + e^ε), and the p-value is the least of
    these.

    Args:
        canaries: m.
        cuts: number of guesses with a weight of at least 1, 2, …; descending.
        total: t, the sum of the weights of right guesses.
        epsilon: at least 0.
        delta: in [0, 1].
    """
    if total <= 0 or delta >= 1:
        return 1.0
    tails = np.cumsum(_law(cuts, epsilon)[::-1])[::-1]
    if delta <= 0:
        return min(1.0, float(tails[total]) * (1 + RELATIVE))
    i = np.arange(1, total + 1)
    reached = np.cumsum(tails[total:0:-1]) / i
    leaked = np.minimum(1.0, len(cuts) / i) * (delta * canaries * special.expit(-epsilon))
    return min(1.0, float((reached + leaked).min()) * (1 + RELATIVE))


def rank_epsilon(
    canaries: int, cuts: Sequence[int], total: int, delta: float, error: float
) -> float:
    """Return a lower limit of ε at δ: up to it every p-value is at most the error."""
    return crossing(lambda epsilon: rank_p_value(canaries, cuts, total, epsilon, delta) - error)


def _law(cuts: Sequence[int], epsilon: float) -> Floats:
    """Return the probabilities of the sum of weights if all guesses are independent."""
    law = np.ones(1)
    for weight, number in enumerate(-np.diff([*cuts, 0]), start=1):
        if number:
            spread = np.zeros(weight * int(number) + 1)
            spread[::weight] = np.exp(_log_binomial(int(number), epsilon))
            law = np.convolve(law, spread)
    return law


# Claims that are curves: many lines (ε, δ), of which each gets a price.


def curve_prices(
    canaries: int, guesses: int, correct: int, delta_at: Callable[[float], float]
) -> list[tuple[float, float]]:
    """Return losses ε with prices λ > 0 that make `priced_p_value` small.

    They are the dual solution of the linear programme of `guess_p_value` with the lines of a curve
    at `LOSSES` values of ε, restricted to numbers of right guesses near v. Any prices are valid.

    Args:
        canaries: m.
        guesses: r ≤ m.
        correct: v ≤ r.
        delta_at: δ(ε) of the claimed curve.
    """
    r, v = guesses, correct
    suggested = float(special.logit(min(v / r, 1 - 0.5 / r)))
    if suggested <= 0:
        return []
    alone = suggested * np.geomspace(0.02, 2.0, SINGLE)
    p_values = [guess_p_value(canaries, r, v, loss, delta_at(loss)) for loss in alone.tolist()]
    nearest, likely = float(alone[np.argmin(p_values)]), max(min(p_values), LEAST_BUDGET)
    losses = (np.linspace(*NEAR, LOSSES) * nearest).tolist()
    losses = losses[:: 1 + math.isqrt(r) // 50]  # the programme grows with √r
    budgets = [(loss, delta_at(loss) * canaries / r) for loss in losses]
    budgets = [(loss, budget) for loss, budget in budgets if LEAST_BUDGET < budget < 1]
    if not budgets:
        return []
    masses = LEAST_MASSES if likely < SMALL_P else LEAST_MASSES[:1]
    solutions = [_dual(r, v, nearest, likely, budgets, mass) for mass in masses]
    return min(solutions, key=lambda prices: priced_p_value(canaries, r, v, prices, delta_at))


def _dual(
    r: int,
    v: int,
    nearest: float,
    likely: float,
    budgets: Sequence[tuple[float, float]],
    least_mass: float,
) -> list[tuple[float, float]]:
    """Return the dual solution of the linear programme; [] if the solver finds none.

    Args:
        r: guesses.
        v: right guesses.
        nearest: the loss whose single line is best.
        likely: its p-value.
        budgets: losses of the lines, each with δm/r.
        least_mass: probability at both ends that is left out.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    # The unknowns are a_w over what is likely, so that the solver sees numbers near 1.
    w = np.arange(r + 1)
    log_scale = _log_binomial(r, nearest)
    log_scale[v:] += math.log(likely) - np.logaddexp.reduce(log_scale[v:])
    weighty = log_scale - np.where(w < v, 0.0, math.log(likely)) > math.log(least_mass)
    window = slice(int(np.argmax(weighty)), r + 1 - int(np.argmax(weighty[::-1])))
    w, log_scale = w[window], log_scale[window]
    high = w >= v
    n, pairs, scale = len(w), np.arange(len(w) - 1), np.exp(log_scale)
    right = w[1:] / r
    wrong = (r - w[:-1]) / r * np.exp(log_scale[:-1] - log_scale[1:])
    entries: list[tuple[Any, Any, Any]] = []  # rows, columns, values
    cells = len(budgets) * (n - 1)
    for k, (loss, budget) in enumerate(budgets):
        rows, excess = k * (n - 1) + pairs, n + k * (n - 1) + pairs
        entries += [
            (rows, pairs + 1, right),
            (rows, pairs, -math.exp(loss) * wrong),
            (rows, excess, np.full(n - 1, -1.0)),
            (np.full(n - 1, cells + k), excess, scale[1:] / budget),
        ]
    rows, columns, values = map(np.concatenate, zip(*entries, strict=True))
    limits: Any = csr_array((values, (rows, columns)), shape=(cells + len(budgets), n + cells))
    problem = {
        "c": np.concatenate([np.where(high, -scale / likely, 0.0), np.zeros(cells)]),
        "A_ub": limits,
        "b_ub": np.repeat([0.0, 1.0], [cells, len(budgets)]),
        "A_eq": np.concatenate([scale, np.zeros(cells)])[None],
        "b_eq": [1.0],
    }
    for method in ("highs", "highs-ipm"):
        solved: Any = linprog(**problem, method=method)
        if solved.status == 0:
            break
    else:
        return []
    prices = -solved.ineqlin.marginals[cells:] * likely
    return [
        (loss, float(price / budget))
        for (loss, budget), price in zip(budgets, prices, strict=True)
        if price > 0
    ]


def priced_p_value(
    canaries: int,
    guesses: int,
    correct: int,
    prices: Sequence[tuple[float, float]],
    delta_at: Callable[[float], float],
) -> float:
    """Return the p-value of a claimed curve that prices of its lines prove.

    For prices λ_k of the losses ε_k let φ*(s) be the largest s x − Σ λ_k (x − e^{ε_k})₊ with x ≥ 0
    and finite value, so s ≤ Σ λ_k. If ν, s_r, …, s_1 fulfil s_w ≥ (r/w)(1[w ≥ v] − ν) + (r/w − 1)
    φ*(s_{w+1}) and ν ≥ φ*(s_1), every mechanism that satisfies the claim has v or more right with
    probability at most ν + Σ λ_k δ(ε_k) m/r. The least ν is found by halving its logarithm.

    Args:
        canaries: m.
        guesses: r ≤ m.
        correct: v ≤ r.
        prices: pairs of ε_k ≥ 0 and λ_k > 0; [] proves nothing.
        delta_at: δ(ε) of the claimed curve.
    """
    if correct <= 0 or not prices:
        return 1.0
    ordered = sorted(prices)
    slopes = [math.exp(loss) for loss, _ in ordered]
    ends = np.cumsum([price for _, price in ordered]).tolist()
    paid = sum(price * delta_at(loss) for loss, price in ordered) * canaries / guesses
    low, high = math.log(LEAST_NU), 0.0  # ν = 1 fulfils all conditions
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fulfilled = _fulfils(guesses, correct, math.exp(middle), slopes, ends)
        low, high = (low, middle) if fulfilled else (middle, high)
    return min(1.0, math.exp(high) + paid + ROUNDING)


def _fulfils(r: int, v: int, nu: float, slopes: Sequence[float], ends: Sequence[float]) -> bool:
    """Return True if ν and the least s_r, …, s_1 fulfil the conditions of `priced_p_value`."""
    s = 0.0
    for w in range(r, -1, -1):
        # φ*(s): slope e^ε_k from the sum of the prices before the k-th to that with it.
        value = before = 0.0
        for slope, end in zip(slopes, ends, strict=True):
            if s <= before:
                break
            value += slope * (min(s, end) - before)
            before = end
        if w == 0:
            return value <= nu
        s = max(0.0, (r / w) * ((w >= v) - nu) + (r / w - 1) * value)
        if s > ends[-1]:
            return False
    raise AssertionError("the last condition returns")


def rank_prices(
    canaries: int, cuts: Sequence[int], total: int, delta_at: Callable[[float], float]
) -> list[tuple[float, float]]:
    """Return losses ε with prices λ > 0 that make `priced_rank_p_value` small.

    They are those of equal guesses with the same mean share of right ones and the same variance,
    times the best of `SCALES`. Any prices are valid.

    Args:
        canaries: m.
        cuts: number of guesses with a weight of at least 1, 2, …; descending.
        total: t, the sum of the weights of right guesses.
        delta_at: δ(ε) of the claimed curve.
    """
    odd = 2 * np.arange(len(cuts)) + 1
    number = max(1, round(sum(cuts) ** 2 / float(odd @ np.asarray(cuts))))  # (Σ w)²/Σ w²
    prices = curve_prices(canaries, number, round(total / sum(cuts) * number), delta_at)
    scaled = [[(loss, scale * price / number) for loss, price in prices] for scale in SCALES]
    return min(scaled, key=lambda each: priced_rank_p_value(canaries, cuts, total, each, delta_at))


def priced_rank_p_value(
    canaries: int,
    cuts: Sequence[int],
    total: int,
    prices: Sequence[tuple[float, float]],
    delta_at: Callable[[float], float],
) -> float:
    """Return the p-value of a claimed curve that prices of its lines prove for ranked guesses.

    Coins are revealed by descending weight c. V(s) = 1[s ≥ t] after the last; before each, V(s) is
    the largest π V(s + c) + (1 − π) V(s) − Σ λ_k (1 + e^{ε_k}) (π − q_k)₊ over π, with q_k =
    e^{ε_k}/(1 + e^{ε_k}). Then t or more has probability at most V(0) + m Σ λ_k δ(ε_k) at the
    first.

    Args:
        canaries: m.
        cuts: number of guesses with a weight of at least 1, 2, …; descending.
        total: t, the sum of the weights of right guesses.
        prices: pairs of ε_k ≥ 0 and λ_k > 0; [] proves nothing.
        delta_at: δ(ε) of the claimed curve.
    """
    if total <= 0 or not prices:
        return 1.0
    losses, costs = np.array(sorted(prices)).T
    thresholds = np.cumsum(costs * (1 + np.exp(losses)))[:, None]
    steps = np.diff(special.expit(losses), append=1.0)
    values = np.zeros(total + 1)
    values[total] = 1.0
    for weight, number in enumerate(-np.diff([*cuts, 0]).astype(int), start=1):
        beyond = np.minimum(np.arange(total + 1) + weight, total)
        for _ in range(number):
            gain = values[beyond] - values
            values = values + special.expit(losses[0]) * gain
            values += steps @ np.maximum(gain - thresholds, 0.0)
    paid = canaries * sum(price * delta_at(loss) for loss, price in prices)
    return min(1.0, float(values[0]) + paid + ROUNDING)
