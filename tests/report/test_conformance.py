"""One mistake that breaks many promises is explained once, under the first of them."""

from __future__ import annotations

import dataclasses
import io
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from dpframe.report.terminal.plugins import render_conformance


@dataclasses.dataclass
class Finding:
    promise: str
    result: str
    detail: str = ""


def test_one_mistake_is_told_once() -> None:
    findings = [
        Finding("says what it is", "kept"),
        Finding("gives n outputs", "broken", "sample(…, n=2) gave shape (1,)"),
        Finding("leaves its input", "left out", "JAX arrays cannot be changed"),
        Finding("same key, same bits", "broken", "sample(…, n=256) gave shape (1,)"),
        Finding("has a density", "broken", "another reason"),
    ]
    entry = SimpleNamespace(kind="mechanism", name="m", distribution="d", version="1")
    found: Any = SimpleNamespace(entry=entry, params={"epsilon": 1.0}, findings=findings)
    out = io.StringIO()
    render_conformance(found, Console(file=out, width=80))
    text = out.getvalue()
    assert text.count("gave shape (1,)") == 1
    assert "broken    same key, same bits\n          as above: gives n outputs\n" in text
    assert "          JAX arrays cannot be changed\n" in text
    assert "          another reason\n" in text
    assert "1 kept, 3 broken, 1 left out" in text
