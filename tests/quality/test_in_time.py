"""A step on a slow machine leaves tests out, and says how many, instead of failing."""

from __future__ import annotations

from pathlib import Path

import pytest
from quality import in_time
from support.processes import run


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_late_test_is_left_out_and_counted(workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(
        "import os\n"
        "def test_first(): os.environ['LAST_START'] = '0'\n"
        "def test_second(): raise AssertionError\n"
    )
    words = ["-m", "pytest", "-p", "no:dpframe", "-p", "no:cacheprovider", "-p", "in_time"]
    words += ["-n", workers, "--dist", "loadfile"] if workers != "0" else []
    done = run(*words, cwd=tmp_path, PYTHONPATH=str(Path(in_time.__file__).parent))
    assert done.returncode == 0, done.stdout
    assert "1 tests left out: no time" in done.stdout
    assert "1 passed, 1 skipped" in done.stdout
