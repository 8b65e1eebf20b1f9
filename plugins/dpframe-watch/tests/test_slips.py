"""Records of strangers and badges: what a report reads, runs and says."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dpframe_watch.commands import disclose_app
from typer.testing import CliRunner

import dpframe

SECRET = "SECRET = 40_000_17"
PRIVATE = f"{SECRET}\n\n\ndef prepare(params, data):\n    return lambda: 0.0\n"
Disclose = Callable[..., tuple[str, str, str]]


@pytest.fixture
def disclosed(
    records: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Disclose:
    """Return a call that forges a record, and returns its report, its script and what was told."""
    away, here = tmp_path / "private", tmp_path / "here"
    for folder in (away, here, here / "run"):
        folder.mkdir()
    (away / "box.py").write_text(PRIVATE)
    (away / "people.csv").write_text("40_000_17,2\n3,4\n")
    monkeypatch.chdir(here)

    def call(label: str | None = None, pair: Any = None, **params: Any) -> tuple[str, str, str]:
        record = dpframe.load(records["broken"])
        (cell,) = record.cells
        given = {**cell.mechanism.params, **params}
        use = {"params": given, "label": label or cell.mechanism.label}
        changed = {"mechanism": cell.mechanism.model_copy(update=use)}
        if pair:
            changed["pair"] = cell.pair.model_copy(update=pair)
        forged = record.model_copy(update={"cells": [cell.model_copy(update=changed)]})
        content = {key: value for key, value in forged.as_json().items() if key != "digest"}
        written = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["digest"] = f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"
        (here / "run" / "record.json").write_text(json.dumps(content))
        done = CliRunner().invoke(disclose_app, ["run"])
        assert done.exit_code == 0, done.output
        fence = done.stdout.partition("python\n")[0].rpartition("\n")[2]
        script = done.stdout.partition(f"{fence}python\n")[2].partition(f"\n{fence}\n")[0]
        compile(script, "witness.py", "exec")
        return done.stdout, script, done.stderr

    return call


MODULES = {
    "an absolute path": "{away}/box.py",
    "a path upwards": "../private/box.py",
    "a path upwards inside": "run/../../private/box.py",
    "a path of Windows": "..\\private\\box.py",
    "a link out of the folder": "linked.py",
    "a folder that is a link": "linked/box.py",
    "a table": "people.csv",
    "a table with another ending": "people.py",
    "a module without a mechanism": "other.py",
    "a module that is too large": "large.py",
    "a home directory": "~/box.py",
    "a variable": "$HOME/box.py",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_record_cannot_choose_the_file_that_a_report_contains(
    disclosed: Disclose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    away = tmp_path / "private"
    monkeypatch.setenv("HOME", str(away))
    Path("linked.py").symlink_to(away / "box.py")
    Path("linked").symlink_to(away)
    for file in ("people.csv", "people.py"):
        Path(file).write_text("40_000_17,2\n3,4\n")
    Path("other.py").write_text(f"{SECRET}\n")
    Path("large.py").write_text(PRIVATE + "# more\n" * 100_000)
    text, script, _ = disclosed(module=MODULES[name].format(away=away))
    assert "40_000_17" not in text
    assert str(away) not in text
    assert "import_module" not in script
    assert "TO DO: put here prepare() of" in script


def test_a_module_that_a_report_contains_is_named(disclosed: Disclose) -> None:
    Path("box.py").write_text(PRIVATE)
    text, script, told = disclosed(module="box.py")
    assert SECRET in script
    assert "the report contains the file" in told
    assert str(Path("box.py").resolve()) in told.replace("\n", "")
    assert str(Path.cwd()) not in text


NAMES = [
    "evil",
    "evil.py",
    "pkg/evil.py",
    "os",
    "evil.py\nimport evil",
    "evil\u2028import evil.py",
    "');import evil#.py",
    "__import__('evil').py",
    "`evil`.py",
    "evil.\x1b[31mpy",
    '"""\nimport evil\n""".py',
]


@pytest.mark.parametrize("module", NAMES)
@pytest.mark.parametrize("key", ["module", "label"])
def test_a_script_runs_nothing_that_a_record_names(
    disclosed: Disclose, tmp_path: Path, module: str, key: str
) -> None:
    text, script, _ = disclosed(**{"module": "none.py", key: module})
    assert all(c.isprintable() or c == "\n" for c in text)
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "evil.py").write_text("open('ran', 'w')\n")
    (tmp_path / "witness.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "witness.py", "10"], cwd=tmp_path, capture_output=True, check=False
    )
    assert not (tmp_path / "ran").exists()
    assert b"TO DO: put here prepare() of 'none.py'" in done.stderr or key == "module"
    assert done.returncode == 1


@pytest.mark.parametrize("file", ["{away}/people.csv", "people.csv", "../private/people.csv"])
@pytest.mark.parametrize("use", ["records", "files"])
def test_a_table_in_a_file_is_not_written_into_a_report(
    disclosed: Disclose, tmp_path: Path, file: str, use: str
) -> None:
    Path("people.csv").write_text("a,b\n40000.17,2\n3,4\n")
    (tmp_path / "private" / "people.csv").write_text("a,b\n40000.17,2\n3,4\n")
    params = {"file": file.format(away=tmp_path / "private"), "edit": {"remove": 0}}
    text, _, _ = disclosed(pair={"use": use, "params": params})
    assert "40000.17" not in text
    assert "D = None  # TO DO: put here the data" in text
    assert str(tmp_path) not in text


def test_data_that_fill_the_memory_are_not_made(disclosed: Disclose) -> None:
    text, _, _ = disclosed(pair={"use": "zeros-ones", "params": {"dim": 10**13}})
    assert "D = None  # TO DO: put here the data" in text
