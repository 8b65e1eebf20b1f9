"""Programs from the command line to the record: plain modules, in an interpreter that is named."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli
from support.command_line import dpframe

from dpframe.commands import audit
from dpframe.count import fingerprint
from dpframe.environments import Environment
from dpframe.interfaces import mechanism as program_files, registry
from dpframe.interfaces.plugin_files import SpecFile, beside
from dpframe.spec import build, load_audit

SPEC = """
schema = 1
[audit]
name = "programs"
trials = 600
[environments]
"lib 1" = ["lib==1"]
[pair]
use = "zeros-ones"
[[mechanism]]
use = "program"
label = "sum"
environment = "lib 1"
params = {module = "boxes/sum.py", params = {epsilon = 1.0}, epsilon = 1.0, seeded = true}
[[attack]]
use = "identity"
[[estimator]]
use = "order-statistics"
"""

SUM = """
import random
import beside_the_sum

def prepare(params, data):
    total, rate = sum(data), params["epsilon"]
    return lambda: total + random.expovariate(rate) - random.expovariate(rate)
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "boxes").mkdir()
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "boxes" / "sum.py").write_text(SUM, encoding="utf-8")
    (tmp_path / "boxes" / "beside_the_sum.py").write_text("", encoding="utf-8")
    program_files._given.clear()
    return tmp_path


NAMED = ("--plugin", "boxes/sum.py", "--python", f"lib 1={sys.executable}", "--quiet")


@pytest.mark.slow
def test_a_program_is_audited_in_the_interpreter_that_is_named(here: Path) -> None:
    def run(*options: str, code: int = 0) -> dict[str, Any]:
        done = dpframe("run", "spec.toml", *NAMED, "--json", *options, cwd=here)
        assert done.returncode == code, done.stderr
        assert sys.executable not in done.stdout  # no record says where an interpreter lies
        assert str(here) not in done.stdout
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    record = run()
    (cell,) = record["cells"]
    assert (cell["status"], cell["verdict"]) == ("ok", "consistent")
    assert cell["mechanism"]["params"]["environment"] == "lib 1"
    (where,) = record["environments"]
    assert (where["name"], where["requirements"]) == ("lib 1", ["lib==1"])
    assert where["python"] == "{}.{}.{}".format(*sys.version_info)
    assert any(package.startswith("numpy==") for package in where["installed"])
    assert run() == record  # printed again
    assert run("--fresh")["cells"][0]["counts"] == cell["counts"]  # it says that it is seeded

    # Another program is another mechanism, whatever it is called.
    file = here / "boxes" / "sum.py"
    file.write_text(SUM.replace("total + ", "5 * total + "), encoding="utf-8")
    (other,) = run(code=1)["cells"]
    assert other["verdict"] == "violated"


def test_counts_are_not_those_of_other_packages(here: Path) -> None:
    known = registry.load(files=[here / "boxes" / "sum.py"])

    def key(*installed: str) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            found = Environment("lib 1", (), sys.executable, "3.11.1", installed)
            patch.setattr(build, "_named", lambda name, path: found)
            spec = here / "spec.toml"
            audit = load_audit(spec, registry=known, pythons={"lib 1": sys.executable})
        return fingerprint._plugin(audit.cells[0].mechanism)

    assert key("lib==1") == key("lib==1")
    assert key("lib==1") != key("lib==2")
    before = key("lib==1")
    (here / "boxes" / "sum.py").write_text(SUM + "\n", encoding="utf-8")
    assert key("lib==1") != before


def test_python_names_interpreters_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str, path: str) -> Environment:
        return Environment(name, (), path, "3.11.1", ())

    monkeypatch.setattr(build, "_named", found)
    file = here / "boxes" / "sum.py"
    for given in ("spec.toml", tomli.loads(SPEC)):
        monkeypatch.chdir(here)
        loaded = audit.load(given, plugins=[file], pythons={"lib 1": "/some/python"})
        assert loaded.interpreters == {"lib 1": "/some/python"}


def test_only_the_very_file_that_the_command_line_names_is_run(here: Path) -> None:
    (here / "sum.py").write_text(SUM, encoding="utf-8")
    done = dpframe("check", "spec.toml", "--plugin", "sum.py", cwd=here)
    assert done.returncode == 2
    assert "--plugin boxes/sum.py" in done.stderr


def test_a_command_is_run_only_if_its_own_spec_may_run_commands(tmp_path: Path) -> None:
    check = program_files.ForeignMechanism.consented_to
    with beside(tmp_path, True):
        allowed = SpecFile("touch"), SpecFile("x")
    with beside(tmp_path):
        refused = SpecFile("touch"), SpecFile("x")
    check(allowed)
    check(pickle.loads(pickle.dumps(allowed)))
    for command in (refused, (allowed[0], refused[1]), (SpecFile("touch"),)):
        with pytest.raises(ValueError, match=r"touch.* is code.* add --allow-command"):
            check(command)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("def prepare(params, data): pass", True),
        ("from elsewhere import prepare", True),
        ("prepare = 3", True),
        ("import dpframe\ndef prepare(params, data): pass", False),
        ("from dpframe import Pair\ndef prepare(params, data): pass", False),
        ("def other(): pass", False),
        ("def prepare(:", False),
        ("\0", False),
    ],
)
def test_what_is_a_program(text: str, is_one: bool) -> None:
    assert program_files.is_program(text.encode()) == is_one
