"""Every spec runs, small: every cell is judged or says why not, and the correct trainer is fine."""

from pathlib import Path

import pytest

import dpframe

SPECS = sorted((Path(__file__).parents[1] / "specs").glob("*.toml"))
SMALL = [
    *("audit.trials=40", "run.pilot=20", "mechanism.width=8", "pair.records=40"),
    *("mechanism.steps=3", "mechanism.batch=10"),
]
NEEDS_FIT = ("mistakes", "mistakes-record", "mistakes-sampling", "figure-08", "figure-10")
SOME = ("figure-08",)
OF_FIGURES = {"figure-08", "figure-09", "figure-10", "figure-12"}


FEW_CANARIES = {
    "one-run": ["audit.trials=8", "pair.records=40", "pair.count=20", *SMALL[2:3], *SMALL[4:]],
    "dp-fedavg": [
        *("audit.trials=2", "pair.clients=8", "pair.count=200", "mechanism.width=4"),
        *("mechanism.rounds=2", "mechanism.mistake=none", "estimator.guesses=[20, 200]"),
    ],
    "federated": ["audit.trials=8", "mechanism.count=20", "mechanism.dimension=[10, 20]"],
}
"""Specs of runs with many canaries."""


def few(spec):
    if spec.stem in FEW_CANARIES:
        return FEW_CANARIES[spec.stem]
    extra = ["run.fit=20"] if spec.stem in NEEDS_FIT else []
    mistakes = "none" if spec.stem == "mistakes-sampling" else "no-noise"
    return [
        *SMALL,
        *extra,
        *([f"mechanism.mistake={mistakes}"] if spec.stem.startswith("mistakes") else []),
    ]


def test_every_figure_has_a_spec():
    assert {spec.stem for spec in SPECS} >= OF_FIGURES


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(spec, id=spec.stem, marks=() if spec.stem in SOME else pytest.mark.slow)
        for spec in SPECS
    ],
)
def test_a_spec_runs_small(spec):
    record = dpframe.audit(spec, overrides=few(spec))
    assert record["cells"]
    assert record["skipped"] == []
    for cell in record["cells"]:
        assert cell["status"] == "ok", cell["reason"]
    honest = [
        cell for cell in record["cells"] if cell["swept"].get("mechanism.mistake") != "no-noise"
    ]
    assert all(cell["verdict"] != "violated" for cell in honest)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_a_spec_says_how_long_it_takes_and_how_to_run_more(spec):
    head = spec.read_text(encoding="utf-8").partition("schema = 1")[0]
    assert "on 2 cores" in head
    if spec.stem in OF_FIGURES:
        assert "--set audit.trials=" in head
