"""Text and files from elsewhere: what a run prints, and records that it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dpframe

SPEC = """
schema = 1
audit = { name = "found", trials = 200 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace", params = { epsilon = 1.0 } }]
attack = [{ use = "identity" }]
estimator = [{ use = "threshold", params = { threshold = 0.5 } }]
"""


def run(folder: Path, *words: str) -> Any:
    return dpframe("run", "found.toml", "--quiet", *words, cwd=folder)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran")
    (folder / "found.toml").write_text(SPEC)
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert "record" not in done.stderr
    return folder


@pytest.mark.parametrize("words", [(), ("--json",), ("--numbers",)])
def test_a_record_that_was_there_is_named(ran: Path, words: tuple[str, ...]) -> None:
    done = run(ran, *words)
    assert done.returncode == 0
    assert "runs/found/record.json: from the record of 20" in done.stderr
    assert "nothing was drawn" in done.stderr
    if words == ("--json",):
        json.loads(done.stdout)


def test_counts_that_were_there_are_named(ran: Path) -> None:
    (ran / "runs" / "found" / "record.json").unlink()
    done = run(ran)
    assert done.returncode == 0
    assert "runs/found/checkpoint: continues with the counts of 20" in done.stderr
    assert "record" not in run(ran, "--fresh").stderr


def test_escapes_of_a_black_box_do_not_reach_the_terminal(tmp_path: Path) -> None:
    box = r"""
import sys
sys.stderr.write("import \x1b]0;title\x07\n")
def prepare(params, data):
    sys.stderr.write("one \x1b[2J\x1b[31m two \u202e \x9b31m \x08\x08 \r three\r\n\tfour é 文\n")
    return lambda: 1.0 + len(data)
"""
    (tmp_path / "box.py").write_text(box, encoding="utf-8")
    program = 'use = "program", params = { module = "box.py", epsilon = 1.0 }'
    spec = SPEC.replace('use = "laplace", params = { epsilon = 1.0 }', program)
    (tmp_path / "found.toml").write_text(spec)
    done = run(tmp_path, "--plugin", "box.py")
    assert r"one \x1b[2J\x1b[31m two \u202e \x9b31m \x08\x08" in done.stderr
    assert r"\x1b]0;title\x07" in done.stderr
    assert "\tfour é 文\n" in done.stderr
    assert all(c.isprintable() or c in "\n\t" for c in done.stderr)
