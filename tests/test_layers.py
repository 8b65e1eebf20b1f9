"""Imports go downwards only, and nothing heavy is imported early."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import ROOT, processes


def check(folder: Path) -> tuple[int, str]:
    """Check the contracts of `pyproject.toml` on the package in a folder."""
    pytest.importorskip("importlinter", reason="import-linter is in the extra `dev`")
    check = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports())"
    done = processes.run("-c", check, cwd=folder, PYTHONPATH=str(folder))
    return done.returncode, done.stdout


def test_imports_go_downwards() -> None:
    code, said = check(ROOT)
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("stats/joint.py", "from dpframe.interfaces import plugin"),
        ("engine/schedule.py", "def late():\n    from dpframe.commands import run"),
        ("builtin/tables.py", "from dpframe.common import text"),
        ("report/verdict_text.py", "import jax"),
        ("common/text.py", "from dpframe.common import machine"),
    ],
)
def test_an_import_that_goes_upwards_is_found(tmp_path: Path, file: str, line: str) -> None:
    shutil.copytree(
        ROOT / "dpframe", tmp_path / "dpframe", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "dpframe" / file
    path.write_text(f"{path.read_text()}\n\n{line}\n")
    if file == "common/text.py":  # a circle of two
        other = tmp_path / "dpframe/common/machine.py"
        other.write_text(f"{other.read_text()}\n\nfrom dpframe.common import text\n")
    code, said = check(tmp_path)
    assert code == 1
    assert "BROKEN" in said


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import dpframe", ["jax", "numpy", "scipy", "typer", "pydantic", "pluggy"]),
        ("import dpframe.cli", ["jax", "numpy", "scipy", "pluggy"]),
        # Loaded into every run of pytest; pluggy is pytest's own.
        ("import dpframe.pytest", ["jax", "numpy", "scipy", "typer", "pydantic", "rich"]),
    ],
)
def test_nothing_heavy_is_imported_early(statement: str, banned: list[str]) -> None:
    code = f"{statement}; import sys; print([m for m in {banned} if m in sys.modules])"
    done = processes.run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_help_loads_no_entry_point() -> None:
    code = (
        "import importlib.metadata, sys\n"
        "def refuse(_): raise AssertionError('an entry point is loaded')\n"
        "importlib.metadata.EntryPoint.load = refuse\n"
        "sys.argv = ['dpframe', '--help']\n"
        "from dpframe.cli import main\n"
        "main()\n"
    )
    done = processes.run("-c", code, DPFRAME_NO_PLUGINS="0")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
