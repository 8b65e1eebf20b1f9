"""A record as JUnit XML, with one test case for each cell.

The suite is red if and only if `dpframe run` exits with a code other than 0. A case is green if its
cell met its expectation or no violation was found; it states the reason. A cell without a decision
is a skipped case.
"""

from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from dpframe.common.text import escape
from dpframe.report.findings import HEAD, caveats, of, outcomes
from dpframe.report.tables import facts
from dpframe.report.verdict_text import CellOutcome, OutcomeKind, headline, state
from dpframe.results.model import CellRecord, Record, SkipRecord
from dpframe.results.store import exit_code

ELEMENTS = {
    OutcomeKind.FAILED: "failure",
    OutcomeKind.BROKEN: "error",
    OutcomeKind.UNDECIDED: "skipped",
}

FACTS = ("Claimed", "Empirical", "Certified", "Assumes", "p-value", "Id")
"""The facts about a cell in the text of its case."""


def document(record: Record) -> str:
    """Return the whole file, in the elements and attributes that Jenkins and others read."""
    results = list(outcomes(record))
    kinds = Counter(one.kind for _, _, one in results)
    totals = {
        "name": _text(record.audit.name),
        "tests": str(len(results) + (not record.cells)),
        "failures": str(kinds[OutcomeKind.FAILED]),
        "errors": str(kinds[OutcomeKind.BROKEN] + (not record.cells)),
        "time": f"{record.summary.seconds:.3f}",
    }
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", totals)
    suite.set("skipped", str(kinds[OutcomeKind.UNDECIDED]))
    properties = ElementTree.SubElement(suite, "properties")
    values = {
        "spec": record.spec.path or "no file",
        "spec sha256": record.spec.sha256,
        "seed": record.seed,
        "confidence": record.audit.confidence,
        "multiplicity": record.audit.multiplicity,
        "exit code": exit_code(record),
        "dpframe": record.environment.dpframe,
    }
    for name, value in values.items():
        ElementTree.SubElement(properties, "property", name=name, value=_text(str(value)))
    for cell, name, one in results:
        suite.append(_case(cell, name, one, totals["name"]))
    if not record.cells:
        nothing = CellOutcome(OutcomeKind.BROKEN, "no cell was run, so nothing was tested")
        suite.append(_case(None, "the audit as a whole", nothing, totals["name"]))
    lines = [str(headline(record))]
    lines += [*map(str, of(record, *HEAD)), *caveats(record)]
    _within(suite, "system-out", "\n".join(lines))
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _case(
    cell: CellRecord | SkipRecord | None, name: str, outcome: CellOutcome, suite: str
) -> Element:
    """Return a test case of a cell, or of the whole audit if `cell` is None."""
    kind, seconds, text = "nothing" if cell is None else "skipped", 0.0, ""
    if isinstance(cell, CellRecord):
        kind, seconds = state(cell) or "no verdict", cell.seconds
        details = [f"{name}: {value}" for name, value in facts(cell) if name in FACTS]
        text = "\n".join([outcome.message, *details])
    attributes = {"name": _text(name), "classname": suite, "time": f"{seconds:.3f}"}
    element = ElementTree.Element("testcase", attributes)
    if tag := ELEMENTS.get(outcome.kind):
        problem = ElementTree.SubElement(element, tag, type=kind, message=_text(outcome.message))
        if outcome.kind is not OutcomeKind.UNDECIDED:
            problem.text = _text(text)
    if text:
        _within(element, "system-out", text)
    return element


def _within(element: Element, name: str, text: str) -> None:
    ElementTree.SubElement(element, name).text = _text(text)


def _text(text: str) -> str:
    """Escape control characters, most of which XML cannot hold."""
    return escape(text, "\n")
