"""What `dpframe new` writes works as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tomli
from support.command_line import dpframe
from support.processes import DPFRAME, run

from dpframe.commands.new import new
from dpframe.errors import DpframeError
from dpframe.interfaces.registry import KINDS


def offered(folder: Path, name: str) -> str:
    """A PYTHONPATH on which the distribution is found as an installed one is."""
    point = tomli.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    meta = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [f"{key} = {value}" for key, value in point["dpframe"].items()]
    (meta / "entry_points.txt").write_text("\n".join(["[dpframe]", *lines, ""]))
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass_and_its_audit_meets_its_expectations(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "made-here"
    files = new(kind, "made-here", folder)
    assert [file.name for file in files] == [
        *("made_here.py", "test_made_here.py", "made-here.toml", "pyproject.toml", "README.md")
    ]
    found = {"PYTHONPATH": offered(folder, "made-here"), "DPFRAME_NO_PLUGINS": "0"}
    words = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    tests = run(*words, cwd=folder, **found)
    assert tests.returncode == 0, tests.stdout
    assert "2 passed" in tests.stdout
    listed = run(*DPFRAME, "plugins", "made-here", cwd=folder, **found)
    assert f"made-here · {kind} · made-here 0.1.0" in listed.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_is_python_and_toml(kind: str, tmp_path: Path) -> None:
    """Slow tests run it."""
    for file in new(kind, "made-here", tmp_path / "out"):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".py":
            compile(text, file.name, "exec")
        elif file.suffix == ".toml":
            assert tomli.loads(text)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DpframeError, match="nothing is overwritten"):
        new("pair", "made-here", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("mechanisms", "made-here", "did you mean 'mechanism'"),
        ("pair", "Made-Here", "small letters"),
        ("pair", "made_here", "small letters"),
        ("pair", "../made", "small letters"),
        ("pair", "lambda", "Python has something"),
        ("pair", "json", "Python has something"),
        ("mechanism", "laplace", "dpframe has mechanism laplace, and that is what the name means"),
        ("pair", "numpy", "a module called numpy already"),
        ("pair", "dp-accounting", "a module called dp_accounting already"),
    ],
)
def test_names_that_will_not_do(kind: str, name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(DpframeError, match=says):
        new(kind, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_class_does_not_take_the_name_of_its_base(tmp_path: Path) -> None:
    new("mechanism", "mechanism", tmp_path / "out")
    source = (tmp_path / "out" / "mechanism.py").read_text()
    assert 'class MechanismMechanism(Mechanism, name="mechanism"):' in source


def test_the_command_says_what_to_do_next(tmp_path: Path) -> None:
    done = dpframe("new", "attack", "made-here", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cd made-here\n  pip install -e '.[test]'" in done.stdout
    again = dpframe("new", "attack", "made-here", cwd=tmp_path)
    assert again.returncode == 2
    assert "nothing is overwritten" in again.stderr
