"""The plugin in a suite of somebody else: every way in which their tests may be run."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import ROOT
from support.pages import page

if TYPE_CHECKING:
    from collections.abc import Sequence

SUITE = """
import unittest
import numpy as np
import pytest
from dpframe.pytest import UndecidedError, ViolationError, assert_dp as imported

DATA = {"d0": np.zeros(3), "d1": np.array([1.0, 0.0, 0.0])}
BUDGET = {"epsilon": 1.0, "trials": 8_000, "seconds": 300.0}

def half(data):
    return float(np.sum(data) + np.random.laplace(scale=0.5))

def test_function():
    imported(half, **DATA, **BUDGET)

class TestOfUnittest(unittest.TestCase):
    def test_method(self):
        with self.assertRaises(ViolationError) as found:
            imported(lambda data: half(data), **DATA, **BUDGET)
        print("KEPT", found.exception.path)
"""

FIXTURE = """
def test_fixture(assert_dp, tmp_path):
    from test_theirs import BUDGET, DATA, ViolationError, half, pytest
    with pytest.raises(ViolationError) as found:
        assert_dp(half, **DATA, **BUDGET)
    assert found.value.path.is_relative_to(tmp_path)
"""


def run(directory: Path, *arguments: str, plugin: Sequence[str] = ()) -> str:
    """Runs pytest on what lies in a directory, as somebody who has installed dpframe does."""
    entries = importlib.metadata.entry_points(group="pytest11")
    here = [] if "dpframe" in entries.names else ["-p", "dpframe.pytest"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", *(plugin or here), *arguments],
        env={**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), str(directory)])},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_somebody_elses_suite(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(SUITE)
    (tmp_path / "test_with_fixture.py").write_text(FIXTURE)
    said = run(tmp_path, "-rP", f"--basetemp={tmp_path / 'kept'}", "--junitxml=junit.xml")
    assert "1 failed, 2 passed" in said
    assert ">       imported(half, **DATA, **BUDGET)" in said  # their line, and none of ours
    assert "dpframe/commands" not in said
    assert "half violates its claim, ε = 1\n" in said
    assert "again: pytest test_theirs.py::test_function" in said
    assert "violated, after" in said.split("= dpframe =")[1]  # the sentence of the whole run
    (record,) = (tmp_path / "kept").glob("test_function0/dpframe-*/record.json")
    assert str(record.parent) in said
    assert f"KEPT {tmp_path / 'kept' / 'test_method'}" in said
    assert 'name="dpframe" value="ε = 1 ' in (tmp_path / "junit.xml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_without_the_plugin_the_functions_are_there(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(
        "from dpframe.pytest import assert_dp\n"
        "def test_function():\n"
        "    assert_dp(len, d0=[0], d1=[0], epsilon=1.0)\n"
    )
    said = run(tmp_path, plugin=["-p", "no:dpframe"])
    assert "D and D′ are equal" in said
    assert "1 failed" in said


@pytest.mark.slow
def test_every_public_name_can_be_used_without_pytest() -> None:
    """Scripts and notebooks call `assert_dp` and `search_violation` too."""
    script = (
        "import sys; sys.modules['pytest'] = None\n"
        "import dpframe; [getattr(dpframe, name) for name in dpframe.__all__]"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.slow
def test_workers_of_xdist_tell_it_too(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_theirs.py").write_text(SUITE)
    (tmp_path / "test_with_fixture.py").write_text(FIXTURE)
    said = run(tmp_path, "-n", "2")
    assert "1 failed, 2 passed" in said
    assert said.count("violated, after") == 3


def test_nothing_heavy_is_imported_at_collection(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    assert 'dpframe.pytest' in sys.modules\n"
        "    assert not {'jax', 'numpy', 'scipy', 'pydantic', 'rich'} & set(sys.modules)\n"
    )
    assert "1 passed" in run(tmp_path)


PAGE = "docs/how-to/audit-your-library.md"


def written(directory: Path, name: str = PAGE) -> list[str]:
    """Write the files of a page; return what it shows of what pytest prints."""
    found = re.findall(
        r"^<!-- ([^\n]*) -->\n```(\w+)\n(.*?)^```$", page(name), flags=re.DOTALL | re.MULTILINE
    )
    for comment, language, text in found:
        if language == "python":
            with (directory / comment.partition("=")[2]).open("a", encoding="utf-8") as file:
                file.write(text)
    return [text for _, language, text in found if language == "text"]


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    refuted, passed = written(tmp_path, "README.md")
    test = tmp_path / "test_release.py"
    for shown, scale in ((refuted, "1.0"), (passed, "2.0")):
        test.write_text(test.read_text().replace("scale=1.0", f"scale={scale}"))
        said = re.sub(r"[\d.,]+", "#", run(tmp_path, "-rA", "--dpframe-seconds", "1"))
        for line in re.sub(r"[\d.,]+", "#", shown).splitlines():
            assert line in said.splitlines()


@pytest.mark.slow
def test_the_page_for_authors_of_libraries(tmp_path: Path) -> None:
    shown, _ = written(tmp_path)  # tests/commands/test_assertions.py compares the second
    said = run(tmp_path, "-rA")
    assert "4 failed, 1 passed" in said
    for line in filter(str.strip, shown.replace("…", "").split("\n")):
        assert line.strip() in said, line
    assert "from -0.5 to 1.5, by 2, and its noise is scaled for 1: 2 times as much" in said
    library = tmp_path / "ledger.py"
    library.write_text(library.read_text().replace("high / epsilon", "(high - low) / epsilon"))
    mended = run(tmp_path, "-k", "keeps_its_claim")
    assert "1 passed" in mended
    assert "no violation of ε = 1 found in" in mended
