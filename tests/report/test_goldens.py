"""Each format of one small record is as it was reviewed."""

from __future__ import annotations

import re

import pytest
from support import made_records

from dpframe.report import delivery
from dpframe.results.store import as_record

CELLS = [made_records.cell(use, 1.0, 2, m=3) for use in ("laplace", "dptext")]
CELLS.append(made_records.failed_cell(use="adept", dim=2))
SKIP = {"mechanism": "m", "attack": "a", "estimator": "e", "pair": "p", "swept": {}}
EVENT = {"event": "majority-vote answered D", "hits": [9, 0], "trials": [10, 10], "leak": ""}
EVENT |= {"more_likely": "D", "pair_trials": 10, "inside": ["(0, 5)"], "outside": ["(1, 1)"]}


@pytest.mark.parametrize("suffix", [".md", ".xml", ".csv", ".html"])
def test_a_report_looks_as_reviewed(suffix, golden, monkeypatch):
    monkeypatch.setattr("dpframe.report.html.pictures", lambda record: ([], []))
    CELLS[1]["event"] = EVENT
    skipped = [SKIP | {"reason": "no parameter nan"}]
    record = as_record(made_records.record(CELLS, m=3, name="small", skipped=skipped))
    text = delivery.report_as(suffix, record)
    assert text == delivery.report_as(suffix, record)
    if suffix == ".html":  # without style and script
        text = re.sub(r"<(style|script)>.*?</\1>", r"<\1></\1>", text, flags=re.DOTALL)
        text = re.sub(r"sha256-[\w+/=]+", "sha256-", text)
    golden(f"small{suffix}", text.replace("\r\n", "\n"))
