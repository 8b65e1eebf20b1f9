"""The files that a release takes along agree with the package."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
import tomli
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from support.pages import ROOT

import dpframe

PICTURES = sorted((ROOT / "docs" / "images").rglob("*.svg"))


def test_the_citation_names_the_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == dpframe.__version__
    assert cited["license"] == "Apache-2.0"


def test_the_readme_has_the_command_that_ci_runs() -> None:
    """`noxfile.py` reads it, so CI does what a reader does."""
    (pattern,) = re.findall(r'^COMMAND = r"(.*)"$', (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    assert re.search(pattern, (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_extra_all_names_extras_that_exist() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (everything,) = project["optional-dependencies"]["all"]
    names = set(everything.removeprefix("dpframe[").removesuffix("]").split(","))
    assert names == set(project["optional-dependencies"]) - {
        "all", "cuda12", "cuda13", "dev", "docs", "report", "test",
    }  # fmt: skip


def test_the_metadata_are_complete_and_known() -> None:
    found = ProjectMetadata(str(ROOT), PluginManager()).core  # checks classifiers and licence
    assert found.readme_content_type == "text/markdown"
    assert len(found.description) < 200
    assert "Development Status :: 3 - Alpha" in found.classifiers
    minor = found.requires_python.removeprefix(">=")
    assert f"Programming Language :: Python :: {minor}" in found.classifiers
    assert any(one.startswith("Operating System :: ") for one in found.classifiers)
    for extra, needs in found.optional_dependencies.items():
        for need in needs:
            named = re.fullmatch(r"dpframe\[(.*)\]", need)
            assert not named or set(named[1].split(",")) <= set(found.optional_dependencies), extra


def test_the_container_installs_this_source_and_leaves_root() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    names = [name for name, _ in steps]
    assert set(names) <= {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    assert names[0] == "FROM"
    assert dict(steps)["USER"] == "dpframe"
    assert names.index("USER") > max(n for n, name in enumerate(names) if name in ("RUN", "COPY"))
    for name, words in steps:
        if name == "COPY":
            source = next(word for word in words.split() if not word.startswith("--"))
            assert (ROOT / source).exists()
        if name in ("ENTRYPOINT", "CMD"):
            assert json.loads(words)


@pytest.mark.parametrize(
    ("page", "picture"),
    [
        ("README.md", "docs/images/dptext.svg"),
        ("docs/explanation/one-run.md", "../images/one-run-canaries.svg"),
        ("docs/explanation/one-run.md", "../images/step-wealth.svg"),
        ("docs/explanation/rivals.md", "../images/rivals.svg"),
    ],
)
def test_a_drawn_picture_is_small_and_on_its_page(page: str, picture: str) -> None:
    assert f"]({picture})" in (ROOT / page).read_text(encoding="utf-8")
    assert (ROOT / page).parent.joinpath(picture).stat().st_size < 60_000


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_follows_a_dark_page(path) -> None:
    picture = path.read_text(encoding="utf-8")
    assert "prefers-color-scheme" in picture
    ground = r'<path d="[^"]*" style="fill: #ffffff"/>|<rect[^>]*fill="(white|#fff|#ffffff)"'
    assert not re.search(ground, picture)


def test_the_table_on_steps_counts_refuted_trainings() -> None:
    script = ROOT / "docs" / "step_bets_picture.py"
    spec = importlib.util.spec_from_file_location("step_bets_picture", script)
    assert spec is not None
    assert spec.loader is not None
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    small, *_, shared = picture.NOISES
    assert picture.row(small, 2, 150).startswith("| 0.9 σ | 2 of 2 | 2 of 2 | ")
    page = (ROOT / "docs" / "explanation" / "one-run.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(f"| {shared.name} |")]
    assert rows == [f"| {shared.name} | 1 of 40 | 1 of 40 | – |"]
