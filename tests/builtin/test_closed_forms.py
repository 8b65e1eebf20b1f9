"""Every built-in mechanism, voted on, against its closed form: counts, not log ratios.

False-alarm rate: 1e-6 for each test, divided among its counts.
"""

from __future__ import annotations

import pytest
from support.black_boxes import sample_in_this_process
from support.tiers import mostly_slow
from support.vote_closed_forms import count_p_value, vote_rates

import dpframe

DIMS = {"float32": [1, 2, 3, 5, 8, 17, 32, 100], "float64": [1, 2, 17]}
"""Odd and even, of one word and of several; each is a program to compile for each mechanism."""
EPSILONS = [0.1, 0.7, 2.0, 10.0]
VARIANTS = [
    ("laplace", {}),
    ("laplace-shifted", {}),
    ("laplace-numpy", {}),
    ("adept", {}),
    ("dptext-zero", {"nan": "zero"}),
    ("dptext-resample", {"nan": "resample"}),
    ("dptext-keep", {"nan": "keep"}),
    ("laplace-halved", {}),
    ("laplace-half-scale", {}),
    ("copy-input", {}),
    ("random-output", {}),
]
FEW = [VARIANTS[0], VARIANTS[5]]


@pytest.fixture(autouse=True)
def _without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)


def spec(mechanism: str, params: dict[str, object], **more: object) -> dict[str, object]:
    use = "dptext" if mechanism.startswith("dptext") else mechanism
    return {
        "schema": 1,
        "audit": {"name": "closed-form", "trials": 40_000, "seed": 5},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": use, "params": {"epsilon": 1.0, **params}}],
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": "precision"}],
        "sweep": {"mechanism.epsilon": EPSILONS, "pair.dim": [2]},
        **more,
    }


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "params"), VARIANTS, ids=[name for name, _ in VARIANTS])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_counts(mechanism: str, params: dict[str, object], precision: str) -> None:
    dims = DIMS[precision]
    document = spec(mechanism, params, run={"precision": precision})
    document["sweep"] = {"mechanism.epsilon": EPSILONS, "pair.dim": dims}
    cells = dpframe.audit(document)["cells"]
    assert len(cells) == len(EPSILONS) * len(dims)
    worst = 1.0
    for cell in cells:
        assert cell["status"] == "ok", cell["reason"]
        epsilon, dim = cell["mechanism"]["params"]["epsilon"], cell["pair"]["params"]["dim"]
        for row, rate in zip(cell["counts"], vote_rates(mechanism, epsilon, dim), strict=True):
            assert sum(row) == 40_000
            worst = min(worst, count_p_value(row[1], 40_000, rate))
    assert worst > 1e-6 / (2 * len(cells)), mechanism


@pytest.mark.parametrize(
    ("variants", "precision", "dim", "epsilons"),
    mostly_slow(
        [
            (VARIANTS, "float32", 2, [0.7]),
            (VARIANTS, "float32", 2, EPSILONS),
            (FEW, "float32", 33, EPSILONS),
            (FEW, "float64", 2, EPSILONS),
        ],
        [0],
    ),
    ids=["one epsilon", "all", "many coordinates", "double precision"],
)
def test_counts_of_one_audit(
    variants: list[tuple[str, dict[str, object]]], precision: str, dim: int, epsilons: list[float]
) -> None:
    """No class gets another's program: several classes have the same fields."""
    document = spec("laplace", {}, run={"precision": precision})
    document["mechanism"] = [
        {"use": spec(name, {})["mechanism"][0]["use"], "label": name,
         "params": {"epsilon": 1.0, **params}}
        for name, params in variants
    ]  # fmt: skip
    document["sweep"] = {"mechanism.epsilon": epsilons, "pair.dim": [dim]}
    cells = dpframe.audit(document)["cells"]
    assert len(cells) == len(variants) * len(epsilons)
    worst = {}
    for cell in cells:
        assert cell["status"] == "ok", cell["reason"]
        name = cell["mechanism"]["label"]
        rates = vote_rates(name, cell["mechanism"]["params"]["epsilon"], dim)
        for row, rate in zip(cell["counts"], rates, strict=True):
            assert sum(row) == 40_000
            p_value = count_p_value(row[1], 40_000, rate)
            worst[name] = min(worst.get(name, 1.0), p_value)
    assert min(worst.values()) > 1e-6 / (2 * len(cells)), worst


def test_the_oracle_can_tell_mechanisms_apart() -> None:
    """Non-vacuity: the counts of a planted bug do not pass for the correct mechanism."""
    document = spec("laplace-half-scale", {})
    cells = dpframe.audit(document)["cells"]
    worst = min(
        count_p_value(
            cell["counts"][0][1],
            40_000,
            vote_rates(
                "laplace", cell["mechanism"]["params"]["epsilon"], cell["pair"]["params"]["dim"]
            )[0],
        )
        for cell in cells
    )
    assert worst < 1e-12
