"""Reports from the command line: beside a run, or of a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import made_records
from support.command_line import dpframe

from dpframe.results.store import dumps

SPEC = """schema = 1
audit = { name = "a", trials = 500 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace", params = { epsilon = 1.0 } }]
attack = [{ use = "majority-vote" }]
estimator = [{ use = "precision" }]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "a.toml").write_text(SPEC)
    (tmp_path / "record.json").write_text(dumps(made_records.record([made_records.cell()])))
    return tmp_path


def test_a_run_writes_its_reports_and_stdout_stays_json(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "summary.md"))
    spec = SPEC.replace("mechanism = [", 'expect = [{ verdict = "violated" }]\nmechanism = [')
    (place / "a.toml").write_text(spec)
    done = dpframe(
        *("run", "a.toml", "--json", "-q", "--report", "b/c/a.csv", "--report", "a.XML"), cwd=place
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["cells"]
    (mark,) = [line for line in done.stderr.splitlines() if line.startswith("::")]
    assert mark.startswith("::error file=a.toml,line=5,title=laplace")
    assert "expected: violated" in mark
    assert (place / "summary.md").read_text().startswith("# a\n")
    assert (place / "b" / "c" / "a.csv").read_bytes().startswith(b"id,repeat,")
    assert "<failure" in (place / "a.XML").read_text()


@pytest.mark.parametrize("name", ["a.pdf", "a", "folder.md", "a.toml/x.csv"])
def test_a_report_that_cannot_be_written_is_refused_before_the_run(place: Path, name: str) -> None:
    (place / "folder.md").mkdir()
    done = dpframe("run", "a.toml", "--report", name, cwd=place)
    assert done.returncode == 2
    assert name in done.stderr
    assert not (place / "runs").exists()


def test_a_report_that_is_lost_afterwards_does_not_hide_the_verdict(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpframe.report.delivery.check", lambda path: None)
    (place / "folder.md").mkdir()
    for number in (0, 1, 3):
        monkeypatch.setattr("dpframe.results.store.exit_code", lambda record, n=number: n)
        done = dpframe("run", "a.toml", "--report", "folder.md", "--report", "b.md", cwd=place)
        assert done.returncode == (number or 2)
        assert "folder.md: exists, and is not a file" in done.stderr
        assert (place / "b.md").exists()


@pytest.mark.parametrize(
    ("record", "why"), [(".", "altered"), ("b.json", "there is no such record")]
)
def test_there_is_no_report_of_what_is_no_record(place: Path, record: str, why: str) -> None:
    done = dpframe("report", record, "-o", "a.md", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert not (place / "a.md").exists()


def test_an_old_report_is_replaced_through_its_link_and_nothing_else_is_touched(
    place: Path,
) -> None:
    assert dpframe("run", "a.toml", "--out", "run", cwd=place).returncode == 0
    (place / "real.md").write_text("old")
    (place / "link.md").symlink_to("real.md")
    assert dpframe("report", "run", "-o", "link.md", cwd=place).returncode == 0
    assert (place / "link.md").is_symlink()
    assert (place / "real.md").read_text().startswith("# a\n")
    assert not list(place.glob(".*.part"))


def test_a_difference_has_an_exit_code(place: Path) -> None:
    (place / "b.toml").write_text(SPEC.replace('"laplace"', '"copy-input"'))
    for name in ("a", "b"):
        dpframe("run", f"{name}.toml", "--out", name, "-q", cwd=place)
    same = dpframe("diff", "a", "a", cwd=place)
    assert (same.returncode, same.stderr) == (0, "")
    assert "No verdict, claim or bound changed beyond noise, of 1 cell" in same.stdout
    lost = dpframe("diff", "a", "b", "--json", cwd=place)
    assert lost.returncode == 1
    assert json.loads(lost.stdout)["worse"] == 1
    for words in (("a", "missing"), ("a",), ("a", "record.json")):
        assert dpframe("diff", *words, cwd=place).returncode == 2
