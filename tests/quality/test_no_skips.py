"""Skipped tests fail a run that installs everything, unless they are for another system or user."""

from __future__ import annotations

from pathlib import Path

import pytest
from quality import no_skips
from support.processes import run

SKIPS = {
    "a library": ("def test_it():\n    pytest.importorskip('no_such_library')", True),
    "a whole module": ("pytest.importorskip('no_such_library')", True),
    "a mark": ("@pytest.mark.skipif(True, reason='later')\ndef test_it(): pass", True),
    "the user": (
        "@pytest.mark.skipif(True, reason='root may read everything')\ndef test_it(): pass",
        False,
    ),
}


@pytest.mark.parametrize("what", ["a library", *(
    pytest.param(name, marks=pytest.mark.slow) for name in SKIPS if name != "a library"
)])  # fmt: skip
def test_a_skip_fails_the_run(what: str, tmp_path: Path) -> None:
    text, fails = SKIPS[what]
    (tmp_path / "test_them.py").write_text(f"import pytest\n\n{text}\n")
    (tmp_path / "test_more.py").write_text("def test_more(): pass\n")
    words = ("-m", "pytest", "-p", "no:dpframe", "-p", "no:cacheprovider", "-p", "no_skips")
    done = run(*words, cwd=tmp_path, PYTHONPATH=str(Path(no_skips.__file__).parent))
    assert done.returncode == int(fails), done.stdout
    assert ("skipped, and must not be: test_them.py" in done.stdout) == fails
