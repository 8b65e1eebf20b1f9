"""The pages on pipelines begin with examples that run and print what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"
BLOCK = re.compile(
    r"<!-- no-run: plugin tests -->\n```python\n((?:(?!```).)*)```\n\n"
    r"<!-- no-run: plugin tests -->\n```text\n(.*?)```",
    re.DOTALL,
)


@pytest.mark.parametrize(
    ("page", "at"),
    [
        ("audit-synthetic-tables.md", 0),
        pytest.param("audit-sql.md", 0, marks=pytest.mark.slow),
        pytest.param("audit-sql.md", 1, marks=pytest.mark.slow),
    ],
)
def test_a_page_prints_what_it_says(page, at, tmp_path):
    code, printed = BLOCK.findall((HOW_TO / page).read_text(encoding="utf-8"))[at]
    (tmp_path / "page.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
