"""Reports in Python: the record as a value, what a notebook shows, a file."""

from __future__ import annotations

import json
import sys

import pytest
from support import made_records
from support.html_pages import Page

import dpframe
from dpframe.commands import audit
from dpframe.errors import OutputError, RecordError
from dpframe.results.model import Record
from dpframe.results.store import as_record

HOSTILE = "</iframe>\"'><script>alert(1)</script>"


@pytest.fixture
def record():
    return as_record(made_records.record([made_records.cell("dptext"), made_records.cell()]))


def test_the_package_is_the_function_however_it_was_imported(record):
    import dpframe.report.number_format

    assert dpframe.report is sys.modules["dpframe.report"]
    assert dpframe.report.number_format.point(1.0) == "1.00"
    page = dpframe.report(record)
    assert page.startswith("<!DOCTYPE html>")
    assert "1 of 2 claims violated" in page


@pytest.mark.parametrize("suffix", [".html", ".md", ".csv", ".xml", ".json"])
def test_a_report_in_a_file(record, tmp_path, suffix):
    for given in (record, record.as_dict(), record.as_json()):
        path = tmp_path / "new" / f"report{suffix}"
        assert dpframe.report(given, path) is None
        assert "dptext" in path.read_text(encoding="utf-8")
        path.unlink()


def test_what_is_no_record_and_no_report(record, tmp_path):
    with pytest.raises(RecordError):
        dpframe.report({})
    with pytest.raises(RecordError):
        dpframe.report(tmp_path / "missing.json")
    with pytest.raises(OutputError, match=r"\.csv, \.md or \.xml|\.xml"):
        dpframe.report(record, tmp_path / "a.pdf")


def test_a_page_in_a_notebook_stays_in_its_frame():
    found = made_records.record([made_records.cell()], name=HOSTILE)
    shown = Page(dpframe.report(found)._repr_html_())
    assert shown.problems == []
    assert shown.tags == {"iframe": 1}
    ((_, frame),) = shown.attributes
    assert frame["sandbox"] is None  # nothing is allowed
    assert frame["srcdoc"].startswith("<!DOCTYPE html>")


def test_a_notebook_shows_the_verdict_of_a_record(record, monkeypatch):
    assert audit.Record.in_notebooks is not None
    assert "1 of 2 claims violated" in record._repr_html_()
    assert Page(record._repr_html_()).tags["table"] == 1
    monkeypatch.setattr(Record, "in_notebooks", None)
    assert record._repr_html_() is None


def test_a_notebook_that_only_loads_a_record_shows_it_too(record, monkeypatch):
    monkeypatch.setattr(Record, "in_notebooks", None)
    monkeypatch.delitem(sys.modules, "dpframe.report.delivery")
    monkeypatch.delitem(vars(dpframe), "load", raising=False)
    assert callable(dpframe.load)
    assert "1 of 2 claims violated" in record._repr_html_()


def test_fields_are_items_by_their_keys_in_json(record):
    written = json.loads(json.dumps(record.as_json()))
    assert record["schema"] == written["schema"] == 1
    assert record["cells"][0]["estimate"]["delta"] == written["cells"][0]["estimate"]["delta"]
    for missing in ("schema_version", "as_dict", "nothing"):
        with pytest.raises(KeyError):
            record[missing]


def test_a_record_is_short_when_it_is_printed(record):
    assert repr(record) == "Record(audit='dptext', cells=2, violated=1)"
