"""Histograms beside order statistics: the table of docs/explanation/scores-to-bounds.md.

Run from the root of the repository; prints the rows of the table:

    python tests/benchmarks/histograms.py [--seed 0]

Not a test: it takes some minutes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import dpframe
from dpframe import Mechanism

if TYPE_CHECKING:
    from dpframe import Array, Key


class BothSides(Mechanism, name="both-sides"):
    """Laplace noise of scale ½ on D; on D′ the same around 1 or around −1."""

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noise, side = jax.random.split(key)
        sign = jax.random.rademacher(side, (n, 1), data.dtype)
        return sign * data + jax.random.laplace(noise, (n, 1), data.dtype) / 2


MECHANISMS: list[tuple[str, float, dict[str, Any]]] = [
    ("Gaussian, μ = 1, 1e-5, 4.377", 1e-5, {"use": "gaussian", "params": {"sigma": 1.0}}),
    (
        "subsampled Gaussian, q = 0.25, σ = 0.3, 1e-5, 16.66",
        1e-5,
        {
            "use": "subsampled-gaussian",
            "params": {"sampling_probability": 0.25, "noise_multiplier": 0.3},
        },
    ),
    ("Laplace, b = 1, 0, 1.0", 0.0, {"use": "laplace", "params": {"epsilon": 1.0}}),
    ("Laplace, b = ½, against both ±1, 1e-5, 2.0", 1e-5, {"use": "both-sides"}),
]

ESTIMATORS = [
    {"use": "order-statistics"},
    {"use": "histogram-split"},
    {"use": "histogram", "label": "20 bins", "params": {"bins": 20}},
    {"use": "histogram", "label": "Canonne", "params": {"bins": 20, "sharp": False}},
    {"use": "histogram", "label": "Scott"},
]

TRIALS, REPEATS = 1_000_000, 20


def bounds(mechanism: dict[str, Any], delta: float, seed: int) -> np.ndarray:
    """Certified bounds, shape [estimators, repeats]."""
    record = dpframe.audit(
        {
            "schema": 1,
            "audit": {
                "name": "histograms",
                "seed": seed,
                "trials": TRIALS,
                "delta": delta,
                "repeats": REPEATS,
                "multiplicity": "none",
            },
            "pair": {"use": "zeros-ones"},
            "mechanism": [mechanism],
            "attack": [{"use": "identity"}],
            "estimator": ESTIMATORS,
            "run": {"precision": "float64", "pilot": 100_000},
        },
        plugins=[BothSides],
    )
    found: dict[str, list[float]] = {}
    for cell in record["cells"]:
        bound = float(cell["estimate"]["epsilon_lower"])
        found.setdefault(cell["estimator"]["label"], []).append(bound)
    return np.array(list(found.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, delta, mechanism in MECHANISMS:
        found = bounds(mechanism, delta, options.seed)
        error = found.std(axis=1, ddof=1) / REPEATS**0.5
        cells = " | ".join(
            f"{mean:.3f} ± {se:.3f}" for mean, se in zip(found.mean(axis=1), error, strict=True)
        )
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
