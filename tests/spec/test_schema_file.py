"""The schema that the package carries, for editors: that of the built-ins as they are."""

from __future__ import annotations

import json

import pytest
from support import ROOT

from dpframe.interfaces import registry
from dpframe.spec.model import spec_schema

FILE = ROOT / "dpframe" / "spec" / "schema.json"


def test_the_file_is_that_of_the_built_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is not: `DPFRAME_NO_PLUGINS=1 dpframe schema > dpframe/spec/schema.json`."""
    monkeypatch.setenv("DPFRAME_NO_PLUGINS", "1")
    assert json.loads(FILE.read_text(encoding="utf-8")) == spec_schema(registry.load())
