"""Violated cells on fixed pairs name their event and show outputs in it and outside it."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process
from typer.testing import CliRunner

import dpframe
from dpframe import HostMechanism, PureDP
from dpframe.builtin.fixed_attacks import Projection
from dpframe.cli import app
from dpframe.common import machine
from dpframe.report.findings import caveats
from dpframe.report.witness import as_toml
from dpframe.results.model import CellRecord

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")


class Leaky(HostMechanism, name="leaky"):
    """Releases the data with far too little noise."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(0.5)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return np.asarray(data) + rng.normal(0, 0.6, (n, 2))


def audit(
    mechanism: str,
    attack: dict[str, Any],
    estimator: str,
    threshold: float | None = None,
    **run: Any,
) -> dpframe.Record:
    params = {} if mechanism == "leaky" else {"epsilon": 0.5}
    spec = {
        "schema": 1,
        "audit": {"name": "events", "trials": 2_000},
        "pair": {"use": "zeros-ones", "params": {"dim": 2}},
        "mechanism": [{"use": mechanism, "params": params}],
        "attack": [attack],
        "estimator": [
            {"use": estimator, "params": {} if threshold is None else {"threshold": threshold}}
        ],
        "run": run,
    }
    return dpframe.audit(spec, plugins=[Leaky])


def in_event(event: str, output: str) -> bool:
    """Evaluate an event of the attacks below on an output, as the report shows both."""
    first, second = (float(number) for number in output.strip("()").split(","))
    if "decides" in event:
        return (round(first) + round(second) >= 1) == event.endswith("D′")
    edge = float(event.rpartition("less than ")[2].removesuffix(" or more").rpartition(" ")[2])
    score = (first + second - 1) / math.sqrt(2)  # along the line from zeros to ones
    return (score < edge) == ("less than" in event)


@pytest.mark.parametrize(
    ("estimator", "threshold"), [("threshold", None), ("threshold", 1.5), ("betting", None)]
)
def test_examples_lie_on_their_side_of_the_event(estimator: str, threshold: float | None) -> None:
    attack = {"use": "projection"}
    (cell,) = audit("laplace-half-scale", attack, estimator, threshold).cells
    found = cell.event
    assert cell.verdict == "violated"
    assert found is not None
    assert len(found.inside) == len(found.outside) == 3
    assert all(in_event(found.event, output) for output in found.inside)
    assert not any(in_event(found.event, output) for output in found.outside)
    assert (found.hits[1] > found.hits[0]) == (found.more_likely == "D′")
    assert found.trials == cell.trials
    assert threshold is None or found.event.endswith(("less than 1.5", "1.5 or more"))


def test_the_report_shows_the_event_of_decisions() -> None:
    record = audit("laplace-half-scale", {"use": "majority-vote"}, "precision")
    (cell,) = record.cells
    assert cell.event is not None
    wrong, right = np.array(cell.counts)[:, int(cell.event.event.endswith("D′"))]
    assert cell.event.hits == [wrong, right]
    told = list(caveats(record))
    assert told[0].startswith("Event against laplace-half-scale: majority-vote answered D")
    assert told[1] == f"Outputs in this event: {'; '.join(cell.event.inside)}."
    assert f"# {told[2]}" in as_toml(cell, record).splitlines()


def test_outputs_of_black_boxes_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on has other outputs at hand, and its record must be the same."""
    sample_in_this_process(monkeypatch)
    (cell,) = audit("leaky", {"use": "projection"}, "threshold").cells
    assert cell.event is not None
    assert (cell.event.inside, cell.event.outside) == ([], [])


def test_a_run_that_finds_all_counts_stored_shows_the_same_event(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        """
        schema = 1
        audit = { name = "events", trials = 2000 }
        pair = { use = "zeros-ones", params.dim = 2 }
        mechanism = [{ use = "laplace-half-scale", params.epsilon = 0.5 }]
        attack = [{ use = "projection" }]
        estimator = [{ use = "threshold" }]
        """
    )
    call = ["run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out"), "--quiet"]
    found = []
    for _ in range(2):
        CliRunner().invoke(app, call)
        record = tmp_path / "out" / "record.json"
        found.append(json.loads(record.read_text(encoding="utf-8"))["cells"][0]["event"])
        record.unlink()  # judged again, from the checkpoint
    assert found[0] == found[1]
    assert len(found[1]["inside"]) == 3


@pytest.mark.slow
def test_words_that_hang_cost_the_event_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(machine, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(Projection, "words", lambda *_: over.wait())
    try:
        attack = {"use": "projection"}
        (cell,) = audit("laplace-half-scale", attack, "threshold", seconds=4.0).cells
    finally:
        over.set()
    assert (cell.verdict, cell.event) == ("violated", None)


def test_a_claim_that_is_not_refuted_gets_no_event() -> None:
    (cell,) = audit("laplace", {"use": "majority-vote"}, "precision").cells
    assert cell.event is None


def test_a_record_without_the_field_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    (cell,) = audit("leaky", {"use": "majority-vote"}, "precision").cells
    old = {key: value for key, value in cell.model_dump(mode="json").items() if key != "event"}
    assert CellRecord.model_validate_json(json.dumps(old)).event is None
