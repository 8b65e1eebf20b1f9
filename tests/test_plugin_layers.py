"""First-party plugins use what third parties may import, and nothing else of dpframe."""

from __future__ import annotations

import tomllib

import pytest
from support import ROOT
from support.import_graph import imports

DISTRIBUTIONS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
FILES = [
    (folder, path)
    for folder in DISTRIBUTIONS
    for path in sorted(folder.rglob("*.py"))
    if "tests" not in path.relative_to(folder).parts
]


@pytest.mark.parametrize(
    ("folder", "path"), FILES, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_a_plugin_imports_dpframe_and_its_statistics_alone(folder, path) -> None:
    for found in imports(path):
        parts = found.module.split(".")
        if parts[0] == "dpframe":
            assert parts == ["dpframe"] or parts[1] == "stats", found.module
            assert found.name is not None, "import names from dpframe"


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_a_plugin_is_a_distribution_of_its_own(folder) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == folder.name
    assert any(need.startswith("dpframe") for need in project["dependencies"])
    assert project["entry-points"]["dpframe"]
    assert (folder / project["readme"]).read_text().startswith(f"# {folder.name}\n")
    assert list((folder / "tests").glob("test_*.py"))


def test_there_are_some() -> None:
    assert len(FILES) > 10
