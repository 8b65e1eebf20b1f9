"""Calibration and conformance in the terminal."""

import re
from typing import Any

from rich.console import Console
from rich.padding import Padding

from dpframe.report import calibration, words
from dpframe.report.terminal.ink import STYLE, Ink, print_fitted, show
from dpframe.report.words import SYMBOL

_LOOKS = {
    "kept": (SYMBOL["consistent"], STYLE["consistent"]),
    "broken": (SYMBOL["violated"], STYLE["violated"]),
    "failed": (SYMBOL["failed"], STYLE["failed"]),
    None: (SYMBOL[None], "dim"),
}
_RESULTS = {"kept": STYLE["consistent"], "broken": STYLE["violated"], "left out": "dim"}


def render_calibration(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.calibrate`."""
    ink = Ink.of(console)
    head = ink.text(found["audit"]["name"], "bold")
    show(console, head.append(ink.plain(f" · {words.quantity(found['repeats'])} repeats")))
    for paragraph in calibration.explanation(found):
        show(console, ink.text(paragraph, "dim"))
    for section in calibration.sections(found):
        console.print()
        show(console, ink.text(section.title, "bold"))
        if section.explanation:
            show(console, ink.text(section.explanation, "dim"))
        table = ink.table(2)
        for head_text in section.heads:
            table.add_column(
                ink.text(head_text),
                justify="right" if head_text in ("n", "audits") else "left",
                no_wrap=head_text in ("n", "audits", "typical", "expected", "promise"),
                overflow="fold",
            )
        for kind, (*texts, promise) in section.rows:
            sign, style = _LOOKS[kind]
            cells = (*texts, f"{sign} {promise}")
            table.add_row(*(ink.text(text, style) for text in cells))
        print_fitted(table, ink, console)
    console.print()
    for line in calibration.failures(found):
        show(console, ink.text(f"– {line}"))
    grave = found["summary"]["broken"] or found["summary"]["failed"]
    show(console, ink.text(calibration.conclusion(found), STYLE["violated"] if grave else "bold"))


def render_conformance(found: Any, console: Console) -> None:
    """Print the promises of a plugin that are kept, broken and left out, from a `Conformance`."""
    ink, entry = Ink.of(console), found.entry
    heading = ink.text(f"{entry.kind} {entry.name}", "bold")
    given = ", ".join(f"{name} = {words.setting(value)}" for name, value in found.params.items())
    origin = f" · {entry.distribution} {entry.version}"
    show(console, heading.append(ink.plain(f"{origin}{f' · {given}' if given else ''}")))
    width = max(map(len, _RESULTS))
    explained: dict[str, str] = {}
    for finding in found.findings:
        line = ink.text(finding.result.ljust(width + 2), _RESULTS[finding.result])
        show(console, line.append(ink.plain(finding.promise)))
        if finding.detail:
            # One mistake may break many promises, and only its numbers differ.
            first = explained.setdefault(re.sub(r"\d+", "", finding.detail), finding.promise)
            text = finding.detail if first == finding.promise else f"as above: {first}"
            show(console, Padding(ink.text(text), (0, 0, 0, width + 2), expand=False))
    counts = [sum(one.result == result for one in found.findings) for result in _RESULTS]
    parts = (f"{count} {result}" for count, result in zip(counts, _RESULTS, strict=True))
    show(console, ink.plain(", ".join(parts)))
