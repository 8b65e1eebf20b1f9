"""The steps of the GitHub action run as a workflow would run them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from support.pages import ROOT

SPEC = """
schema = 1
audit = { name = "claims", trials = 2000, confidence = 0.99 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace-half-scale", params = { epsilon = 1.0 } }]
attack = [{ use = "majority-vote" }]
estimator = [{ use = "precision" }]
"""
TEST = """
def test_noise():
    assert False, "no noise\\nat all"
"""


def audit(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step that audits, with the inputs that a workflow gives."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = (step for step in action["runs"]["steps"] if step.get("id") == "audit")
    chosen = {name: given["default"] for name, given in action["inputs"].items()} | inputs
    env = {name: chosen[name.lower()] for name in step["env"]}
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=os.environ | env | files | {"RUNNER_TEMP": str(folder), "GITHUB_ACTIONS": "true"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_installs_what_the_workflow_names_as_one_requirement(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = (step for step in action["runs"]["steps"] if step["name"] == "Install")
    assert step["env"] == {"INSTALL": "${{ inputs.install }}"}
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    python.chmod(0o755)
    env = os.environ | {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "INSTALL": "dpframe[all] @ file:///a b",
    }
    words = ["bash", "-c", step["run"]]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "-m|pip|install|--quiet|dpframe[all] @ file:///a b|"


def test_every_input_is_used_and_every_step_has_a_name() -> None:
    text = (ROOT / "action.yml").read_text()
    action = yaml.safe_load(text)
    for name in action["inputs"]:
        assert f"inputs.{name}" in text.partition("runs:")[2], name
    for step in action["runs"]["steps"]:
        assert step["name"]
        assert ("run" in step) != ("uses" in step)
        assert step.get("shell", "bash") == "bash"
        assert "${{" not in step.get("run", ""), (
            "an input could end the command: hand it over in env"
        )


@pytest.mark.slow
def test_a_violated_claim_fails_the_job_and_shows_in_its_summary(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(SPEC)
    done = audit(tmp_path, spec="claims.toml", arguments="--fresh -q")
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == f"record={tmp_path}/dpframe\n"
    assert "violated" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert "::error " in done.stdout + done.stderr
    assert {"record.json", "report.html", "junit.xml"} <= {
        path.name for path in (tmp_path / "dpframe").iterdir()
    }


@pytest.mark.slow
def test_without_a_spec_it_runs_tests_and_annotates_failures(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TEST)
    done = audit(tmp_path, tests="-q -p no:cacheprovider test_mine.py")
    assert done.returncode == 1
    assert "::error title=dpframe: test_noise::AssertionError: no noise%0A" in done.stdout


@pytest.mark.slow
def test_a_mistake_in_the_call_fails_the_job_too(tmp_path: Path) -> None:
    assert audit(tmp_path, spec="missing.toml").returncode == 2
