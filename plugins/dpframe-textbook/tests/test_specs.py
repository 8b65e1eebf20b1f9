"""Every spec runs in a small form; no violation is reported for a true claim."""

from pathlib import Path

import pytest

import dpframe

SPECS = sorted((Path(__file__).parents[1] / "specs").glob("*.toml"))
PAIRS = [spec for spec in SPECS if not spec.stem.startswith("search-")]
SEARCHES = [spec for spec in SPECS if spec.stem.startswith("search-")]
SOME = ("one-answer", "stability", "metric-plane", "metric-words", "search-stability")
WRONG = (
    *("noisy-histogram-2", "report-noisy-max-3", "report-noisy-max-4", "sparse-vector-3"),
    *("sparse-vector-4", "sparse-vector-5", "sparse-vector-6", "sparse-vector-3-4"),
)


def stem(spec):
    return spec.stem


def marked(spec):
    return pytest.param(spec, id=spec.stem, marks=() if spec.stem in SOME else pytest.mark.slow)


def demand_no_false_alarm(record):
    assert record["cells"]
    for cell in record["cells"]:
        assert cell["status"] == "ok", cell["reason"]
        wrong = cell["mechanism"]["use"] in WRONG or cell["mechanism"]["label"].count(" ")
        assert wrong or cell["verdict"] != "violated", cell["mechanism"]


def demand_slack_that_adds_up(record):
    for cell in record.cells:
        if cell.claim and cell.estimate.certified:
            parts = cell.slack.model_dump(exclude={"limit"}, exclude_none=True)
            whole = cell.claim.epsilon - cell.estimate.epsilon_lower
            assert sum(parts.values()) == pytest.approx(whole, abs=1e-9)


@pytest.mark.parametrize("spec", [marked(spec) for spec in PAIRS])
def test_a_spec_runs_small(spec):
    draws = [f"{key}=4000" for key in ("audit.trials", "run.fit", "run.pilot")]
    record = dpframe.audit(spec, overrides=[*draws, "audit.confidence=0.999999"])
    demand_no_false_alarm(record)
    demand_slack_that_adds_up(record)


@pytest.mark.parametrize("spec", [spec for spec in SEARCHES if spec.stem in SOME], ids=stem)
def test_a_search_runs_small(spec):
    overrides = ["audit.trials=20_000", "audit.confidence=0.999999"]
    record = dpframe.audit(spec, overrides=overrides)
    demand_no_false_alarm(record)
    demand_slack_that_adds_up(record)


@pytest.mark.slow
@pytest.mark.parametrize("spec", SEARCHES, ids=stem)
def test_a_search_finds_what_it_is_expected_to(spec):
    fewer = ["audit.trials=3_000_000"] if spec.stem == "search-bounds" else []
    record = dpframe.audit(spec, overrides=fewer)
    demand_no_false_alarm(record)
    demand_slack_that_adds_up(record)
    for cell in record["cells"]:
        assert cell["expected"] in (None, cell["verdict"]), cell["mechanism"]


@pytest.mark.parametrize("spec", SPECS, ids=stem)
def test_a_spec_says_how_long_it_takes(spec):
    head = spec.read_text(encoding="utf-8").partition("schema = 1")[0]
    assert "on 2 cores" in head
