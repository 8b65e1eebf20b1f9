"""Count the draws that bets need to refute a false claim, next to the best possible bet.

Each audit draws growing rounds, as for scores of a file, and stops when the claim is refuted at
5 %. The best bet knows both distributions: ln 20 over the distance of the pair to the claim. A
mixture of the best bets for many shifts knows all but the shift. Run from the root of the
repository:

    python tests/benchmarks/power.py [--audits 200] [--seed 1] [--rows 1 2 …]

Not a test: it takes a few minutes.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dpframe import ApproxDP, GaussianDP, PureDP, Query
from dpframe.builtin.betting import Betting, against, cuts, sizes
from dpframe.stats.output_bets import Supposed, bets

if TYPE_CHECKING:
    from dpframe import Claim

Row = tuple[str, "Claim", int]
ROWS: list[Row] = [
    ("laplace", PureDP(0.8), 524),
    ("laplace", PureDP(0.5), 77),
    ("normal", ApproxDP(1.0, 1e-5), 109),
    ("normal", ApproxDP(2.0, 1e-5), 2007),
    ("normal", ApproxDP(1.0, 0.1), 3140),
    ("normal", GaussianDP(0.8), 340),
]
LIMIT = 400_000


def draws(rng: np.random.Generator, name: str, claim: Claim) -> int:
    """Return the draws on each dataset until one audit refutes a claim; scores are outputs."""
    betting, state, layout, total = Betting(), None, None, 0
    for size in sizes(LIMIT):
        scores = [getattr(rng, name)(shift, 1, size) for shift in (0.0, 1.0)]
        layout = cuts(*scores) if layout is None else layout
        bins = [1 + np.searchsorted(layout, part, side="right") for part in scores]
        counts: Any = np.stack([np.bincount(part, minlength=len(layout) + 2) for part in bins])
        state = betting.observe(state, layout, counts, Query((size, size), 0.0, 0.95, claim))
        total += size
        if state.book.p_values[0] <= 0.05:
            return total
    raise SystemExit(f"not refuted by {LIMIT} draws")


EDGES = np.array([-np.inf, *np.linspace(-6, 7, 261), np.inf])
SHIFTS = np.geomspace(0.25, 2, 61)  # the true one, 1, is the 41st
MOST = 7  # draws of `draws_of_family`, as a multiple of those of the best bet


def draws_of_family(rng: np.random.Generator, name: str, claim: Claim, best: int, n: int) -> Any:
    """Return the draws at which a mixture over shifts refutes a claim, shape [n].

    The mixture knows the two distributions but for the distance between them. Its prior is uniform
    on the logarithms of the shifts that violate the claim, up to twice the true one.
    """
    own = against(claim, 0.0).exact
    assert own is not None
    cdf = {"laplace": stats.laplace.cdf, "normal": stats.norm.cdf}[name]
    both = [getattr(rng, name)(shift, 1, (n, MOST * best)) for shift in (0.0, 1.0)]
    x, y = (np.searchsorted(EDGES, side, side="right") - 1 for side in both)
    wealth, shifts = np.full(x.shape, -np.inf), 0
    for shift in SHIFTS:
        p, q = (np.diff(cdf(EDGES, (1 + side * shift) / 2)) + 1e-15 for side in (-1, 1))
        # Shares fall with the score, so every bin is a group of its own.
        g, h = bets(Supposed(p / (p + q), (p + q) / (p + q).sum()), own, np.array([np.inf]))[0]
        if g.any() or h.any():
            wealth, shifts = np.logaddexp(wealth, np.cumsum(g[x] + h[y], axis=1)), shifts + 1
    refuted = wealth - math.log(shifts) >= math.log(20)
    return np.where(refuted.any(axis=1), refuted.argmax(axis=1) + 1, MOST * best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, nargs="+", default=range(1, len(ROWS) + 1))
    asked = parser.parse_args()
    print("| truth | claim | best bet of all | mixture over shifts ", end="")
    print("| mean ± error | median | 80 % | seconds an audit |\n|---|---|---|---|---|---|---|---|")
    for number in asked.rows:
        name, claim, best = ROWS[number - 1]
        rng, started = np.random.default_rng([asked.seed, number]), time.process_time()
        found = np.array([draws(rng, name, claim) for _ in range(asked.audits)])
        seconds = (time.process_time() - started) / asked.audits
        family = draws_of_family(rng, name, claim, best, asked.audits)
        numbers = " | ".join(
            f"{each.mean():.0f} ± {each.std() / math.sqrt(len(each)):.0f}"
            for each in (family, found)
        )
        numbers += f" | {np.median(found):.0f}"
        last = f"{np.quantile(found, 0.8):.0f} | {seconds:.2f}"
        print(f"| {name} | {claim} | {best} | {numbers} | {last} |", flush=True)


if __name__ == "__main__":
    main()
