"""Imports go downwards only; found by walking the imports of every module."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dpframe"

GROUND = {"errors", "types", "files", "machine", "printable", "suggest", "claims", "stats"}
BOUNDARY = {
    "plugin",
    "parameters",
    "mechanism",
    "attack",
    "statistic",
    "estimator",
    "pair",
    "boxes",
    "scores",
    "hookspecs",
}
PUBLIC = GROUND | BOUNDARY | {"dpframe"}
ALLOWED = {
    "errors": set(),
    "types": set(),
    "files": set(),
    "machine": set(),
    "printable": set(),
    "suggest": set(),
    "stats": set(),
    "claims": {"errors", "types", "stats"},
    **dict.fromkeys(BOUNDARY, GROUND | BOUNDARY),
    "builtin": {"dpframe", "stats"},  # what a third party may import, and nothing else
    "registry": PUBLIC | {"builtin"},
    "spec": PUBLIC | {"registry"},
    "record": PUBLIC | {"registry", "spec"},
    "engine": PUBLIC | {"registry", "spec", "record"},
    "calibration": PUBLIC | {"registry", "spec", "record", "engine"},
    "report": {"errors", "stats", "record"},
}
TOP = {
    *("__main__", "cli", "commands", "dpframe"),
}
"""The floor above everything: it may import whatever it likes."""

LIBRARIES_BANNED = {
    "report": {"jax", "pluggy", "pydantic"},
    "engine": {"typer", "rich", "click"},
    "stats": {"jax", "rich", "typer"},
    "spec": {"jax", "rich", "typer"},
    "cli": {"jax", "numpy", "scipy", "click"},
}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "dpframe"


def imports(path: Path) -> list[tuple[str, bool]]:
    """Modules that a file imports, each with whether it does so for annotations only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []

    def visit(node: ast.AST, typing_only: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            typing_only = True
        if isinstance(node, ast.Import):
            found.extend((alias.name, typing_only) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append((node.module or "", typing_only))
            if node.module == "dpframe":
                found.pop()
                modules = [
                    (PACKAGE / f"{a.name}.py").exists() or (PACKAGE / a.name).is_dir()
                    for a in node.names
                ]
                found.extend(
                    (f"dpframe.{a.name}" if module else "dpframe", typing_only)
                    for a, module in zip(node.names, modules, strict=True)
                )
        for child in ast.iter_child_nodes(node):
            visit(child, typing_only)

    visit(tree, False)
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    own = "dpframe" if own == "__init__" else own
    for module, typing_only in imports(path):
        library = module.split(".")[0]
        assert typing_only or library not in LIBRARIES_BANNED.get(own, set()), f"{own} → {module}"
        if library == "dpframe" and own not in TOP and room(module) != own:
            assert room(module) in ALLOWED[own], f"{own} must not import {module}"


def test_every_room_has_a_rule() -> None:
    rooms = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in FILES} - {"__init__"}
    assert rooms <= set(ALLOWED) | TOP


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import dpframe", ["jax", "numpy", "scipy", "typer", "pydantic", "pluggy"]),
        ("import dpframe.cli", ["jax", "numpy", "scipy", "pluggy"]),
    ],
)
def test_nothing_heavy_is_imported_early(statement: str, banned: list[str]) -> None:
    code = f"{statement}; import sys; print([m for m in {banned} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_no_entry_point() -> None:
    code = (
        "import importlib.metadata, sys\n"
        "def refuse(**_): raise AssertionError('entry points loaded')\n"
        "importlib.metadata.entry_points = refuse\n"
        "sys.argv = ['dpframe', '--help']\n"
        "from dpframe.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
