"""The shell is offered the right words; the machinery is Typer's, asked as a shell asks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpframe.cli import app


def offered(words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    number = str(len(words.split()) - (not words.endswith(" ")))
    asked = {"_DPFRAME_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
    done = CliRunner(env=asked).invoke(app, [], prog_name="dpframe")
    return done.stdout.split()


def test_commands_and_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"plan", "plugins"} <= set(offered("dpframe pl", monkeypatch))
    names = offered("dpframe plugins laplace-h", monkeypatch)
    assert {"laplace-half-scale", "laplace-halved"} <= set(names)
    assert "dpframe/laplace" in offered("dpframe check --plugin dpframe/lap", monkeypatch)
    assert offered("dpframe new me", monkeypatch) == ["mechanism"]


def test_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("one", "two", "unfinished"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    for name in ("one", "two"):
        (tmp_path / "runs" / name / "record.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert offered("dpframe show ", monkeypatch) == ["runs/one", "runs/two"]
    assert offered("dpframe show runs/t", monkeypatch) == ["runs/two"]
    assert offered("dpframe report runs/", monkeypatch) == ["runs/one", "runs/two"]
    assert offered("dpframe show nowhere/x", monkeypatch) == []
