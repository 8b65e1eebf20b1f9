"""Every spec runs, small; a mechanism whose claim is true is not accused."""

from pathlib import Path

import pytest

import dpframe

SPECS = sorted((Path(__file__).parents[1] / "specs").glob("*.toml"))
WRONG = (
    *("noisy-histogram-2", "report-noisy-max-3", "report-noisy-max-4", "sparse-vector-3"),
    *("sparse-vector-4", "sparse-vector-5", "sparse-vector-6", "sparse-vector-3-4"),
)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_a_spec_runs_small(spec):
    draws = [f"{key}=4000" for key in ("audit.trials", "run.fit", "run.pilot")]
    record = dpframe.audit(spec, overrides=[*draws, "audit.confidence=0.999999"])
    assert record["cells"]
    for cell in record["cells"]:
        assert cell["status"] == "ok", cell["reason"]
        wrong = cell["mechanism"]["use"] in WRONG or cell["mechanism"]["label"].count(" ")
        assert wrong or cell["verdict"] != "violated", cell["mechanism"]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_a_spec_says_how_long_it_takes(spec):
    head = spec.read_text(encoding="utf-8").partition("schema = 1")[0]
    assert "on 2 cores" in head
