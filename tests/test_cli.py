"""The command line as a user meets it: exit codes, streams, and that a process ends with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
import typer
from support.command_line import dpframe, worked
from support.processes import DPFRAME, run as run_process

SMALL = ["--trials", "5000", "--set", "pair.dim=2", "--set", "mechanism.epsilon=1.0"]


@pytest.fixture(scope="module")
def spec(root: Path) -> Path:
    return root / "specs" / "quick.toml"


@pytest.fixture(scope="module")
def finished(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A directory with one finished run, and what it printed."""
    directory = tmp_path_factory.mktemp("run")
    done = run_process(*DPFRAME, "run", spec, *SMALL, cwd=directory)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return directory, done.stdout


def test_a_run_leaves_a_record_and_a_plain_report(finished: tuple[Path, str]) -> None:
    directory, printed = finished
    record = json.loads((directory / "runs" / "quick" / "record.json").read_text())
    assert record["summary"]["violated"] == 2
    assert "\x1b" not in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert "2 of 3 claims violated" in printed


def test_show_prints_the_same(finished: tuple[Path, str]) -> None:
    directory, printed = finished
    assert dpframe("show", "runs/quick", cwd=directory).stdout == printed
    shown = dpframe("show", "runs/quick/record.json", "--json", cwd=directory).stdout
    assert json.loads(shown)["schema"] == 1


@pytest.mark.usefixtures("usual_chunks")  # as the process had that ran first
def test_an_identical_run_is_not_repeated_and_fresh_repeats_it(
    finished: tuple[Path, str], spec: Path
) -> None:
    directory, printed = finished
    file = directory / "runs" / "quick" / "record.json"
    before = file.stat().st_mtime_ns
    assert dpframe("run", spec, *SMALL, cwd=directory).stdout == printed
    assert file.stat().st_mtime_ns == before
    again = dpframe("run", spec, *SMALL, "--fresh", "--json", "--quiet", cwd=directory)
    assert file.stat().st_mtime_ns > before
    record = json.loads(again.stdout)
    assert record["cells"] == [
        {**new, "seconds": old["seconds"]}
        for new, old in zip(json.loads(file.read_text())["cells"], record["cells"], strict=True)
    ]


def test_an_unexpected_violation_exits_1(spec: Path, tmp_path: Path) -> None:
    text = spec.read_text().replace('verdict = "violated"', 'verdict = "consistent"')
    (tmp_path / "wrong.toml").write_text(text)
    done = dpframe("run", "wrong.toml", *SMALL, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


MISTAKES = [
    (["run", "missing.toml"], "no such file"),
    (["run", "."], "is a directory"),
    (["run", "syntax.toml"], "syntax.toml:2"),
    (["run", "{spec}", "--trials", "0"], "--trials"),
    (["run", "{spec}", "--set", "pair.dim=0"], "pair.dim"),
    (["run", "{spec}", "--set", "mechanism.epsilom=1"], "did you mean"),
    (["run", "{spec}", "--out", "a-file"], "a-file: cannot write there"),
    (["run", "{spec}", "--out", "a-file/below"], "a-file/below: cannot write there"),
    (["run", "{spec}", "--device", "abacus"], "abacus"),
    (["run"], "Missing argument"),
    (["run", "{spec}", "--bogus"], "No such option"),
    (["check", "broken.toml"], "did you mean 'epsilon'?"),
    (["plan", "broken.toml"], "did you mean 'epsilon'?"),
    (["show", "nowhere"], "there is no such record"),
    (["show", "a-file"], "not JSON"),
    (["plugins", "laplase"], "did you mean 'laplace'?"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_exit_2_with_one_clear_message(
    arguments: list[str], message: str, spec: Path, tmp_path: Path
) -> None:
    (tmp_path / "syntax.toml").write_text("schema = 1\n[audit\n")
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "broken.toml").write_text(
        spec.read_text().replace("epsilon = 1.0", "epsilom = 1.0")
    )
    done = dpframe(*(argument.format(spec=spec) for argument in arguments), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "runs" / "quick" / "record.json").exists()


@pytest.mark.parametrize(
    ("command", "number", "code", "said"),
    [
        ("run", signal.SIGINT, 130, "interrupted; the counts are kept"),
        ("run", signal.SIGTERM, 143, "terminated; the counts are kept"),
        ("plan", signal.SIGTERM, 143, "terminated; nothing is kept"),
    ],
)
def test_a_signal_before_a_command_begins_is_answered_too(
    command: str,
    number: int,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Typer answers by exit code 130 and without a word, whichever signal it was."""
    early = typer.Typer()
    for name in ("run", "plan"):
        early.command(name)(lambda: os.kill(os.getpid(), number))
    monkeypatch.setattr(import_module("dpframe.cli.app"), "app", early)
    done = worked(command, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["run", "missing.toml"], "no such file"), (["run"], "Missing argument")],
)
def test_a_wrong_call_exits_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    found_wrong(worked(*arguments, cwd=tmp_path), message)


@pytest.mark.slow
def test_a_process_ends_with_the_code_of_a_mistake(spec: Path, tmp_path: Path) -> None:
    words = ("run", spec, "--device", "gpu")
    found_wrong(run_process(*DPFRAME, *words, cwd=tmp_path), "--device gpu")


def found_wrong(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_plan_says_what_can_be_certified(root: Path, tmp_path: Path) -> None:
    words = ("plan", root / "specs/dptext.toml", "--json")
    found = json.loads(dpframe(*words, cwd=tmp_path).stdout)
    assert (found["cells"], found["m"], found["draw_groups"]) == (252, 252, 36)
    assert found["level"] == pytest.approx(0.05 / 252)
    assert found["estimators"][0]["largest_epsilon"] == pytest.approx(13.8, abs=0.05)


def test_plugins_and_schema_are_json(tmp_path: Path) -> None:
    listed = json.loads(dpframe("plugins", "--json", cwd=tmp_path).stdout)
    names = {row["name"] for row in listed["plugins"]}
    assert {"laplace", "majority-vote", "precision", "zeros-ones"} <= names
    assert "$defs" in json.loads(dpframe("schema", cwd=tmp_path).stdout)
    assert "nan" in dpframe("plugins", "dptext", cwd=tmp_path).stdout


@pytest.mark.slow
def test_an_internal_error_exits_70(tmp_path: Path, spec: Path) -> None:
    code = (
        "import sys, dpframe.commands.run\n"
        "def fail(*_, **__): raise RuntimeError('inside')\n"
        "dpframe.commands.run.run = fail\n"
        f"sys.argv = ['dpframe', 'run', {str(spec)!r}]\n"
        "from dpframe.cli import main\n"
        "main()\n"
    )
    done = run_process("-c", code, cwd=tmp_path)
    assert done.returncode == 70
    assert "RuntimeError: inside" in done.stderr
    assert "report" in done.stderr


def test_version_and_help(tmp_path: Path) -> None:
    assert run_process(*DPFRAME, "--version", cwd=tmp_path).stdout.startswith("dpframe ")
    for command in ("run", "plan", "check", "show", "plugins", "schema"):
        done = dpframe(command, "--help", cwd=tmp_path)
        assert done.returncode == 0
        assert "<bool>" not in done.stdout
    assert "pip install 'dpframe[plot]'" in dpframe("plot", "--help", cwd=tmp_path).stdout
    shown = dpframe("--help", cwd=tmp_path).stdout
    assert "..." not in shown.replace("[ARGS]...", "")  # no sentence is cut
