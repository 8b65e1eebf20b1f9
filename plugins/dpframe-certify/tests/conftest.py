"""Certificates that several modules check."""

from __future__ import annotations

from typing import Any

import pytest
from certify_support.certificates import EITHER, GIVEN, Coins, Curved, spec
from dpframe_certify import certificate

import dpframe


@pytest.fixture(scope="session")
def certificates() -> dict[str, dict[str, Any]]:
    """Return certificates of every theorem, and of every kind of claim that is recomputed."""
    curves = [
        {
            "use": "curved",
            "label": f"{curve}-{noise}",
            "params": {"curve": curve, "noise": noise},
        }
        for curve in ("gaussian", "sampled")
        for noise in (1.0, 0.3)
    ]
    specs = {
        "thresholds": spec(GIVEN, {"use": "histogram"}, delta=1e-3),
        "ranks": spec({"use": "order-statistics"}, trials=300),
        "one-run": {
            **spec({"use": "one-run"}, trials=5),
            "mechanism": [{"use": "coins"}],
            "attack": [{"use": "canaries"}],
        },
        "curves of one run": {
            **spec({"use": "one-run", "params": {"guesses": [50, 200], "side": "both"}}, trials=2),
            "mechanism": [
                {"use": "coins"},
                {"use": "coins", "label": "told", "params": {"epsilon": 1.5, "is_approx": True}},
            ],
            "attack": [{"use": "canaries"}],
        },
        "bets": spec({"use": "betting"}, {"use": "histogram-split"}, multiplicity="bonferroni"),
        "certified bets": spec({"use": "certified-betting"}, trials=300, delta=1e-3),
        "bets on curves": spec({"use": "certified-betting"}, trials=300, delta=1e-3),
        "few": spec(GIVEN, trials=4),
        "exact": spec({"use": "threshold"}, EITHER, trials=100, delta=1e-3),
        "exact curves": {**spec({"use": "threshold"}, trials=60, delta=1e-3), "mechanism": curves},
        "curves": {**spec(GIVEN, delta=1e-3, multiplicity="none"), "mechanism": curves},
    }
    specs["bets"]["mechanism"] = specs["bets"]["mechanism"][:1]
    specs["exact"]["mechanism"] = specs["exact"]["mechanism"][1:]
    specs["bets on curves"]["mechanism"] = curves[:4:3]
    told = {"use": "coins", "label": "curve", "params": {"epsilon": 2.0, "is_curve": True}}
    specs["one-run"]["mechanism"].append(told)
    made = {name: dpframe.audit(one, plugins=[Coins, Curved]) for name, one in specs.items()}
    return {name: certificate(record) for name, record in made.items()}
