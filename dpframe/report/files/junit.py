"""A record as JUnit XML: a case a cell, for what shows tests of continuous integration.

A suite is red exactly where `dpframe run` exits with another code than 0. A green case says that a
cell met its expectation or that no violation was found, which is written into it; what decided
nothing is skipped, not green.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from dpframe.common.text import printable
from dpframe.report import sentences, words
from dpframe.report.group import state
from dpframe.report.sentences import Kind, Outcome, outcomes
from dpframe.results.model import CellRecord, Record, SkipRecord
from dpframe.results.verdict import exit_code

ELEMENTS = {Kind.FAILED: "failure", Kind.BROKEN: "error", Kind.UNDECIDED: "skipped"}


class _Case(NamedTuple):
    name: str
    outcome: Outcome
    type: str
    seconds: float
    text: str


def document(record: Record) -> str:
    """Return the whole file; Jenkins and others read its elements and attributes."""
    cases = list(_cases(record))
    kinds = Counter(case.outcome.kind for case in cases)
    totals = {
        "name": _text(record.audit.name),
        "tests": str(len(cases)),
        "failures": str(kinds[Kind.FAILED]),
        "errors": str(kinds[Kind.BROKEN]),
        "time": _seconds(record.summary.seconds),
    }
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", totals)
    suite.set("skipped", str(kinds[Kind.UNDECIDED]))
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(record):
        ElementTree.SubElement(properties, "property", name=name, value=_text(value))
    for case in cases:
        suite.append(_element(case, totals["name"]))
    said = [str(sentences.verdict(record)), *sentences.caveats(record)]
    if warning := sentences.warning(record):
        said.append(warning)
    _within(suite, "system-out", "\n".join(said))
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _cases(record: Record) -> Iterator[_Case]:
    for cell, name, found in outcomes(record):
        if isinstance(cell, SkipRecord):
            yield _Case(name, found, "skipped", 0.0, "")
        else:
            verdict = state(cell) or "no verdict"
            text = "\n".join([found.message, *_numbers(cell)])
            yield _Case(name, found, verdict, cell.seconds, text)
    if not record.cells:
        nothing = Outcome(Kind.BROKEN, "no cell was run, so nothing was tested")
        yield _Case("the audit as a whole", nothing, "nothing", 0.0, "")


def _numbers(cell: CellRecord) -> Iterator[str]:
    estimate, claim = cell.estimate, cell.claim
    if claim:
        yield f"claimed: ε = {words.point(claim.epsilon)} at δ = {words.setting(claim.delta)}"
    if estimate:
        yield f"empirical: ε = {words.point(estimate.epsilon)}, a point estimate and no bound"
        if estimate.epsilon_lower is not None:
            level = words.percent(estimate.confidence)
            bound = words.lower(estimate.epsilon_lower)
            yield f"certified: ε ≥ {bound} with {level} confidence; assumes {estimate.assumption}"
    if cell.p_adjusted is not None:
        yield f"p-value: {cell.p_value:.3g}, adjusted for all tests {cell.p_adjusted:.3g}"
    yield f"cell: {cell.id}"


def _properties(record: Record) -> Iterator[tuple[str, str]]:
    yield "spec", record.spec.path or "no file"
    yield "spec sha256", record.spec.sha256
    yield "seed", str(record.seed)
    yield "confidence", str(record.audit.confidence)
    yield "multiplicity", record.audit.multiplicity
    yield "exit code", str(exit_code(record))
    yield "dpframe", record.environment.dpframe


def _element(case: _Case, suite: str) -> Element:
    attributes = {"name": _text(case.name), "classname": suite, "time": _seconds(case.seconds)}
    element = ElementTree.Element("testcase", attributes)
    if name := ELEMENTS.get(case.outcome.kind):
        message = _text(case.outcome.message)
        problem = ElementTree.SubElement(element, name, type=case.type, message=message)
        if case.outcome.kind is not Kind.UNDECIDED:
            problem.text = _text(case.text)
    if case.text:
        _within(element, "system-out", case.text)
    return element


def _within(element: Element, name: str, text: str) -> None:
    ElementTree.SubElement(element, name).text = _text(text)


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _text(text: str) -> str:
    """Escape control characters, most of which XML cannot hold."""
    return printable(text, "\n")
