"""A command of the user learns how a run ended, and its failures change nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from dpframe import DpframeError
from dpframe.common import notifier
from dpframe.common.notifier import notified

LISTENER = """
import json, os, pathlib, sys
heard = {"input": json.load(sys.stdin), "arguments": sys.argv[2:]}
heard["variables"] = {k: v for k, v in os.environ.items() if k.startswith("DPFRAME_")}
pathlib.Path(sys.argv[1]).write_text(json.dumps(heard))
"""


@pytest.fixture
def listener(tmp_path: Path) -> str:
    """A command that writes what it got to the file `heard`."""
    script = tmp_path / "listener.py"
    script.write_text(LISTENER, encoding="utf-8")
    return f"{sys.executable} '{script}' '{tmp_path / 'heard'}'"


def heard(tmp_path: Path) -> dict[str, dict[str, object]]:
    content: dict[str, dict[str, object]] = json.loads((tmp_path / "heard").read_text())
    return content


def test_a_command_gets_the_outcome_without_a_shell(tmp_path: Path, listener: str) -> None:
    warnings: list[str] = []
    with notified(f"{listener} $HOME ';' `id`", warnings.append) as outcome:
        outcome.update(name="$(touch broken) ; \0x", violated=2)
    assert heard(tmp_path)["input"] == {
        "exit_code": 0,
        "name": "$(touch broken) ; \0x",
        "violated": 2,
    }
    variables = heard(tmp_path)["variables"]
    assert variables["DPFRAME_NAME"] == "$(touch broken) ; x"
    assert (variables["DPFRAME_EXIT_CODE"], variables["DPFRAME_VIOLATED"]) == ("0", "2")
    assert heard(tmp_path)["arguments"] == ["$HOME", ";", "`id`"]
    assert not warnings


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (typer.Exit(1), 1, None),
        (DpframeError("no spec"), 2, "no spec"),
        (OSError(), 70, ""),
    ],
)
def test_the_exit_code_is_that_of_the_run(
    tmp_path: Path, listener: str, error: Exception, code: int, text: str | None
) -> None:
    with pytest.raises(type(error)), notified(listener, pytest.fail):
        raise error
    expected = {"exit_code": code} if text is None else {"exit_code": code, "error": text}
    assert heard(tmp_path)["input"] == expected


@pytest.mark.parametrize("ended", [KeyboardInterrupt, SystemExit])
def test_nothing_runs_after_a_signal(
    tmp_path: Path, listener: str, ended: type[BaseException]
) -> None:
    with pytest.raises(ended), notified(listener, pytest.fail):
        raise ended
    assert not (tmp_path / "heard").exists()


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        ("/no/such/program", "--notify /no/such/program: .*No such file"),
        (f"{sys.executable} -c 'raise SystemExit(4)'", "exit status 4"),
        ("an 'unfinished quote", "No closing quotation"),
        (f"{sys.executable} -c 'import time; time.sleep(60)'", "timed out"),
    ],
)
def test_a_command_that_fails_is_a_warning(
    command: str, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "SECONDS", 0.2 if "sleep" in command else 30.0)
    warnings: list[str] = []
    with notified(command, warnings.append):
        pass
    (text,) = warnings
    assert re.search(warning, text)


@pytest.mark.parametrize("command", [None, "", "  "])
def test_without_a_command_nothing_runs(command: str | None) -> None:
    with notified(command, pytest.fail):
        pass


SPEC = """
schema = 1
audit = { name = "told", trials = 2000 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace", params = { epsilon = 1.0 } }]
attack = [{ use = "identity" }]
estimator = [{ use = "order-statistics" }]
"""


def test_run_notifies_and_keeps_its_exit_code(tmp_path: Path, listener: str) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    words = ["run", "spec.toml", "--out", "run", "--json", "--quiet", "--notify"]
    command = [sys.executable, "-m", "dpframe", *words]
    done = subprocess.run(
        [*command, f"{listener} hello"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["audit"]["name"] == "told"
    outcome = heard(tmp_path)["input"]
    assert outcome["consistent"] == 1
    assert outcome["exit_code"] == outcome["violated"] == outcome["failed"] == 0
    assert Path(str(outcome["record"])) == tmp_path / "run" / "record.json"
    noisy = f"{sys.executable} -c 'print(\"told you\"); raise SystemExit(1)'"
    again = subprocess.run(
        [*command, noisy], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0
    assert "told you" not in again.stdout
    assert "told you" in again.stderr
    assert "exit status 1" in again.stderr
