"""`dpframe check --plugin`, as an author meets it."""

from __future__ import annotations

import json
from pathlib import Path

from support.command_line import dpframe


def test_a_pair_that_keeps_its_promises(tmp_path: Path) -> None:
    done = dpframe("check", "--plugin", "zeros-ones", "--set", "pair.dim=3", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("pair zeros-ones · dpframe ")
    assert first.endswith("dim = 3")
    assert last == "9 kept, 0 broken, 0 left out"


def test_json(tmp_path: Path) -> None:
    done = dpframe("check", "--plugin", "zeros-ones", "--json", cwd=tmp_path)
    (found,) = json.loads(done.stdout)
    assert found["params"] == {"dim": 1}
    assert found["kept"]
    assert {finding["result"] for finding in found["findings"]} == {"kept"}


def test_mistakes_of_the_call(tmp_path: Path) -> None:
    def says(*words: str) -> str:
        done = dpframe("check", *words, cwd=tmp_path)
        assert done.returncode == 2
        return done.stderr

    assert "either a spec or --plugin" in says()
    assert "either a spec or --plugin" in says("a.toml", "--plugin", "laplace")
    assert "unknown plugin 'laplac'" in says("--plugin", "laplac")
    assert "did you mean 'laplace'?" in says("--plugin", "laplac")
    assert "should be pair.X=VALUE" in says(
        "--plugin", "zeros-ones", "--set", "mechanism.epsilon=1"
    )
    assert "pair.dim" in says("--plugin", "zeros-ones", "--set", "pair.dim=0")
    assert "give sigma" in says("--plugin", "gaussian")
    assert "need a spec" in says("--plugin", "laplace", "--trials", "5")
