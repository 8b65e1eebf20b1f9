"""No attack certifies more than a mechanism loses, and the likelihood ratio most of it.

False-alarm rate: 1e-6 for each test, divided among its bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.outputs import ATTACKS, fitted, outputs, resolved, score
from support.tiers import mostly_slow

import dpframe
from dpframe import Query
from dpframe.builtin.order_statistics import OrderStatistics

DRAWS = 100_000
EXACT: list[tuple[str, dict[str, Any]]] = [
    ("gaussian", {"sigma": 1.0}),
    ("gaussian", {"epsilon": 2.0, "delta": 1e-3}),
    ("subsampled-gaussian", {"sampling_probability": 0.25, "noise_multiplier": 0.3}),
    ("randomized-response", {"epsilon": 1.0}),
    ("geometric", {"epsilon": 1.0}),
    ("laplace", {"epsilon": 1.0}),
    ("laplace-halved", {"epsilon": 1.0}),
    ("random-output", {"epsilon": 1.0}),
]
PLAYED = {
    1: ["likelihood-ratio", "histogram-ratio", "identity"],
    5: ["likelihood-ratio", "logistic"],
}


def bound(attack: str, mechanism: Any, pair: Any, delta: float) -> float:
    player = ATTACKS[attack].from_params({})
    state = fitted(player, mechanism, pair, outputs(mechanism, pair, 20_000, seed=1))
    d0, d1 = (score(player, state, part) for part in outputs(mechanism, pair, DRAWS, seed=2))
    query = Query((DRAWS, DRAWS), delta, 1 - 1e-6 / (2 * len(EXACT) * len(PLAYED)), None)
    found = OrderStatistics().estimate_scores((d0, d1), query, np.random.default_rng(0))
    assert found.epsilon_lower is not None
    return found.epsilon_lower


@pytest.mark.parametrize(
    ("dim", "mechanisms"), mostly_slow([(1, EXACT[::2]), (1, EXACT[1::2]), (5, EXACT)], [0])
)
def test_bounds_stay_below_the_truth(dim: int, mechanisms: Any) -> None:
    for use, params in mechanisms:
        mechanism, pair = resolved(use, params, dim)
        truth = mechanism.truth(pair) or mechanism.claim(pair)
        delta = truth.default_delta if use != "gaussian" else 1e-3
        bounds = [bound(attack, mechanism, pair, delta) for attack in PLAYED[dim]]
        loss = truth.epsilon_at(delta)
        assert max(bounds) <= loss, (use, bounds)
        # Non-vacuity, of the likelihood ratio; at dim 5 pure ε takes an event too rare to see.
        share = {1: 0.9, 5: 0.5}[dim] if delta == 0 else 0.3
        assert bounds[0] >= share * loss, (use, bounds)
        assert bounds[0] >= 0.97 * max(bounds), (use, bounds)


@pytest.mark.slow
def test_what_floating_point_leaks_is_seen_on_request_only() -> None:
    """Mironov (2012): without rounding, the same attack convicts a correct mechanism."""
    document = {
        "schema": 1,
        "audit": {"name": "t", "trials": 100_000, "confidence": 1 - 1e-6},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
        "attack": [
            {"use": "likelihood-ratio"},
            {"use": "likelihood-ratio", "label": "low bits", "params": {"low_bits": True}},
        ],
        "estimator": [{"use": "order-statistics"}],
        "run": {"precision": "float64"},
    }
    rounded, raw = dpframe.audit(document)["cells"]
    assert 0.9 < rounded["estimate"]["epsilon_lower"] <= 1.0
    assert rounded["verdict"] == "consistent"
    assert raw["estimate"]["epsilon_lower"] > 2
    assert raw["verdict"] == "violated"
