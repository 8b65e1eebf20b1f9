"""First-party plugins use what third parties may import, and nothing else of dpframe."""

from __future__ import annotations

import ast
import tomllib

import pytest
from support import ROOT

DISTRIBUTIONS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_a_plugin_imports_names_of_dpframe_and_its_statistics_alone(folder) -> None:
    seen = 0
    for path in sorted(folder.glob("dpframe_*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert not [n for n in names if n.split(".")[0] == "dpframe"], (
                "import names from dpframe"
            )
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpframe":
                parts = node.module.split(".")
                public = parts in (["dpframe"], ["dpframe", "plugins"], ["dpframe", "pytest"])
                assert public or parts[1] == "stats", f"{path}: {node.module}"
                seen += 1
    assert seen


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_a_plugin_is_a_distribution_of_its_own(folder) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == folder.name
    assert any(need.startswith("dpframe") for need in project["dependencies"])
    hooks = project.get("entry-points")  # none in a library for scripts
    assert hooks is None or hooks.keys() & {"dpframe", "dpframe.commands"}
    assert (folder / project["readme"]).read_text().startswith(f"# {folder.name}\n")
    assert list((folder / "tests").glob("test_*.py"))
