"""The steps of the GitHub action run as a workflow would run them."""

from __future__ import annotations

import os
import subprocess
import sys
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


# What a workflow writes, and the words that the program must get.
WRITTEN = {
    "tests/a tests/b": ["tests/a", "tests/b"],
    "tests/a\ntests/b\n": ["tests/a", "tests/b"],
    "tests/a\r\n\n\n  tests/b\r\n": ["tests/a", "tests/b"],
    "tests/a  # the fast ones, don't skip\n# \"all\ntests/b": ["tests/a", "tests/b"],
    "'tests/my claims' \"tests/it's\"": ["tests/my claims", "tests/it's"],
    "tests/a\\ b": ["tests/a b"],
    "tests/a \\\n  tests/b": ["tests/a", "tests/b"],
    "-k 'one or two' tests/a": ["-k", "one or two", "tests/a"],
    '-k "one\nor two"': ["-k", "one\nor two"],
    "test_*.py": ["test_1.py", "test_2.py"],
    "'**/test_3.py'": ["deep/er/test_3.py"],
    "none_*.py tests/b": ["none_*.py", "tests/b"],
    "test_1.py::test_x[1-a#2]": ["test_1.py::test_x[1-a#2]"],
    "a[1].py": ["a[1].py"],
    "$HOME `id` $(id); exit 0 | cat": ["$HOME", "`id`", "$(id);", "exit", "0", "|", "cat"],
    "": [],
    "  # nothing yet\n": [],
}


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of tests, with a pytest and a dpframe that record their arguments."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("test_1.py", "test_2.py", "deep/er/test_3.py", "a[1].py", "a1.py"):
        (tmp_path / name).touch()
    program = f"""#!/bin/sh
if [ "$1" = -m ]; then shift 2; elif [ "$1" != run ]; then exec {sys.executable} "$@"; fi
printf '%s\\0' "$@" >{tmp_path}/words
for junit; do :; done; junit=${{junit#--junitxml=}}
[ "$1" = run ] || echo '<testsuites/>' >"$junit"
"""
    for name in ("python", "dpframe"):
        (tmp_path / "bin" / name).write_text(program)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize("written", WRITTEN)
def test_every_word_of_the_tests_reaches_pytest(recorded: Path, written: str) -> None:
    done = audit(recorded, tests=written)
    assert done.returncode == 0, done.stderr
    *words, junit = (recorded / "words").read_text().split("\0")[:-1]
    assert words == WRITTEN[written]
    assert junit.startswith("--junitxml=")


def test_every_word_of_the_arguments_reaches_the_run(recorded: Path) -> None:
    done = audit(
        recorded, spec="a.toml\n", arguments="--fresh  # anew\n--set 'audit.name=my run'\n"
    )
    assert done.returncode == 0, done.stderr
    words = (recorded / "words").read_text().split("\0")[:-1]
    out = str(recorded / "dpframe")
    assert words == ["run", "a.toml", "--out", out, "--fresh", "--set", "audit.name=my run"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"tests": "tests/it's"}, "tests: no closing quotation"),
        ({"spec": "a.toml", "tests": "tests"}, "give spec or tests, not both"),
        ({"tests": "tests", "arguments": "--fresh"}, "which needs a spec"),
        ({"arguments": "-k noise"}, "which needs a spec"),
    ],
)
def test_inputs_that_would_be_ignored_fail_the_job(
    recorded: Path, inputs: dict[str, str], said: str
) -> None:
    done = audit(recorded, **inputs)
    assert done.returncode == 2
    assert f"::error title=dpframe::{said}" in done.stderr or said in done.stderr
    assert not (recorded / "words").exists()


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
