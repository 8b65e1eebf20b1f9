"""The notebook shows what its cells do."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.black_boxes import sample_in_this_process
from support.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
TEXT = NOTEBOOK.read_text(encoding="utf-8")


def shown(notebook: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Return what each cell shows: times and spaces aside, and of a picture that there is one."""
    found = []
    for number, cell in enumerate(notebook["cells"]):
        for output in cell.get("outputs", []):
            for kind, value in (output.get("data") or {"stream": output.get("text")}).items():
                text = "" if kind == "image/png" else "".join(value)
                found.append(
                    (number, kind, " ".join(re.sub(r"(in|,) [\d.]+ m?s\b", "", text).split()))
                )
    return found


def test_it_is_small_and_shows_a_result_of_every_kind() -> None:
    assert len(TEXT.encode()) < 100_000
    kinds = {kind for _, kind, _ in shown(json.loads(TEXT))}
    assert kinds == {"stream", "text/plain", "text/html", "image/png"}
    for name in ("dpframe.audit(", "dpframe.plot(", ".to_pandas()", "search_violation("):
        assert name in TEXT
    for link in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (NOTEBOOK.parent / link).exists(), link


@pytest.mark.usefixtures("usual_chunks")
def test_its_outputs_are_those_of_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("pandas", "matplotlib"):
        pytest.importorskip(needed)
    spec = importlib.util.spec_from_file_location("notebook", NOTEBOOK.parent / "notebook.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    sample_in_this_process(monkeypatch)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # messages of audits name it
    monkeypatch.chdir(tmp_path)
    stored = json.loads(TEXT)
    again = copy.deepcopy(stored)
    runner.run(again)
    assert shown(again) == shown(stored)
