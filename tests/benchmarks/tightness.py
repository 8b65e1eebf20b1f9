"""Measure the tightness of the default bound: mean over repeats, as a share of an oracle's bound.

The oracle knows the best fixed threshold and its direction, and spends all of the error on one
pair of Clopper-Pearson limits. What `betting` certifies is valid at every number of draws at
once. Run from the root of the repository:

    python tests/benchmarks/tightness.py [--sizes 1000 10000 …] [--repeats 200]

Not a test: it takes a quarter of an hour at the default sizes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpframe import Query
from dpframe.builtin.betting import Betting
from dpframe.builtin.events import PilotGrid
from dpframe.builtin.order_statistics import OrderStatistics
from dpframe.stats.histograms import bin_counts

if TYPE_CHECKING:
    from collections.abc import Callable

CASES: dict[str, tuple[float, Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    "Gaussian, μ = 1, δ = 1e-5": (
        1e-5,
        lambda rng, n: rng.standard_normal(n),
        lambda rng, n: rng.standard_normal(n) + 1,
    ),
    "subsampled Gaussian, q = 0.25, σ = 0.3, δ = 1e-5": (
        1e-5,
        lambda rng, n: 0.3 * rng.standard_normal(n),
        lambda rng, n: 0.3 * rng.standard_normal(n) + (rng.random(n) < 0.25),
    ),
    "Laplace, ε = 1, δ = 0": (
        0.0,
        lambda rng, n: rng.laplace(size=n),
        lambda rng, n: rng.laplace(size=n) + 1,
    ),
}


def rates(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Exact (FPR, TPR) of the events {score > t} on a fine grid of t."""
    t = np.linspace(-2, 8, 200_001)
    if name.startswith("Gaussian"):
        return special.ndtr(-t), special.ndtr(1 - t)
    if name.startswith("subsampled"):
        q = special.ndtr(-t / 0.3)
        return q, 0.25 * special.ndtr((1 - t) / 0.3) + 0.75 * q

    def tail(x: np.ndarray) -> np.ndarray:
        return np.where(x < 0, 1 - np.exp(x) / 2, np.exp(-np.abs(x)) / 2)

    return tail(t), tail(t - 1)


def oracle(name: str, n: int) -> float:
    """The bound of the best fixed threshold at its expected counts, rounded against it."""
    delta = CASES[name][0]
    fpr, tpr = rates(name)
    false, true = np.ceil(n * fpr), np.floor(n * tpr)
    usable = (n * fpr > 1e-3) & (true > 0) & (false < n)
    high = special.betainccinv(false[usable] + 1, n - false[usable], 0.025)
    low = special.betaincinv(true[usable], n - true[usable] + 1, 0.025)
    return float(np.log(np.maximum(low - delta, 1e-300) / high).max())


def bounds(name: str, n: int, repeats: int, seed: int) -> dict[str, np.ndarray]:
    """Certified bounds of every form, shape [repeats]."""
    delta, draw0, draw1 = CASES[name]
    rng = np.random.default_rng([seed, n])
    found: dict[str, list[float]] = {"raw": [], "raw, direction up": [], "streaming": []}
    found["betting"] = []
    query = Query((n, n), delta, 0.95, None)
    either, up = OrderStatistics(), OrderStatistics(direction="up")
    for _ in range(repeats):
        scores, pilot = ((draw0(rng, n), draw1(rng, n)) for _ in range(2))
        layout = PilotGrid().bind(*pilot)
        counts = np.stack([bin_counts(layout["edges"], part) for part in scores])
        estimates = {
            "raw": either.estimate_scores(scores, query, rng),
            "raw, direction up": up.estimate_scores(scores, query, rng),
            "streaming": either.estimate(layout, counts.astype(np.int64), query),
            "betting": Betting().estimate_scores(scores, query, rng),
        }
        for form, estimate in estimates.items():
            found[form].append(float(estimate.epsilon_lower or 0.0))
    return {form: np.array(values) for form, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**k for k in range(3, 8)])
    parser.add_argument("--repeats", type=int, default=200, help="at n = 1000; fewer for larger n")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in CASES:
        for n in options.sizes:
            repeats = max(6, round(options.repeats / (n / 1000) ** 0.4))
            limit = oracle(name, n)
            for form, values in bounds(name, n, repeats, options.seed).items():
                share, scatter = values.mean() / limit, values.std() / limit / repeats**0.5
                print(
                    f"{name} | {form} | n = {n:.0e} | oracle {limit:.4f} | mean {values.mean():.4f}"
                    f" | share {share:.3f} ± {scatter:.3f} | {repeats} repeats",
                    flush=True,
                )


if __name__ == "__main__":
    main()
