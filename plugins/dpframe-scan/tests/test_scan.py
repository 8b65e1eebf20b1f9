"""The commands, from the name of a package to its table and tests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from dpframe_scan import commands, environment, guesses, scanning
from dpframe_scan.trials import PackageImportError
from typer.testing import CliRunner

from dpframe import DpframeError
from dpframe.pytest import ViolationError


def test_a_list_calls_nothing(python: str) -> None:
    done = CliRunner().invoke(commands.scan_app, ["tinydp", "--python", python, "--list"])
    assert done.exit_code == 0, done.output
    assert "tinydp.tools.wrong_sum(array, epsilon, bounds)" in done.stdout
    assert "plain" not in done.stdout


def test_write_prints_a_test_without_a_search(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(python).parent)
    words = ["tinydp.tools.dp_sum", "--python", f".{os.sep}{Path(python).name}"]
    done = CliRunner().invoke(commands.write_app, words)
    assert done.exit_code == 0, done.output
    compile(done.stdout, "test.py", "exec")
    assert "Not searched yet" in done.stdout
    assert "* Neighbours replace one record, as the documentation says." in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tinydp.tools.nothing"], "there is no public callable tinydp.tools.nothing"),
        (["tinydp.tools.plain"], "has no parameter that names a budget"),
        (["tinydp.tools.licensed"], "not called: RuntimeError: no licence"),
        (["a_module_that_is_not_there.f"], "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_write_names_what_is_wrong(python: str, words: list[str], message: str) -> None:
    done = CliRunner().invoke(commands.write_app, [*words, "--python", python])
    assert isinstance(done.exception, DpframeError)
    assert message in str(done.exception)


def test_an_interruption_keeps_what_was_called(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(scanning.Searcher, "run", interrupted)
    words = ["tinydp", "--python", python, "--only", "dp_sum", "--out", str(tmp_path)]
    done = CliRunner().invoke(commands.scan_app, words)
    assert done.exit_code == 130 or isinstance(done.exception, KeyboardInterrupt)
    (row,) = json.loads((tmp_path / "scan.json").read_text(encoding="utf-8"))["callables"]
    assert (row["callable"], row["verdict"]) == ("tinydp.tools.dp_sum", "not searched")
    assert "dp_sum" in (tmp_path / "assumptions.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("message", "version", "requirements"),
    [
        ("No module named 'sklearn'", "", ["statlib", "scikit-learn"]),
        ("No module named 'unknown_module'", "", None),
        (
            "cannot import name 'DOUBLE' from 'sklearn.tree'",
            "1.9.1",
            ["statlib", "scikit-learn<1.9"],
        ),
        ("module 'numpy' has no attribute 'float'", "2.0.1", ["statlib", "numpy<2"]),
        ("something else", "", None),
    ],
)
def test_what_an_import_needs_is_required(
    message: str, version: str, requirements: list[str] | None
) -> None:
    problem = PackageImportError(message, None)
    assert environment.with_older(["statlib"], problem, lambda _: version) == requirements


@pytest.mark.slow
def test_a_scan_finds_the_wrong_callables_and_no_others(python: str, tmp_path: Path) -> None:
    # Each right callable is accused with a probability of at most .001, all of them together.
    words = ["tinydp", "--python", python, "--seconds", "60", "--out", str(tmp_path)]
    done = CliRunner().invoke(commands.scan_app, words)
    assert done.exit_code == 1, done.output
    content = json.loads((tmp_path / "scan.json").read_text(encoding="utf-8"))
    verdicts = {row["callable"]: row["verdict"] for row in content["callables"]}
    assert verdicts == {
        "tinydp.Laplace": "consistent",
        "tinydp.Means": "violated",
        "tinydp.Report": "violated",
        "tinydp.accounting.composed": "not a mechanism",
        "tinydp.mechanisms.Accountant": "not a mechanism",
        "tinydp.tools.compute_sigma": "not a mechanism",
        "tinydp.tools.dp_sum": "consistent",
        "tinydp.tools.licensed": "not called",
        "tinydp.tools.unit_sum": f"violated if {guesses.UNBOUNDED}",
        "tinydp.tools.wrong_sum": "violated",
    }
    written = {path.name for path in (tmp_path / "tests").glob("*.py")}
    assert {"test_report.py", "test_means.py", "test_tools_wrong_sum.py"} <= written


@pytest.mark.slow
def test_a_scan_accuses_no_right_callable_on_a_guess(python: str, tmp_path: Path) -> None:
    words = ["rightdp", "--python", python, "--seconds", "40", "--out", str(tmp_path)]
    done = CliRunner().invoke(commands.scan_app, words)
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "scan.json").read_text(encoding="utf-8"))
    verdicts = {row["callable"]: row["verdict"] for row in content["callables"]}
    assert "violated" not in verdicts.values()
    guessed = [one for one in verdicts.values() if one.startswith("violated if")]
    assert len(guessed) >= 6  # the guesses are wrong, so they must be seen
    assert verdicts["rightdp.Client"] == "consistent"


@pytest.mark.slow
def test_a_written_finding_fails_where_the_mistake_is(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["tinydp", "--python", python, "--seconds", "20", "--out", str(tmp_path)]
    CliRunner().invoke(commands.scan_app, [*words, "--only", "wrong_sum"])
    (path,) = (tmp_path / "tests").glob("test_tools_wrong_sum.py")
    monkeypatch.syspath_prepend(str(Path(python).parent / "lib"))
    names: dict[str, object] = {"__name__": "written"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    test = names["test_wrong_sum_keeps_its_claim"]
    assert callable(test)
    with pytest.raises(ViolationError):
        test()
