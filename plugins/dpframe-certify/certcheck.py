"""Check a certificate of a dpframe audit without dpframe: `python certcheck.py CERT.json`.

It recomputes bounds and verdicts from counts by the theorems below, rounded outwards. It cannot
check that draws are independent, that events, weights and error shares were fixed before them, or
that m is the spec's. It never shows privacy. Exit: 0 right, 1 refused, 2 unreadable, 3 NOT CHECKED.

A region holds the error rates (x, y) = (FPR, FNR) of an event with probability 1 - a. A claim with
trade-off curve f is rejected at a if y < f(x) throughout a region; (eps, delta) is the curve
f(x) = max(0, 1 - delta - e^eps x, (1 - delta - x)/e^eps) (Kairouz, Oh, Viswanath 2015, theorem 2.1;
Dong, Roth, Su 2022). U(k, n, a) solves Pr[Bin(n, U) <= k] = a. Terms, with shares s of a:

clopper-pearson  k, n, k', n', s: x <= U(k, n, as/2) and y <= U(k', n', as/2).
joint            k, n, t, n', w, s: z < C, z' < C and w z + sqrt(1 - w^2) z' < D, where Pr[N > z] =
                 Pr[Bin(n, x) <= k], Pr[N > z'] = Pr[Bin(n', 1 - y) >= t], N is standard normal,
                 Pr[N > C] = as/10 and Pr[N > D] = 8as/10 (Liptak 1958); covered by 64 boxes.
total-variation  k, n, t, n', b: with b bins rates are within sqrt(b/n)/2 + sqrt(ln(2/a)/(2n)) of
                 k/n and 1 - t/n' (Canonne 2020; McDiarmid 1989).
one-run          m, r, v, s: B(v) + 2 m delta max_i (B(v - i) - B(v))/i <= as, where B(j) is
                 Pr[Bin(r, e^eps/(1 + e^eps)) >= j] (Steinke, Nasr, Jagielski 2023, theorem 5.2).
betting          b, w, t, k, k', g, h: in round t, k draws from D and k' from D' fell into bins of
                 weights g, h, of one of two ways w with half of the wealth each, to bet against the
                 bound (b = 0), the claim (1) or it at rates raised by the resolution (2). Wealth is
                 the product of g^k h^k'; it has mean <= 1 if delta (max g + max h) + (max(e^eps g +
                 h) + max(g + e^eps h)) (1 - delta)/(1 + e^eps) = S <= 2; 1/a rejects (Ville 1939).
"""

import hashlib
import json
import math
import sys
from decimal import Context, Decimal, setcontext
from functools import lru_cache
from itertools import groupby, product
from pathlib import Path
from statistics import NormalDist
from typing import Any

setcontext(Context(prec=60, Emin=-999999, Emax=999999))
ZERO, ONE, OUT = Decimal(0), Decimal(1), Decimal("1e-25")
CLOSE, MARGIN = Decimal("1e-6"), 1e-12  # of a stated bound, relative; of floats
NORMAL, CURVED = NormalDist(), ("gaussian-dp", "subsampled-gaussian-dp")
LN_2_PI = Decimal("1.83787706640934548356065947281123527972279494727556682563430308")
FIELDS = {"joint": 6, "clopper-pearson": 5, "total-variation": 5, "one-run": 4, "betting": 7}


def must(right: Any, why: str) -> None:
    """Refuse the certificate if something is not right."""
    if not right:
        raise ValueError(why)


@lru_cache(4096)
def ln_factorial(n: int) -> Decimal:
    """Return ln n!, from 256 on by Stirling's series."""
    if n < 256:
        return Decimal(math.factorial(n)).ln()
    terms = ((1, 12), (3, -360), (5, 1260), (7, -1680), (9, 1188))
    series = LN_2_PI / 2 - n + sum(ONE / Decimal(divisor * n**power) for power, divisor in terms)
    return (n + ONE / 2) * Decimal(n).ln() + series


def ratio(n: int, k: int, odds: Decimal, depth: int = 8) -> tuple[Decimal, Decimal]:
    """Return numbers around Pr[X >= k]/Pr[X = k], X binomial, to 1e-13 (Uspensky 1937)."""
    # It is 1/(1 - c_1/(1 + d_1/(1 - c_2/ ...))), where c_m fall, and c_1 < 1.
    j = k + 2 * (depth := min(depth, n - k))
    low, high = ZERO, odds * ((n - k - depth) * (k + depth)) / (j * (j + 1))
    for m in range(depth, 0, -1):
        j = k + 2 * m
        c = odds * ((n - k - m + 1) * (k + m - 1)) / ((j - 2) * (j - 1))
        d = odds * (m * (n + m)) / ((j - 1) * j)
        low, high = c / (1 + d / (1 - high)), c / (1 + d / (1 - low))
    low, high = 1 / (1 - low), 1 / (1 - high)
    near = depth == n - k or (high - low) * 10**13 < low
    return (low, high) if near else ratio(n, k, odds, 2 * depth)


@lru_cache(100_000)
def chance(n: int, k: int, p: Decimal) -> Decimal:
    """Return Pr[Bin(n, p) = k]."""
    log = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
    return (log + k * p.ln() + (n - k) * (1 - p).ln()).exp()


def tail(n: int, k: int, p: Decimal) -> tuple[Decimal, Decimal]:
    """Return decimals around Pr[Bin(n, p) >= k], p in (0, 1)."""
    if k <= 0 or k > n:
        return (ONE, ONE) if k <= 0 else (ZERO, ZERO)
    if (n - k) * p >= (k + 1) * (1 - p):  # k is below the mean
        return tuple(1 - each for each in tail(n, n - k + 1, 1 - p)[::-1])  # type: ignore
    low, high = ratio(n, k, p / (1 - p))
    return chance(n, k, p) * low * (1 - OUT), chance(n, k, p) * high * (1 + OUT)


@lru_cache(100_000)
def limit(k: int, n: int, level: Decimal, side: int) -> Decimal:
    """Return a number proved to be above U(k, n, level) (side 1) or below (-1); near it (0)."""
    if k >= n:
        return ONE
    if side:
        x = limit(k, n, level, 0)
        place = (x + side * min(x, 1 - x) * Decimal(10) ** power for power in range(-12, 0))
        proved = (p for p in place if (tail(n, n - k, 1 - p)[side > 0] - level) * side <= 0)
        return next(proved, Decimal(max(side, 0)))
    x = (k + ONE) / (n + 1)
    step = (x * (1 - x) / n).sqrt() * Decimal(-NORMAL.inv_cdf(max(float(level), 1e-300)))
    while abs(step) > x / 10**13:  # Newton's method on a concave logarithm; no proof
        x = min(max(x + step, x / 8), (7 + x) / 8)
        cdf = tail(n, n - k, 1 - x)[0]
        step = (cdf / level).ln() * (1 - x) / (n - k) * cdf / chance(n, n - k, 1 - x)
    return x


def normal_tail(z: float) -> Decimal:
    """Return Pr[N > z], to 1e-14 of it or of its complement."""
    rare = Decimal(math.erfc(abs(z) / math.sqrt(2))) / 2
    return rare if z > 0 else 1 - rare


def region(theorem: str, term: Any, a: Decimal, side: int) -> list[tuple[Any, Any]]:
    """Return corners (x, y) of boxes that cover a region (side 1), or lie inside it (-1)."""
    k, n, j, n_true, *_, share = term
    if theorem == "total-variation":
        rates = ((Decimal(k), n), (Decimal(n_true - j), n_true))
        width = Decimal(share).sqrt() / 2 + ((2 / a).ln() / 2).sqrt() + side * OUT
        return [tuple(count / t + width / Decimal(t).sqrt() for count, t in rates)]
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


def gap(claim: Any, corner: tuple[Any, Any], side: int) -> Any:
    """Return how far a corner lies below a curve; of a Gaussian, f(x) <= x is not needed."""
    ends = [each if isinstance(each, Decimal) else limit(*each, side) for each in corner]
    x, y = sorted(min(each + claim[2], ONE) for each in ends)
    if claim[0] not in CURVED:
        return max(max(1 - d - e * x, (1 - d - x) / e, ZERO) for e, d in claim[1]) - y - side * OUT
    q, mu = claim[1]
    top = NORMAL.cdf(-mu / 2) if q < 1 else 1 - 1e-16  # from there on a line of slope -1
    at = max(min(float(x), top), 1e-300)
    f = q * NORMAL.cdf(-NORMAL.inv_cdf(at) - mu) + (1 - q) * (1 - at) + at - float(x)
    return Decimal(f) - y - side * CLOSE / 10**7


def rejected(one: Any, found: Any, a: Decimal, claim: Any, side: int) -> bool:
    """Prove that possible terms reject a claim at a level (side 1), or that they do not (-1)."""
    theorem, terms = found["theorem"], [tuple(term) for term in found["terms"]]
    bets, guesses, bins = (theorem == name for name in ("betting", "one-run", "total-variation"))
    last = [term[-1] for term in terms]
    for j, k, t, n, *rest in terms:
        counts = [(t, k), (k, j)] if guesses else [(j, k), (t, n)]
        most, weights = 10**6 if guesses else 10**12, [n] if guesses else rest
        if bets:
            counts, weights = [(j, 2), (k, 1), (t, most), (n, most), (rest[0], most)], rest[1:]
        own = all(type(k) is type(n) is int and 0 <= k <= n and 0 < n <= most for k, n in counts)
        own = own and all(type(s) in (int, Decimal) and s > 0 for s in weights)
        own = own and (bets or guesses or sorted((k, n)) == sorted(one["trials"]))
        shared = rest == last[:1] == [int(last[0])] if bins else bets or sum(last) <= 1 + CLOSE
        must(own and shared and 4 + len(rest) == FIELDS[theorem], f"{one['id']}: odd terms")
    if bets or guesses:
        return (by_bets if bets else by_guesses)(one, terms, a, claim, side) == (side > 0)
    regions = [region(theorem, term, a, side) for term in terms]
    below = (all(gap(claim, corner, side) > 0 for corner in corners) for corners in regions)
    return any(below) == (side > 0)


def by_guesses(_: Any, terms: Any, a: Decimal, claim: Any, side: int) -> bool:
    """Return True if a number of correct guesses in one run rejects one of some lines."""
    for (m, r, v, share), (e, d) in product(terms, claim[1]):
        delta, q = d + claim[2] * (1 + e), e / (1 + e)
        p, each, more, largest = tail(r, v, q)[side > 0], chance(r, v, q), ZERO, ZERO
        for i in range(1, v + 1) if 0 < delta < 1 else ():
            each = each * (v - i + 1) / (r - v + i) / e  # Pr[X = v - i]
            largest = max(largest, (more := more + each) / i)
        if delta < 1 and p + 2 * m * delta * largest <= a * share:
            return True
    return False


def by_bets(one: Any, terms: Any, a: Decimal, claim: Any, side: int) -> bool:
    """Return True if the wealth of bets rejects a claim of one line, or a bound."""
    kind, ((e, d), *_), slack = claim
    b = 0 if kind == "bound" else 1 if not slack and any(term[0] == 1 for term in terms) else 2
    d = min(d + one["basis"]["resolution"] * (1 + e) if b == 2 else d, ONE)
    logs, drawn = [ZERO, ZERO], dict[Any, int]()
    for (against, way, t), groups in groupby(sorted(terms), key=lambda term: term[:3]):
        k, k_true, g, h = zip(*(group[3:] for group in groups), strict=True)
        must(sum(k) == sum(k_true) == drawn.setdefault(t, sum(k)), "its bets differ in their draws")
        if against == b:
            near = [max(e * x + y for x, y in zip(*of, strict=True)) for of in ((g, h), (h, g))]
            most = d * (max(g) + max(h)) + (1 - d) / (1 + e) * sum(near)
            must(kind == "stated" or 0 <= 2 - most <= CLOSE / 1000, "its bets are not at S = 2")
            logs[way] += sum(n * w.ln() for n, w in zip(k + k_true, g + h, strict=True) if n)
    must(sum(drawn.values()) <= min(one["trials"]), "its bets are on more than its draws")
    above = (one["estimate"]["epsilon_lower"] * (1 - CLOSE)).exp() if side < 0 and not slack else 0
    if kind == "lines" and any(above > e and d <= one["estimate"]["delta"] for e, d in claim[1]):
        return True  # a bound above the claim refutes it as well
    return sum((min(log, 1 / CLOSE).exp() for log in logs), ZERO) / 2 * (1 - OUT) * a >= 1


def claim_of(one: Any) -> tuple[str, Any, str | None]:
    """Return the curve that a conclusion tests, and the reason if it is only stated."""
    kind, said, delta = one["claim"]["kind"], one["claim"]["parameters"], one["estimate"]["delta"]
    if kind in ("pure-dp", "approx-dp"):
        e, own = (said["epsilon"] * ONE).exp(), said["delta"] * ONE
        corner = (1 - own) / (1 + e)  # a line at another delta touches the curve there
        more = [((1 - delta - corner) / corner, delta)] if own < delta < 1 - 2 * corner else []
        must(e >= 1 and 0 <= own < 1 and not (own and kind == "pure-dp"), "an impossible claim")
        return "lines", [(e, own), *more], None
    if kind in CURVED and one["estimate"]["evidence"]["theorem"] not in ("one-run", "betting"):
        q = said["sampling_probability"] * ONE if kind == CURVED[1] else ONE
        mu = said["mu"] if kind == CURVED[0] else ONE / said["noise_multiplier"]
        must(0 < q <= 1 and mu >= 0, "an impossible claim")
        return kind, (float(q), float(mu)), None
    lines = [((e * ONE).exp(), d * ONE) for e, d in one["claim"]["profile"] if e != "inf"]
    return "stated", lines, "the curve of its claim is only stated, not derived"


def check(certificate: Any) -> dict[int, str]:
    """Check the conclusions of a certificate; return which were not checked, and why."""
    audit, left, spent = certificate["audit"], {}, []
    m, error = audit["m"], 1 - audit["confidence"]
    tests, fall = {"holm": (m, 1), "bonferroni": (m, 0), "none": (1, 0)}[audit["multiplicity"]]
    found = [one["verdict"] for one in certificate["conclusions"]]  # in the order of tests
    proved, stated, rare, last = 0, 0, 0, found.count("violated")  # rare: for the sampler
    must(found and "violated" not in found[last:], "no conclusions, or not in the order of tests")
    tested = [(one["id"], one["repeat"]) for one in certificate["conclusions"] if one["basis"]]
    right = type(m) is int and 0 <= m - len(tested) <= certificate["failed"] and 0 < error < 1
    must(right and len({*tested}) == len(tested), "its tests or its confidence are impossible")
    for place, one in enumerate(certificate["conclusions"]):
        basis, estimate, verdict = one["basis"], one["estimate"], one["verdict"]
        evidence, look, slack = estimate["evidence"], basis.get("look", 1), basis.get("resolution")
        price, level = look * (look + 1) if look > 1 else 1, 1 - estimate["confidence"]
        bound, delta = estimate["epsilon_lower"] * ONE, estimate["delta"]
        own = not basis or (basis["confidence"] == audit["confidence"] and 0 <= slack < 1)
        own = own and {*map(type, (look, *one["trials"]))} == {int} and look > 0
        own = own and 0 < level < 1 and bound >= 0 <= delta < 1
        must(own and (verdict is None) == (not basis), f"{one['id']}: its numbers are impossible")
        spent.append(level * price / error)
        if not evidence or evidence["theorem"] not in FIELDS:
            left[place] = "its theorem is unknown to this program"
            stated += verdict == "violated"
            continue
        near = ZERO if evidence["theorem"] == "betting" else CLOSE  # bets are scaled to the bound
        for side in (1,) * bool(bound) + (-1,) * bool(near):
            growth = (bound * (1 - side * near) + (side < 0) * near / 1000).exp()
            right = rejected(one, evidence, level, ("bound", [(growth, delta)], ZERO), side)
            must(right, f"{one['id']}: its bound is too {('large', 'small')[side < 0]}")
        if verdict is None:
            continue
        *claim, why = claim_of(one)
        done = (proved, last, last + rare)
        first, second, rarest = (error / price / max(1, tests - fall * n) for n in done)
        if verdict == "violated":
            right = rejected(one, evidence, first, (*claim, slack), 1)
        elif verdict == "inconclusive" and rejected(one, evidence, rarest, (*claim, ZERO), 1):
            right, rare = rejected(one, evidence, second, (*claim, slack), -1), rare + 1
        else:
            side, a = {"consistent": (1, first), "inconclusive": (-1, second)}[verdict]
            right = rejected(one, basis["extreme"], a, (*claim, slack), side)
            right = right and rejected(one, evidence, rarest, (*claim, ZERO), -1)
            right = right and basis["extreme"]["theorem"] == evidence["theorem"]
        must(right or stated, f"{one['id']}: its counts do not imply {verdict}")
        if why or not right:
            left[place] = why or "depends on other verdicts that were not checked"
            stated += verdict == "violated"
        proved = found[: place + 1].count("violated") - stated
    must((max if audit["multiplicity"] == "none" else sum)(spent) <= 1 + CLOSE, "too much error")
    return left


def main(arguments: list[str]) -> int:
    """Check a canonical certificate file, and return the exit code."""
    try:
        content: Any = json.loads(text := Path(*arguments).read_text(encoding="utf-8"))
        rest = {key: content[key] for key in content if key != "digest"}
        both = [json.dumps(of, sort_keys=True, separators=(",", ":")) for of in (rest, content)]
        own = f"sha256:{hashlib.sha256(both[0].encode()).hexdigest()}"
        found = both[1] + "\n", content["digest"], content["certificate"]
        must(found == (text, own, 1), "not in canonical form, or the digest is wrong")
        left, all_ = check(json.loads(text, parse_float=Decimal)), content["conclusions"]
    except Exception as error:  # whatever is not a certificate is refused
        print(f"REFUSED: {type(error).__name__}: {str(error)!a}")
        return 2 if isinstance(error, OSError) else 1
    for place, why in left.items():
        print(f"NOT CHECKED: {all_[place]['id']!a}: {why}")
    print(f"{len(all_) - len(left)} of {len(all_)} conclusions recomputed; {len(left)} NOT CHECKED")
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
