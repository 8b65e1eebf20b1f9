"""Certificates made by dpframe or by hand, and calls of their checker."""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import certcheck
import dpframe_certify
import jax
import jax.numpy as jnp
import numpy as np
from dpframe_certify import canonical
from typer.testing import CliRunner

from dpframe import ApproxDP, GaussianDP, PureDP, SubsampledGaussianDP
from dpframe.claims import LaplaceDP
from dpframe.plugins import Mechanism
from dpframe.stats.output_bets import Lines, largest_sum_of_line, lines

CHECKER = Path(certcheck.__file__)
CLOSE = 2e-6  # the checker's relative tolerance of a bound, twice
ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class Coins(Mechanism, name="coins"):
    """Scores of 200 canaries with independent coins, identified as by randomized response."""

    canaries = True
    epsilon: float = 1.0
    is_curve: bool = False
    is_approx: bool = False

    def claim(self, pair: Any) -> Any:
        if self.is_approx:
            return ApproxDP(2 * self.epsilon, 1e-5)
        return GaussianDP(self.epsilon) if self.is_curve else PureDP(self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        del data
        first, second = jax.random.split(key)
        member = jax.random.bernoulli(first, 0.5, (n, 200))
        honest = jax.random.uniform(second, (n, 200)) < jax.nn.sigmoid(2 * self.epsilon)
        return jnp.stack([member == honest, member], axis=1).astype(jnp.float32)


class Curved(Mechanism, name="curved"):
    """Noise for a shift of 1, with claims that are curves."""

    curve: str = "gaussian"
    noise: float = 1.0

    def claim(self, pair: Any) -> Any:
        sampled = SubsampledGaussianDP(0.25, 0.5)
        return {"gaussian": GaussianDP(1.0), "laplace": LaplaceDP(1.0)}.get(self.curve, sampled)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        draw = jax.random.laplace if self.curve == "laplace" else jax.random.normal
        return self.noise * draw(key, (n, 1)) + data[:1]


def spec(*estimators: dict[str, Any], **audit: Any) -> dict[str, Any]:
    laplace = {"use": "laplace", "params": {"epsilon": 1.0}}
    half = {"use": "laplace-half-scale", "params": {"epsilon": 1.0}}
    gaussian = {"use": "gaussian", "params": {"epsilon": 1.0, "delta": 1e-5}}
    return {
        "schema": 1,
        "audit": {"name": "certified", "trials": 1000, **audit},
        "pair": {"use": "zeros-ones"},
        "mechanism": [laplace, half, gaussian],
        "attack": [{"use": "identity"}],
        "estimator": list(estimators),
        "run": {"pilot": 500},
    }


GIVEN = {"use": "threshold", "params": {"threshold": 0.5, "limits": "clopper-pearson"}}

EITHER = {"use": "threshold", "label": "either", "params": {"threshold": 0.5}}


def written(contents: dict[str, Any]) -> str:
    """A certificate with a digest of its own, as a forger would write it."""
    rest = {key: value for key, value in contents.items() if key != "digest"}
    digest = hashlib.sha256(canonical(rest).encode()).hexdigest()
    return canonical({**rest, "digest": f"sha256:{digest}"}) + "\n"


def checked(contents: dict[str, Any]) -> dict[int, str]:
    return certcheck.check(json.loads(written(contents), parse_float=Decimal))


def code(text: str, folder: Path) -> int:
    """Return the exit code of the checker on a text."""
    file = folder / "cert.json"
    file.write_text(text)
    return certcheck.main([str(file)])


def first(contents: Any) -> Any:
    return contents["conclusions"][0]


@functools.cache
def tangents(claim: Any, raised: float) -> Lines:
    """Return many lines of a claim, with all rates raised."""
    losses = np.linspace(0, 12, 600)
    if isinstance(claim, ApproxDP):
        losses = np.array([claim.epsilon])
    deltas = np.array([claim.delta_at(loss) for loss in losses.tolist()])
    return lines(np.exp(losses), deltas + raised * (1 + np.exp(losses)))


def scaled(row: list[Any], epsilon: float) -> list[Any]:
    """Scale the weights of two groups of a bet with half of the wealth to S = 2 against ε-DP."""
    against, way, number, k, k_true, right, wrong = row
    g, h = np.array([right, wrong]), np.array([wrong, right])
    half = largest_sum_of_line(g, h, np.exp(np.array(epsilon)), np.zeros(())) / 2
    rows = zip((k, k_true), (k_true, k), g / half, h / half, strict=True)
    return [[against, way, number, *each[:2], float(each[2]), float(each[3]), 0.5] for each in rows]


STRONG = scaled([2, 0, 1, 240, 10, 0.8, 0.2], 1.0)
WEAK = scaled([2, 0, 1, 140, 110, 0.8, 0.2], 1.0)
MOST = scaled([2, 0, 1, 300, 0, 0.9, 0.1], 1.0)


def of_bets(
    verdict: str, terms: list[Any], bound: float = 0.0, name: str = "one", confidence: float = 0.95
) -> dict[str, Any]:
    """Return a conclusion from bets against 1-DP on at most 300 draws from each dataset."""
    return {
        **{"id": name, "repeat": 0, "seed": 0, "trials": [300, 300], "verdict": verdict},
        "claim": {"kind": "pure-dp", "parameters": {"epsilon": 1.0, "delta": 0.0}, "profile": []},
        "estimate": {
            **{"delta": 0.0, "confidence": confidence, "epsilon_lower": bound},
            "evidence": {"theorem": "betting", "terms": terms},
        },
        "basis": {
            **{"confidence": 0.95, "look": 1, "resolution": 0.0},
            "extreme": {"theorem": "betting", "terms": MOST},
        },
    }


def code_of_bets(folder: Path, *conclusions: dict[str, Any]) -> int:
    m = len({one["id"] for one in conclusions})
    audit = {
        "name": "bets",
        "m": m,
        "confidence": 0.95,
        "multiplicity": "holm",
        "looks": max(one["basis"].get("look", 1) for one in conclusions),
    }
    verdicts = Counter(one["verdict"] for one in conclusions)
    summary = {name: verdicts[name] for name in ("violated", "consistent", "inconclusive")}
    told = {
        **{
            "certificate": 1,
            "audit": audit,
            "failed": 0,
            "spec": {},
            "summary": summary | {"m": m},
        },
        "conclusions": list(conclusions),
    }
    return code(written(told), folder)


def certify(run: Path, out: Path, *more: Any) -> Any:
    words = [str(run), "-o", str(out), *map(str, more)]
    return CliRunner().invoke(dpframe_certify.app, words)
