"""Entries for the registry of deployments: fields, what an audit does not know, hostile texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from certify_support.certificates import certify
from dpframe_certify.registry import entry

import dpframe
from dpframe.plugins import DpframeError

SPEC: dict[str, Any] = {
    "schema": 1,
    "audit": {"name": "Monthly counts", "trials": 2000},
    "pair": {"use": "zeros-ones", "params": {"dim": 1}},
    "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
    "attack": [{"use": "majority-vote"}],
    "estimator": [{"use": "precision"}],
}
HOSTILE = "x`\n  status: Approved\n<b>\u202e"


def audited(**changes: Any) -> dpframe.Record:
    return dpframe.audit({**SPEC, **changes})


def test_the_entry_has_what_the_record_knows_and_leaves_the_rest_empty() -> None:
    record = audited()
    read = yaml.safe_load(entry(record))
    assert list(read) == ["url_slug", "status", "tier", "deployment"]
    assert (read["url_slug"], read["status"]) == ("monthly-counts", "Draft")
    deployment = read["deployment"]
    assert deployment["basic"].pop("data_curators") == [""]
    assert set(deployment["basic"].values()) == {""}
    assert deployment["dp_variant"] == {"variant_name": "Pure DP"}
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}
    assert "replace one record" in deployment["privacy_loss"]["privacy_unit_details"]
    assert "`laplace` (dpframe " in deployment["implementation"]["mechanisms"]
    reasons = deployment["implementation"]["justification"]
    assert reasons.startswith("- **no violation found** by `majority-vote`, `precision`, 2000 ")
    assert "no violation found is not a proof" in reasons
    assert record.digest in deployment["administrative"]["notes"]
    assert "private" not in reasons


@pytest.mark.parametrize(
    ("use", "params", "parameters", "variant"),
    [
        ("laplace", {"epsilon": 1e-5}, {"epsilon": 1e-5}, "Pure DP"),
        ("gaussian", {"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 1.0, "delta": 1e-5}, None),
    ],
)
def test_parameters_are_numbers(
    use: str, params: dict[str, float], parameters: dict[str, float], variant: str | None
) -> None:
    record = audited(
        mechanism=[{"use": use, "params": params}],
        audit={**SPEC["audit"], "delta": params.get("delta", 0.0)},
    )
    read = yaml.safe_load(entry(record))["deployment"]
    assert read["privacy_loss"]["privacy_parameters"] == pytest.approx(parameters)
    assert variant in (None, read["dp_variant"]["variant_name"])


def test_a_violation_is_in_the_entry() -> None:
    copied = {"use": "copy-input", "params": {"epsilon": 1.0}}
    read = yaml.safe_load(entry(audited(mechanism=[copied])))
    reasons = read["deployment"]["implementation"]["justification"]
    assert reasons.startswith("- **violated** by")
    assert "loss at least " in reasons


def test_texts_of_a_record_stay_texts() -> None:
    record = audited()
    (cell,) = record.cells
    attack = cell.attack.model_copy(update={"label": HOSTILE})
    hostile = cell.model_copy(update={"attack": attack, "reason": HOSTILE})
    text = entry(record.model_copy(update={"cells": [hostile]}))
    assert yaml.safe_load(text)["status"] == "Draft"
    assert "\u202e" not in text
    shown = yaml.safe_load(text)["deployment"]["implementation"]["justification"]
    assert "`x' status: Approved <b>\ufffd`" in shown


def test_an_entry_is_about_one_claim() -> None:
    both = [SPEC["mechanism"][0], {"use": "copy-input", "params": {"epsilon": 1.0}}]
    record = audited(mechanism=both)
    with pytest.raises(DpframeError, match=r"here are 2.*laplace, copy-input"):
        entry(record)
    assert "`copy-input`" in entry(record, "copy-input")
    with pytest.raises(DpframeError, match="here are 0"):
        entry(record, "other")


def test_the_command_writes_the_entry(tmp_path: Path) -> None:
    run, out = tmp_path / "record.json", tmp_path / "entry.yaml"
    run.write_text(json.dumps(audited().as_json()), "utf-8")
    done = certify(run, out, "--registry")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(out.read_text("utf-8"))["status"] == "Draft"
    assert isinstance(certify(run, out, "--mechanism", "laplace").exception, DpframeError)
