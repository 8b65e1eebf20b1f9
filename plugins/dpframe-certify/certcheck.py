"""Check a certificate of a dpframe audit without dpframe: `python certcheck.py CERT.json`.

Exit code: 0 if every conclusion was recomputed, and what is stated twice agrees; 1 if the file is
refused; 2 if it cannot be read; 3 if a cell failed, or something is MISSING, DIFFERS or was NOT
CHECKED. A claim whose epsilon is not its mechanism's is UNLIKE: only the mechanism's code tells why
(two steps of epsilon/2 each, say), so ask. One that was made so afterwards DIFFERS.
Names, versions and labels are free text, and a signature is checked by its own program.

Bounds and verdicts follow from counts by the theorems below, rounded outwards; none shows privacy.
It cannot check that draws are independent, or that events and weights were fixed before them.
With probability 1 - a the rates (x, y) = (FPR, FNR) of an event lie in a region. A claim is wrong
if y < 1 - delta(eps) - e^eps x for an eps, throughout (Dong, Roth, Su 2022). Terms, s a share of a:
clopper-pearson (k, n, k', n', s): Pr[Bin(n, x) <= k] >= as/2 and Pr[Bin(n', y) <= k'] >= as/2.
joint (k, n, t, n', w, s): z, z' < C and w z + sqrt(1 - w^2) z' < D; Pr[N > C] = as/10, Pr[N > D] =
  8as/10, Pr[N > z] = Pr[Bin(n, x) <= k], Pr[N > z'] = Pr[Bin(n', 1 - y) >= t] (Liptak 1958).
  The design fixes (r, n, n', w, s): k = r - 1 beyond the rank r; with r = 0 the event is fixed.
  A weight of 0 stands for an exact test, as below, at as.
unconditional (k, n, k', n', s): .99a < Pr[as much loss is shown], on a grid of rates; with two
  terms, each the reverse of the other, by either (Boschloo 1970). Or clopper-pearson at as/100.
total-variation (k, n, t, n', b): rates lie within sqrt(b/n)/2 + sqrt(ln(2/a)/(2n)) (Canonne 2020).
one-run (m, r, v, h, s), h = 0: with X from Bin(r, e^eps/(1 + e^eps)) the least concave function
  above the points (Pr[X = j] j/r, Pr[X >= v])/Pr[X >= j], j = 0 to v, at delta m/r, is <= as.
  h > 0: guesses have ranks 1 to h, of which floor((h + 1)^(1 - (l - 1/2)/16)) have a weight >= l,
  and v is the sum of weights. Curves are tested at all DELTA, and with prices (term, eps, price),
  which are in the design (dpframe, docs/explanation/one-run.md).
betting (b, w, t, k, k', g, h, s): in round t, k draws from D and k' from D' had weights g, h
  against the bound (b = 0), the claim (1) or it with rates raised (2). Wealth, the sum over w of
  s prod g^k h^k', has mean <= 1 if E g + E h <= 2 there; 1/a rejects (Ville 1939).
"""

import hashlib
import json
import math
import sys
import tomllib
from collections import Counter
from contextlib import suppress
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, setcontext
from functools import lru_cache, reduce
from itertools import accumulate, groupby, pairwise
from operator import itemgetter, mul
from pathlib import Path
from statistics import NormalDist
from typing import Any

setcontext(Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX))
ZERO, ONE, OUT, CLOSE = map(Decimal, ("0", "1", "1e-25", "1e-6"))  # CLOSE is for stated bounds
NORMAL, DP, MARGIN = NormalDist(), ("epsilon", "delta"), 1e-12  # MARGIN is for floats
CURVES = {"bound": DP, "pure-dp": DP, "approx-dp": DP, "gaussian-dp": ("mu",)}
CURVES["subsampled-gaussian-dp"] = ("noise_multiplier", "sampling_probability")
DELTA = [10.0**-n for n in range(13)] + [3e-5, 3e-4, 3e-3, 0.02, 0.05] + [n / 10 for n in range(10)]
VERDICTS = ("violated", "consistent", "inconclusive")
DEFAULTS = {"confidence": 0.95, "multiplicity": "holm", "seed": 0, "repeats": 1}  # of a spec
MOST_BYTES = 10**9
DESIGN = {"betting": (8, 5, (1, 7)), "joint": (6, 4, (1, 3, 4, 5))}  # fields, whole ones, fixed
DESIGN["one-run"] = 5, 4, (0, 1, 3, 4)
BINOMIAL = "clopper-pearson", "unconditional", "total-variation"
DESIGN |= dict.fromkeys(BINOMIAL, (5, 4, (1, 3, 4)))


def must(right: Any, why: str) -> None:
    """Refuse the certificate if something is not right."""
    if not right:
        raise ValueError(why)


@lru_cache(4096)
def ln_factorial(n: int) -> Decimal:
    """Return ln n! - ln(2 pi)/2 by Stirling's series of m!/(m (m - 1) ... (n + 1))."""
    m, terms = n + 256, ((1, 12), (3, -360), (5, 1260), (7, -1680), (9, 1188))
    series = sum(ONE / Decimal(divisor * m**power) for power, divisor in terms) - m
    return (m + ONE / 2) * Decimal(m).ln() + series - Decimal(math.perm(m, 256)).ln()


@lru_cache(64)
def chance(n: int, k: int, p: Decimal) -> Decimal:
    """Return Pr[Bin(n, p) = k]."""
    log = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k) + ln_factorial(0)
    return (log + k * p.ln() + (n - k) * (1 - p).ln()).exp()


def tail(n: int, k: int, p: Decimal) -> tuple[Decimal, Decimal]:
    """Return decimals around Pr[Bin(n, p) >= k], p in (0, 1), k from 1 to n."""
    if (n - k) * p >= (k + 1) * (1 - p):  # k is below the mean
        return tuple(1 - each for each in tail(n, n - k + 1, 1 - p)[::-1])  # type: ignore
    odds, first, up, down = p / (1 - p), chance(n, k, p), (ZERO, ONE), (ONE, ONE)
    for m in range(1, n - k + 2):  # first/(1 - c_1/(1 + d_1/(1 - c_2/...))) (Uspensky 1937)
        j = k + 2 * m
        c = odds * ((n - k - m + 1) * (k + m - 1)) / ((j - 2) * (j - 1))
        d = odds * (m * (n + m)) / ((j - 1) * j)
        up, down = ((b, b - c * a) for a, b in (up, down))
        low, high = sorted(first * a / b for a, b in zip(up, down, strict=True))
        if (high - low) * 10**13 < low:
            break
        up, down = ((b, b + d * a) for a, b in (up, down))
    return low * (1 - OUT), high * (1 + OUT)


@lru_cache(4096)
def limit(side: int, k: int, n: int, level: Decimal) -> Decimal:
    """Return a number proved to be above U(k, n, level) (side 1) or below (-1); near it (0)."""
    if k >= n:
        return ONE
    if side:
        x = limit(0, k, n, level)
        place = (x + side * min(x, 1 - x) * Decimal(10) ** power for power in range(-12, 0))
        proved = (p for p in place if (tail(n, n - k, 1 - p)[side > 0] - level) * side <= 0)
        return next(proved, Decimal(max(side, 0)))
    z, c, step = Decimal(-NORMAL.inv_cdf(max(float(level), 1e-300))), k + ONE / 2, ONE
    x = (c + z * z / 2 + z * (c * (1 - c / n) + z * z / 4).sqrt()) / (n + z * z)  # Wilson 1927
    while abs(step) > x * max((1 - x) / Decimal(n * 10**7).sqrt(), ONE / 10**13):  # Halley
        cdf, density = tail(n, n - k, 1 - x)[0], chance(n, n - k, 1 - x)
        slope, off = (n - k) / (1 - x) * density / cdf, (cdf / level).ln(Context(prec=20))
        step = off / max(slope + off * (slope + k / x - (n - k - 1) / (1 - x)) / 2, slope / 2)
        x = min(max(x + step, x / 8), (7 + x) / 8)
    return x


def normal_tail(z: float) -> Decimal:
    """Return Pr[N > z], to 2e-13 of it or of its complement for |z| < 30."""
    return 1 - normal_tail(-z) if z < 0 else Decimal(math.erfc(z / math.sqrt(2))) / 2


def region(theorem: str, term: Any, a: Decimal, side: int) -> list[tuple[Any, Any]]:
    """Return corners (x, y) of boxes that cover a region, rounded outwards (1) or inwards (-1)."""
    k, n, j, n_true, *_, share = term
    if theorem == "total-variation":
        far = Decimal(share).sqrt() / 2 + ((2 / a).ln() / 2).sqrt() + side * OUT
        return [tuple((c + far * Decimal(t).sqrt()) / t for c, t in ((k, n), (n_true - j, n_true)))]
    own = min(a * share, ONE)
    if theorem == "clopper-pearson":
        return [((k, n, own / 2), (j, n_true, own / 2))]
    z = [-NORMAL.inv_cdf(float(own * part) / 10) for part in (1, 8)]
    cap, critical = (each + side * (abs(each) + 1) * MARGIN for each in z)
    must((own - 2 * normal_tail(cap) - normal_tail(critical)) * side >= 0, "no region is proved")
    w, v = float(term[4]), math.sqrt(1 - float(term[4]) ** 2)
    first = max(min((critical - v * cap) / w, cap), -8.0)
    z = [first + (cap - first) * step / 64 for step in range(65)]
    other = [cap if each == -8 else min((critical - w * each) / v, cap) for each in z]
    x, y = ([normal_tail(p + side * 1e-13 * (abs(p) + 1)) for p in both] for both in (z[1:], other))
    return [((k, n, one), (n_true - j, n_true, two)) for one, two in zip(x, y, strict=False)]


@lru_cache(4096)
def binomial(n: int, rate: float) -> list[float]:
    """Return Pr[Bin(n, rate) = k], k = 0 to n."""
    if rate in (0, 1):
        return [float(k == n * rate) for k in range(n + 1)]
    return [*map(math.exp, log_binomial(n, math.log(rate) - math.log1p(-rate)))]


@lru_cache(4096)
def at_most(n: int, rate: float) -> list[float]:
    """Return Pr[Bin(n, rate) <= k], k = 0 to n, and 0 for k = -1, at the end."""
    return [*accumulate(binomial(n, rate)), 0.0]


@lru_cache(256)
def as_extreme(k: int, n: int, j: int, t: int, ways: int, delta: float, level: Decimal) -> Any:
    """Return the most false negatives at 0 to n false positives that show as much loss; -1: none.

    The loss is a lower limit of ln((TPR - delta)/FPR), or that of the complement (Zou 2008).
    """
    level = min(level, ONE / 2)
    upper = [[float(limit(0, i, size, level)) for i in range(size + 1)] for size in (n, t)]

    def loss(x: int, n: int, most: float, y: int, t: int, missed: float) -> float:
        if 1 - missed <= delta:
            return -math.inf
        tpr, fpr = math.log((t - y) / t - delta), math.log((x + 0.5) / (n + 1))
        return tpr - fpr - math.hypot(tpr - math.log(1 - missed - delta), math.log(most) - fpr)

    def shown(x: int, y: int) -> float:
        both = (x, n, upper[0][x]), (y, t, upper[1][y])
        return max(loss(*one, *other) for one, other in (both, both[::-1]))

    seen = max(shown(k, j), shown(n - k, t - j) if ways > 1 else -math.inf) - 1e-9
    found, y = list[int](), t
    for x in range(n + 1):
        while y >= 0 and shown(x, y) < seen:
            y -= 1
        found.append(y)
    return itemgetter(*found, -1)


def together(term: Any, ways: int, one: Any, a: Decimal, claim: Any, side: int) -> bool:
    """Return True if no rates of a claim show as much loss with a probability above a."""
    k, n, j, t, share = term
    must(max(n, t) <= 1000, "its outcomes are too many to enumerate")
    level, delta = share * (1 - one["estimate"]["confidence"]), float(one["estimate"]["delta"])
    most = as_extreme(k, n, j, t, ways, delta, level)
    size = math.ceil(math.pi * math.sqrt(max(n, t)) / 0.08) + 1
    rates = [math.sin(math.pi / 2 * i / size) ** 2 for i in range(size + 1)]

    def chance_at(i: int, j: int) -> float:
        return float(sum(map(mul, binomial(n, rates[i]), most(at_most(t, rates[j])))))

    j = size
    for i in range(size):  # a cell is known by its least rates, at which the chance is largest
        while j and gap(claim, (Decimal(rates[i + 1]), Decimal(rates[j])), side) <= 0:
            j -= 1
        chances = chance_at(i, j) + (chance_at(size - 1 - i, i) if ways > 1 else 0)
        if chances * (1 + 1e-9) + 1e-36 > a * share:
            return False
    return True


def delta_at(curve: Any, epsilon: float) -> float:
    """Return delta(epsilon) of a claim or a bound (Balle, Wang 2018, theorem 8)."""
    kind, p, q = curve[0], *map(float, curve[1:])
    if CURVES[kind] is DP:
        shrunk = math.exp(min(epsilon - p, 0)) * (1 + math.exp(-epsilon)) / (1 + math.exp(-p))
        return q if epsilon >= p else max(q, 1 - (1 - q) * shrunk)
    more = math.log1p(math.expm1(epsilon) / q)
    low, high = (float(normal_tail(more / max(p, 1e-300) + z * p / 2)) for z in (1, -1))
    return q * (high - math.exp(more) * low)


def gap(claim: Any, corner: tuple[Any, Any], side: int) -> Any:
    """Return how far a corner lies below the tangent of a curve there."""
    (kind, loss, q), slack = claim
    x, y = sorted(min((limit(side, *e) if type(e) is tuple else e) + slack, ONE) for e in corner)
    if CURVES[kind] is not DP:
        more = -loss * (NORMAL.inv_cdf(max(min(float(x), 1 - 1e-16), 1e-300)) + loss / 2)
        loss = math.log1p(q * math.expm1(min(max(more, 0), 700)))
    d = delta_at(claim[0], loss) + side * MARGIN / 10
    return max(1 - Decimal(d) - Decimal(loss).exp() * x, ZERO) - y - side * OUT


def rejected(one: Any, found: Any, a: Decimal, claim: Any, side: int) -> bool:
    """Prove that possible terms reject a claim at a level (side 1), or that they do not (-1)."""
    theorem, terms, evidence = found["theorem"], found["terms"], one["estimate"]["evidence"]
    bets, guesses, bins = (theorem.startswith(it) for it in ("bet", "one-run", "total-variation"))
    (size, ints, fixed), trials = DESIGN[theorem], sorted(one["trials"])
    for term in terms:
        (j, k, t, n), whole, rest = term[:4], term[:ints], term[ints:]
        own = {*map(type, whole)} == {int} and {*map(type, rest)} <= {int, Decimal}
        own = own and min(whole) >= 0 <= rest[0] and max(whole) <= 10**12
        own = own and min(rest[theorem == "joint" :]) > 0  # a weight of 0 is an exact test
        order = j <= k and t <= n and sorted((k, n)) == trials
        if guesses:
            order = k <= j <= 10**6 and not math.gcd(j, k) % sum(trials)
            order = order and t <= k * (16 if n else 1) and (n == 0 or k % n == 0)
        must(own and (order or bets) and len(term) == size, f"{one['id']}: odd terms")
    if theorem == "joint":
        of_ranks(evidence["design"], evidence["terms"])
        of_ranks(evidence["design"], terms)
    both = ([tuple(t[at] for at in fixed) for t in each] for each in (evidence["terms"], terms))
    run, other = (Counter({*each} if bins or bets else each) for each in both)
    spent = sum(number * (bins or part[-1]) for part, number in (run | other).items())
    whole = theorem in ("joint", "betting") or (run == other and spent >= 1 - CLOSE)
    must(whole and theorem == evidence["theorem"] and spent <= 1 + CLOSE, "its design is another")
    if bets or guesses:
        refuted = (
            by_bets(one, terms, a, claim, side) if bets else by_guesses(one, found, a, claim, side)
        )
        return refuted == (side > 0)
    if theorem == "unconditional":
        k, n, j, t, share = terms[0]
        whole = [(k, n, j, t, share), (n - k, n, t - j, t, share)][: len(terms)]
        right = whole == [*map(tuple, terms)] and share == ONE / len(terms)
        must(right, "its events are others")
        if together((*terms[0][:4], Decimal("0.99")), len(terms), one, a, claim, side):
            return side > 0
        terms, theorem = [(*t[:4], t[4] / 100) for t in terms], "clopper-pearson"
    below = (
        together((*t[:2], t[3] - t[2], t[3], t[5]), 1, one, a, claim, side)
        if theorem == "joint" and not t[4]
        else all(gap(claim, at, side) > 0 for at in region(theorem, t, a, side))
        for t in terms
    )
    return any(below) == (side > 0)


def of_ranks(design: Any, terms: Any) -> None:
    """Refuse counts of events that are not in a design: k is one below the rank, if it has one."""
    right = all(len(row) == 5 and {*map(type, row[:3])} == {int} and row[0] >= 0 for row in design)
    must(right and sum(row[4] for row in design) <= 1 + CLOSE, "its design is impossible")
    left = Counter(map(tuple, design))
    for k, n, _, n_true, *rest in terms:
        rows = ((rank, n, n_true, *rest) for rank in (k + 1, 0))
        known = [row for row in rows if left[row] > 0]
        must(known, "its counts are not those of its ranks")
        left[known[0]] -= 1


def by_guesses(one: Any, found: Any, a: Decimal, claim: Any, side: int) -> bool:
    """Return True if right guesses in one run reject a claim at a loss."""
    (curve, raised), terms = claim, found["terms"]
    exact = CURVES[curve[0]] is DP
    lines, at = [curve[1:]] * exact, float(one["estimate"]["delta"])
    for d in DELTA * (not exact) + [at] * (at > curve[2] * exact):  # bit by bit
        x = reduce(lambda x, n: x + (delta_at(curve, x + 0.5**n) > d) * 0.5**n, range(-5, 51), 0.0)
        lines.append((x, max(d, delta_at(curve, x))))

    def rare(loss: float) -> float:
        return min(1.0, delta_at(curve, loss) + float(raised) * (1 + math.exp(loss)))

    refuted = False
    for place, (m, r, v, h, share) in enumerate(terms):
        own = min(a * share, ONE) * (1 - side * CLOSE / 1000)
        for epsilon, delta in lines:
            low = Decimal(delta) + raised * (1 + Decimal(epsilon).exp())
            if v and low < 1:
                law = rank_p if h else guess_p
                refuted |= law(m, r, v, h, float(epsilon), float(low)) <= own
        rows = [] if exact else found.get("design") or []
        prices = sorted((float(e), float(each)) for at, e, each in rows if at == place)
        must(all(e >= 0 < each for e, each in prices), "its prices are impossible")
        if prices and v:
            refuted |= priced(m, r, v, h, prices, rare) <= own
    return refuted


def log_binomial(n: int, epsilon: float) -> list[float]:
    """Return ln Pr[Bin(n, e^eps/(1 + e^eps)) = w], w = 0 to n."""
    none, all_ways = math.log1p(math.exp(-epsilon)), math.lgamma(n + 1)
    ways = (all_ways - math.lgamma(w + 1) - math.lgamma(n - w + 1) for w in range(n + 1))
    return [each - w * none - (n - w) * (epsilon + none) for w, each in enumerate(ways)]


def guess_p(m: int, r: int, v: int, _: int, epsilon: float, delta: float) -> float:
    """Return the largest probability of v of r right guesses."""
    if not delta:
        e = Decimal(epsilon).exp()
        return float(tail(r, v, e / (1 + e))[1])
    mass, tails, log = log_binomial(r, epsilon), [0.0] * (r + 1), -math.inf
    for j in range(r, -1, -1):
        high, low = max(log, mass[j]), min(log, mass[j])
        tails[j] = log = high + math.log1p(math.exp(low - high))
    points = [
        (math.exp(mass[j] - tails[j]) * j / r, math.exp(tails[v] - tails[j])) for j in range(v + 1)
    ]
    at = delta * m / r
    left = max(n for n, point in enumerate(points) if point[0] <= at)
    if left == v:
        return 1.0
    right = left + 1
    for _ in range(v + 1):
        (x, y), (x_right, y_right) = points[left], points[right]
        slope = (y_right - y) / (x_right - x)
        heights = [y - slope * x for x, y in points]
        best = max(range(v + 1), key=heights.__getitem__)
        if heights[best] <= heights[left] + MARGIN * slope * x_right:
            break
        left, right = (best, right) if points[best][0] <= at else (left, best)
    return min(1.0, max(heights) + slope * at)


def weights(r: int, h: int) -> list[int]:
    """Return the positive weights of r guesses with ranks 1 to h, ascending."""
    cuts = [min(h, math.floor((h + 1.0) ** (1 - (n + 0.5) / 16))) for n in range(16)]
    each = [sum(rank <= cut for cut in cuts) for rank in range(1, cuts[0] + 1)]
    return sorted(each * (r // h))


def rank_p(m: int, r: int, v: int, h: int, epsilon: float, delta: float) -> float:
    """Return a bound of the probability of a sum of weights of right guesses."""
    law, q = [1.0], 1 / (1 + math.exp(-epsilon))
    for weight, number in sorted(Counter(weights(r, h)).items()):
        part, whole = [*map(math.exp, log_binomial(number, epsilon))], law
        law = [0.0] * (len(whole) + weight * number)
        for n, chance_of in enumerate(part):
            for at, each in enumerate(whole, weight * n):
                law[at] += each * chance_of
    if v >= len(law):
        return 0.0
    tails, total = [0.0] * (len(law) + 1), 0.0
    for at in range(len(law) - 1, -1, -1):
        total += law[at]
        tails[at] = total
    if not delta:
        return min(1.0, tails[v] * (1 + 100 * MARGIN))
    best, reached = 1.0, 0.0
    for i in range(1, v + 1):
        reached += tails[v - i + 1]
        best = min(best, reached / i + min(1.0, 16 / i) * delta * m * (1 - q))
    return min(1.0, best * (1 + 100 * MARGIN))


def priced(m: int, r: int, v: int, h: int, prices: Any, rare: Any) -> float:
    """Return the probability of v that prices of the lines of a curve prove."""
    losses, costs = zip(*prices, strict=True)
    paid = math.fsum(each * rare(loss) for loss, each in prices) * m
    if h:
        q = [1 / (1 + math.exp(-loss)) for loss in losses] + [1.0]
        ends = [*accumulate(each * (1 + math.exp(loss)) for loss, each in prices)]
        steps = [(more - less, end) for less, more, end in zip(q, q[1:], ends, strict=False)]
        values = [0.0] * v + [1.0]
        for c in weights(r, h):
            gains = [values[min(s + c, v)] - values[s] for s in range(v + 1)]
            values = [
                value + q[0] * gain + sum(p * (gain - end) for p, end in steps if gain > end)
                for value, gain in zip(values, gains, strict=True)
            ]
        return min(1.0, values[0] + paid + MARGIN)
    slopes, ends, low, high = [*map(math.exp, losses)], [*accumulate(costs)], math.log(1e-14), 0.0
    for _ in range(30):
        middle, s = (low + high) / 2, 0.0
        nu, w = math.exp(middle), r
        while s <= ends[-1]:
            value = before = 0.0
            for slope, end in zip(slopes, ends, strict=True):
                if s <= before:
                    break
                value += slope * (min(s, end) - before)
                before = end
            if not w:
                break
            s = max(0.0, (r / w) * ((w >= v) - nu) + (r / w - 1) * value)
            w -= 1
        low, high = (low, middle) if w == 0 and s <= ends[-1] and value <= nu else (middle, high)
    return min(1.0, math.exp(high) + paid / r + MARGIN)


def by_bets(one: Any, terms: Any, a: Decimal, claim: Any, side: int) -> bool:
    """Return True if the wealth of bets rejects a claim, or a bound."""
    (kind, p, _), slack = claim
    most = p if CURVES[kind] is DP else math.inf  # delta(eps) is the same from there on
    b = 0 if kind == "bound" else 1 if not slack and any(term[0] == 1 for term in terms) else 2
    r, estimate = float(one["basis"]["resolution"]) if b == 2 else 0.0, one["estimate"]
    wealth, shares, drawn = dict[Any, Decimal](), dict[Any, Decimal](), dict[Any, int]()
    for (against, way, t), groups in groupby(sorted(terms), key=lambda term: term[:3]):
        k, k_true, g, h, s = zip(*(group[3:] for group in groups), strict=True)
        must(sum(k) == sum(k_true) == drawn.setdefault(t, sum(k)), "its bets differ")
        if against == b:
            pairs = sorted(zip(h, g, strict=True))
            total = sum(map(float, pairs[0])) + 1e-14 * float(max(h + g))  # S, if g/h falls with h
            for (low, high), (higher, lower) in pairwise(pairs):  # add E max(rise dQ - fall dP, 0)
                rise, fall = float(higher - low), float(high - lower)
                loss = abs(math.log(rise / fall)) if min(rise, fall) > 0 else 0.0
                delta = min(delta_at(claim[0], loss) + r * (1 + math.exp(min(loss, most))), 1)
                total += max(rise - fall, 0) + max(min(rise, fall), 0) * delta
            must(0 <= 2 - total <= (1e-9 if CURVES[kind] is DP else 1e-3), "bets not at S = 2")
            powers = (w**n for n, w in zip(k + k_true, g + h, strict=True) if n)
            wealth[way] = math.prod(powers, start=wealth.get(way, shares.setdefault(way, s[0])))
    must(sum(drawn.values()) <= min(one["trials"]), "too many draws")
    bound = float(estimate["epsilon_lower"] * (1 - CLOSE)) if b and side < 0 and not slack else 0
    above = bound and delta_at(claim[0], bound) <= estimate["delta"]  # refutes the claim as well
    return above or (sum(wealth.values()) + 1 - sum(shares.values())) * (1 - OUT) * a >= 1


def claim_of(claim: Any, theorem: str) -> Any:
    """Return the kind and two parameters of a claimed curve, or None."""
    if (kind := claim["kind"]) not in CURVES or kind == "bound":
        return None
    p, q, *_ = *(float(claim["parameters"][name] * ONE) for name in CURVES[kind]), 1.0
    must(p >= 0 <= q <= (kind != "pure-dp") and (kind, q) != ("approx-dp", 1), "impossible claim")
    return kind, 1 / p if kind == "subsampled-gaussian-dp" else p, q


def check(certificate: Any) -> dict[int, str]:
    """Check the conclusions of a certificate; return which were not checked, and why."""
    audit, failed, left, spent = certificate["audit"], certificate["failed"], {}, []
    m, error = audit["m"], 1 - audit["confidence"]
    tests, fall = {"holm": (m, 1), "bonferroni": (m, 0), "none": (1, 0)}[audit["multiplicity"]]
    found = [one["verdict"] for one in certificate["conclusions"]]  # in the order of tests
    rare, last = 0, found.count("violated")  # rare: for the sampler
    tested = [(one["id"], one["repeat"]) for one in certificate["conclusions"] if one["basis"]]
    right = found and "violated" not in found[last:] and len({*tested}) == len(tested)
    right = right and type(m) is type(failed) is int and m >= len(tested) and failed >= 0
    must(right and 0 < error < 1, "its tests, their order or its confidence are impossible")
    for place, one in enumerate(certificate["conclusions"]):
        basis, estimate, verdict = one["basis"], one["estimate"], one["verdict"]
        evidence, look, slack = estimate["evidence"], basis.get("look", 1), basis.get("resolution")
        price, level = look * (look + 1) if look > 1 else 1, 1 - estimate["confidence"]
        bound, delta = estimate["epsilon_lower"] * ONE, float(estimate["delta"] * ONE)
        own = not basis or (basis["confidence"] == 1 - error and 0 <= slack < 1 <= basis["look"])
        own = own and {*map(type, (look, *one["trials"]))} == {int} and min(one["trials"]) >= 0
        own = own and 0 < level < 1 > delta >= 0 <= bound and (verdict is None) == (not basis)
        must(own, f"{one['id']}: its numbers are impossible")
        spent.append(level * price / error)
        known = evidence and evidence["theorem"] in DESIGN
        ranked = not known or evidence["theorem"] != "joint" or evidence.get("design")
        known = known and ranked
        curve = claim_of(one["claim"], evidence["theorem"]) if basis and known else None
        if not known or (basis and not curve):
            lacks = "claim" if known else "theorem" if ranked else "design"
            left[place] = f"its {lacks} is unknown to this program"
        if known:
            by = ZERO if evidence["theorem"] == "betting" else CLOSE  # bets have S = 2 at it
            for side in (1,) * bool(bound) + (-1,) * bool(by):
                line = ("bound", float(bound * (1 - side * by) + (side < 0) * by / 50), delta), ZERO
                must(rejected(one, evidence, level, line, side), f"{one['id']}: its bound is wrong")
        if not curve:
            continue
        stated = sum(found[earlier] == "violated" for earlier in left)
        side = {"violated": 1, "consistent": 1, "inconclusive": -1}[verdict]
        done = (min(place, last) - stated if side > 0 else last, last + rare)
        a, rarest = (error / price / max(1, tests - fall * n) for n in done)
        sampled = side < 0 and rejected(one, evidence, rarest, (curve, ZERO), 1)
        of = evidence if sampled or verdict == "violated" else basis["extreme"]
        right, rare = rejected(one, of, a, (curve, slack), side), rare + sampled
        right = right and (of is evidence or rejected(one, evidence, rarest, (curve, ZERO), -1))
        must(right or stated, f"{one['id']}: its counts do not imply {verdict}")
        if not right:
            left[place] = "depends on other verdicts that were not checked"
    must((max if audit["multiplicity"] == "none" else sum)(spent) <= 1 + CLOSE, "too much error")
    return left


def same(one: Any, other: Any) -> bool:
    """Compare two values of JSON or TOML; numbers by their value, lists and tables never differ."""
    if isinstance(one, list | dict):
        return True
    numbers = all(isinstance(each, int | float | Decimal) for each in (one, other))
    if numbers and bool not in (type(one), type(other)):
        return float(one) == float(other)
    return type(one) is type(other) and bool(one == other)


def unlike(one: Any) -> dict[str, Any]:
    """Return both values of the parameters that a claim and its mechanism have, if they differ.

    A right claim may have another epsilon than its mechanism, such as that of each of two steps.
    """
    own = one.get("mechanism", {}).get("params", {})
    claimed = (one["claim"] or {}).get("parameters", {})
    own = own | {name: own[f"claimed_{name}"] for name in claimed if own.get(f"claimed_{name}")}
    both = {name: [value, own[name]] for name, value in claimed.items() if name in own}
    return {name: pair for name, pair in both.items() if not same(*pair)}


def compare_claims(certificate: Any) -> list[str]:
    """Compare claims with mechanisms: an UNLIKE claim must be stated as such, or it DIFFERS."""
    rows = [each for each in certificate.get("plugins", []) if each["kind"] == "mechanism"]
    found = list[str]()
    for one in certificate["conclusions"]:
        odd, told = unlike(one), (one["claim"] or {}).get("unlike", {})
        for name in sorted({*odd, *told}):
            use, both = one["mechanism"]["use"].split("/")[-1], odd.get(name, [None, None])
            stated = len(told.get(name, [])) == 2 and all(map(same, both, told[name]))
            # The claims of dpframe's own mechanisms are their parameters.
            exact = {each["distribution"] for each in rows if each["name"] == use} == {"dpframe"}
            word = "UNLIKE" if stated and name in odd and not exact else "DIFFERS"
            found.append(f"{word}: {one['id']} claims {name} = {both[0]}, its mechanism {both[1]}")
    return found


def compare(certificate: Any) -> list[str]:
    """Compare what a certificate states twice; return what FAILED, is MISSING or DIFFERS."""
    audit, summary, failed = certificate["audit"], certificate["summary"], certificate["failed"]
    ones, error, doubts = certificate["conclusions"], 1 - audit["confidence"], []
    found, looks = Counter(one["verdict"] for one in ones), [1]
    must({*map(type, summary.values())} == {int}, "its summary has no counts")
    lacking = {name: summary[name] - found[name] for name in VERDICTS}
    concluded = sum(summary[name] for name in VERDICTS)
    right = min(lacking.values()) >= 0 and summary["m"] == audit["m"]
    must(right and 0 <= audit["m"] - concluded <= failed, "its summary contradicts it")
    doubts += [f"FAILED: {failed} cells, about which nothing is concluded"] * (failed > 0)
    doubts += [f"MISSING: {n} conclusions, {name}" for name, n in lacking.items() if n]
    spent = Decimal(0)
    for one in ones:
        looks.append(look := one["basis"].get("look", 1))
        price = look * (look + 1) if look > 1 else 1
        spent += (part := (1 - one["estimate"]["confidence"]) * price / error)
        must(audit["multiplicity"] != "none" or part >= 1 - CLOSE, "its levels are corrected")
        must({*map(type, (one["seed"], one["repeat"]))} == {int}, "its seeds are not numbers")
    must((type(audit["looks"]), audit["looks"]) == (int, max(looks)), "its looks are others")
    if audit["multiplicity"] != "none" and spent < 1 - CLOSE and not failed:
        doubts.append(f"MISSING: conclusions with {1 - spent:.3g} of the error")
    return compare_claims(certificate) + doubts + compare_spec(certificate)


def varied(sweep: Any, overrides: Any) -> dict[str, Any]:
    """Return the values of each key that is swept, or set from the command line."""
    sets = dict[str, Any]()
    for group, value in sweep.items():
        nested = type(value) is dict
        sets |= (
            {f"{group}.{key}": each for key, each in value.items()} if nested else {group: value}
        )
    for override in overrides:
        key, _, value = override.partition("=")
        with suppress(tomllib.TOMLDecodeError):  # of a text without quotes
            value = tomllib.loads(f"value = {value}")["value"]
        sets[key.strip()] = value if type(value) is list else [value]
    return sets


def compare_spec(certificate: Any) -> list[str]:
    """Compare a certificate with the text of its spec; return what is MISSING or DIFFERS."""
    spec, audit, ones = certificate["spec"], certificate["audit"], certificate["conclusions"]
    if not spec:  # scores that were made elsewhere
        return ["MISSING: its spec"] * any("mechanism" in one for one in ones)
    text, ends, doubts = spec["text"], ("\n", "\r\n"), list[str]()
    forms = (start + text.replace("\n", end) for start in ("", "\ufeff") for end in ends)
    digests = [hashlib.sha256(form.encode()).hexdigest() for form in forms]
    must(type(spec["overrides"]) is list, "its overrides are not a list")
    must(spec["sha256"] in digests, "its spec has another digest")
    try:
        told: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # written in Python
        told = json.loads(text)
    sets = varied(told.get("sweep", {}), spec["overrides"])

    def fits(value: Any, key: str, table: Any) -> bool:
        name = key.partition(".")[2]
        values = sets.get(key, [table[name]] if name in table else [value])
        return any(same(each, value) for each in values)

    settings = DEFAULTS | told["audit"]
    for name in ("name", "confidence", "multiplicity"):
        must(fits(audit[name], f"audit.{name}", settings), f"its spec has another {name}")
    for one in ones:
        own = [("audit.seed", one["seed"], settings)]
        at = {"delta": one["claim"].get("parameters", {}).get("delta")} | settings
        if one["claim"] and CURVES.get(one["claim"]["kind"]) is DP:
            own.append(("audit.delta", one["estimate"]["delta"], at))
        for role in ("mechanism", "pair", "attack", "estimator"):
            tables = told.get(role, [])
            tables = tables if type(tables) is list else [tables]
            use, params = one[role]["use"], one[role]["params"]
            must(type(params) is dict, f"{one['id']}: its parameters are not a table")
            label = use if role == "pair" else one[role]["label"]
            of = [t for t in tables if t["use"].split("/")[-1] == use.split("/")[-1]]
            of = [t.get("params", {}) for t in of if label == t.get("label", use)]
            if tables and not of:
                doubts.append(f"DIFFERS: the spec of {one['id']} has no {role} {label}, a {use}")
            for written in of[:1]:
                keys = sorted({*params, *written})
                own += [(f"{role}.{key}", params.get(key), written) for key in keys]
        for key, value, table in own:
            if not fits(value, key, table):
                doubts.append(f"DIFFERS: {one['id']} has {key} = {value}, its spec another")
        most = sets.get("audit.trials", [settings.get("trials")])
        repeats = max(sets.get("audit.repeats", [settings["repeats"]]))
        if max(one["trials"]) > max(most) or not 0 <= one["repeat"] < repeats:
            doubts.append(f"DIFFERS: {one['id']} has more trials or repeats than its spec")
    return doubts


def certified(certificate: Any, file: Path) -> str:
    """Describe what a certificate certifies."""
    audit, spec = certificate["audit"], certificate["spec"].get("sha256", "none: scores of others")
    found = Counter(one["verdict"] for one in certificate["conclusions"])
    names = {"violated": "violated", "consistent": "not refuted", "inconclusive": "inconclusive"}
    counts = [
        f"{found[name]} {words}" for name, words in (names | {None: "without a claim"}).items()
    ]
    signed = [f"{file.name}{end}" for end in (".sig", ".minisig") if Path(f"{file}{end}").exists()]
    return (
        f"{', '.join(counts)}; m = {audit['m']}, {certificate['failed']} failed\n"
        f"confidence {audit['confidence']}, multiplicity {audit['multiplicity']}, "
        f"looks {audit['looks']}\n"
        f"audit {audit.get('name', '')!a}, spec {spec!a}\n"
        + (f"signature in {signed[0]!a}, not checked here" if signed else "not signed")
    )


def main(arguments: list[str]) -> int:
    """Check a file; return 0 if right, 1 if refused, 2 if unreadable, 3 if some is NOT CHECKED."""
    if arguments in (["--help"], ["-h"]) or len(arguments) != 1:
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    file = Path(arguments[0])
    try:
        must(file.stat().st_size <= MOST_BYTES, "it is too large")
        content: Any = json.loads(text := file.read_bytes().decode())
        dump = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
        content.pop("digest")
        content |= {"digest": f"sha256:{hashlib.sha256(dump(content).encode()).hexdigest()}"}
        must(dump(content | {"certificate": 1}) + "\n" == text, "bad form or digest")
        must("summary" in content, "it is older than this program: certify its run again")
        exact = json.loads(text, parse_float=Decimal)
        left, all_ = check(exact), content["conclusions"]
        doubts, words = compare(exact), certified(exact, file)
    except Exception as error:  # whatever is not a certificate is refused
        print(f"REFUSED: {type(error).__name__}: {str(error)!a}")
        return 2 if isinstance(error, OSError) else 1
    doubts += [f"NOT CHECKED: {all_[place]['id']}: {why}" for place, why in left.items()]
    print(words, *(ascii(each)[1:-1] for each in doubts), sep="\n")
    print(f"{len(all_) - len(left)} of {len(all_)} conclusions recomputed; {len(left)} NOT CHECKED")
    return 3 if any(not each.startswith("UNLIKE") for each in doubts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
