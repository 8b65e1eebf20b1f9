"""Audits of curve claims from end to end: verdict, reason and record."""

from __future__ import annotations

import json
from typing import Any

import dp_accounting as dp
import jax
import numpy as np
import pytest

import dpframe
from dpframe import (
    AccountedDP,
    Claim,
    GaussianDP,
    RenyiDP,
    SubsampledGaussianDP,
    ZeroConcentratedDP,
)
from dpframe.results import store as records

SPEC = {
    "schema": 1,
    "audit": {"name": "curves", "trials": 50_000, "seed": 5},
    "pair": {"use": "zeros-ones"},
    "attack": [{"use": "identity"}],
    "estimator": [{"use": "order-statistics"}],
}

CLAIMS: dict[str, Claim] = {
    "gaussian": GaussianDP(1.0),
    "concentrated": ZeroConcentratedDP(0.5),
    "renyi": RenyiDP(6.0, 3.0),
    "accounted": AccountedDP(dp.GaussianDpEvent(1.0), 1e-2),
    "sampled": SubsampledGaussianDP(0.9, 0.85),
}
"""All true of μ = 1, the last because what is sampled has μ = 1/0.85."""


class Shifted(dpframe.Mechanism, name="shifted"):
    """N(0, 1) on D and N(μ, 1) on D′, whatever is claimed."""

    mu: float
    claimed: float
    """Number of the claim: a float is traced, so that one program draws for all of them."""

    def claim(self, pair: dpframe.Pair) -> Claim:
        return list(CLAIMS.values())[int(self.claimed)]

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return self.mu * data + jax.random.normal(key, (n, 1))


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, float], dict[str, Any]]:
    """Each claim, of a mechanism that keeps it and of one that does not."""
    numbers = [float(i) for i in range(len(CLAIMS))]
    start = {"mu": 1.0, "claimed": 0.0}
    spec = SPEC | {
        "mechanism": [{"use": "shifted", "params": start}],
        "sweep": {"mechanism.mu": [1.0, 1.6], "mechanism.claimed": numbers},
    }
    record = dpframe.audit(spec, plugins=[Shifted])
    assert not record["summary"]["failed"]
    strict = json.loads(records.dumps(record))
    swept = [cell["swept"] for cell in strict["cells"]]
    names = [list(CLAIMS)[int(values["mechanism.claimed"])] for values in swept]
    keys = [(name, values["mechanism.mu"]) for name, values in zip(names, swept, strict=True)]
    return dict(zip(keys, strict["cells"], strict=True))


@pytest.mark.parametrize("name", CLAIMS)
def test_true_claims_stand_and_false_ones_fall(cells, name: str) -> None:
    """A fixed seed: the true ones would be rejected for one seed in twenty, all together."""
    assert cells[name, 1.0]["verdict"] == "consistent"
    assert cells[name, 1.6]["verdict"] == "violated"


@pytest.mark.parametrize("name", CLAIMS)
def test_the_reason_names_the_delta_where_it_failed(cells, name: str) -> None:
    """At δ = 1e-5, where ε is reported, so few trials show nothing."""
    cell = cells[name, 1.6]
    assert cell["claim"]["delta"] == 1e-5
    assert cell["estimate"]["epsilon_lower"] < cell["claim"]["epsilon"]
    found = cell["reason"].split("at δ = ")
    assert len(found) == 2, cell["reason"]
    delta = float(found[1].split(",")[0])
    assert delta > 1e-3
    claimed = float(found[1].rsplit("claimed ", 1)[1])
    assert claimed == pytest.approx(CLAIMS[name].epsilon_at(delta), rel=1e-3)


@pytest.mark.parametrize("name", CLAIMS)
def test_the_record_holds_the_claim(cells, name: str) -> None:
    claim, found = CLAIMS[name], cells[name, 1.0]["claim"]
    assert found["kind"] == claim.kind
    assert found["parameters"] == claim.parameters()
    x, y = np.array(found["tradeoff"]).T
    assert y == pytest.approx(claim.tradeoff(x), abs=1e-12)


def test_points_and_curve_say_what_the_verdict_says(cells) -> None:
    """Some certified point of a false claim is below its curve; none of a true one is."""
    for (name, mu), cell in cells.items():
        x, y = np.array(cell["estimate"]["tradeoff"]).T
        below = bool(np.any(CLAIMS[name].tradeoff(x) > y))
        assert below == (mu == 1.6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"spec": None}, "spec: None is neither a path nor a mapping"),
        ({"spec": b"x"}, "neither a path nor a mapping"),
        ({"overrides": [3]}, "overrides: .* is not a list of texts"),
        ({"overrides": "audit.trials=3"}, "overrides: .* is not a list of texts"),
        ({"plugins": dpframe.Claim}, "plugins: .* is not a list of classes and paths"),
        ({"plugins": "box.py"}, "plugins: .* is not a list of classes and paths"),
        ({"pythons": 3}, "pythons: 3 is not a mapping"),
    ],
)
def test_arguments_of_other_types_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dpframe.DpframeError, match=message):
        dpframe.audit(**{"spec": SPEC, **arguments})
