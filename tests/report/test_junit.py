"""JUnit XML: red exactly where a run is, and green never where nothing was decided."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from support import made_records

from dpframe.report.junit import document
from dpframe.results.store import as_record, exit_code

# The elements and attributes that the schema of Jenkins' xUnit plugin allows, and what it requires.
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
    **{leaf: set() for leaf in ("property", "skipped", "error", "failure", "system-out")},
}
ATTRIBUTES = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package", "file"},
    ),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name"}, {"time", "classname", "group"}),
    **dict.fromkeys(("skipped", "error", "failure"), (set(), {"type", "message"})),
    "system-out": (set(), set()),
}


def suite(*cells, **changes):
    record = as_record(made_records.record(cells, **changes))
    root = ElementTree.fromstring(document(record))
    for element in root.iter():
        required, optional = ATTRIBUTES[element.tag]
        assert required <= set(element.attrib) <= required | optional
        assert {child.tag for child in element} <= CHILDREN[element.tag]
        if "time" in element.attrib:
            assert float(element.attrib["time"]) >= 0
            assert "e" not in element.attrib["time"]
    (found,) = root
    assert root.attrib.items() <= found.attrib.items()
    red = int(found.get("failures")) + int(found.get("errors"))
    assert bool(red) == bool(exit_code(record))
    cases = found.findall("testcase")
    assert len(cases) == int(found.get("tests"))
    for name, key in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert len(found.findall(f"testcase/{name}")) == int(found.get(key))
    return found, cases


def kind(case):
    return next((c.tag for c in case if c.tag != "system-out"), "green")


SKIP = {
    "mechanism": "laplace",
    "pair": "zeros-ones",
    "attack": "a",
    "estimator": "e",
    "swept": {},
    "reason": "a decision is no score",
}
REASON = "no violation found; another attack may show more"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdict": "consistent", "expected": None, "reason": REASON}, "green"),
        ({"verdict": "consistent", "expected": "consistent"}, "green"),
        ({"verdict": "consistent", "expected": "violated"}, "failure"),
        ({"verdict": "violated", "expected": None}, "failure"),
        ({"verdict": "violated", "expected": "violated"}, "green"),
        ({"verdict": "inconclusive", "expected": None}, "skipped"),
        ({"verdict": "inconclusive", "expected": "consistent"}, "failure"),
        ({"verdict": "inconclusive", "expected": "inconclusive"}, "green"),
        ({"verdict": None, "expected": None}, "skipped"),
        ({"verdict": None, "expected": "consistent"}, "failure"),
    ],
)
def test_what_a_case_becomes(changes, expected):
    _, (case,) = suite(made_records.cell() | changes)
    assert kind(case) == expected
    text = case.findtext("system-out")
    if changes["verdict"] == "consistent":
        assert "no violation found" in text
    assert "private" not in ElementTree.tostring(case, "unicode")


def test_what_could_not_be_run_and_what_was_skipped():
    expected = {**SKIP, "expected": "violated"}
    found, cases = suite(made_records.failed_cell(), skipped=[SKIP, expected])
    assert [kind(case) for case in cases] == ["error", "skipped", "failure"]
    assert "outputs have shape (4,)" in cases[0].find("error").get("message")
    assert found.get("errors") == "1"


def test_a_run_of_nothing_is_not_green():
    _, (case,) = suite()
    assert kind(case) == "error"


def test_names_are_different_and_say_where():
    _, cases = suite(*made_records.figure_2()["cells"])
    names = {case.get("name") for case in cases}
    assert len(names) == 252
    assert "DPText, NaN to zero · majority-vote · precision · ε 0.1, dim 1" in names
    cells = [made_records.cell(repeat=repeat) for repeat in (0, 1)]
    assert len({case.get("name") for case in suite(*cells)[1]}) == 2


HOSTILE = "]]><script>\"'&\x00\x1b\ud800\ufffe\u202e"


def test_any_text_is_held():
    cell = made_records.failed_cell(HOSTILE)
    cell["mechanism"]["label"] = HOSTILE
    record = as_record(made_records.record([made_records.failed_cell()], name="x"))
    broken = record.cells[0].model_copy(update={"reason": HOSTILE})
    changed = record.model_copy(update={"cells": [broken]})
    root = ElementTree.fromstring(document(changed).encode())
    shown = "]]><script>\"'&\\x00\\x1b\\ud800\\ufffe\\u202e"
    assert root.find(".//error").get("message") == f"could not be run: {shown}"
