"""The files that a release takes along agree with the package."""

from __future__ import annotations

import tomli
import yaml
from support.pages import ROOT

import dpframe


def test_the_citation_names_the_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == dpframe.__version__
    assert cited["license"] == "Apache-2.0"


def test_the_extra_all_names_extras_that_exist() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (everything,) = project["optional-dependencies"]["all"]
    names = set(everything.removeprefix("dpframe[").removesuffix("]").split(","))
    assert names == set(project["optional-dependencies"]) - {
        "all", "cuda12", "cuda13", "dev", "docs", "report", "test",
    }  # fmt: skip


def test_the_picture_of_the_readme_is_small_and_there() -> None:
    assert "docs/images/dptext.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "docs/images/dptext.svg").stat().st_size < 60_000
