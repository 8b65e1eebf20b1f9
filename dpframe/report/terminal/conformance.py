"""What became of the promises of a plugin, a line each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from rich.padding import Padding

from dpframe.report.terminal.ink import STYLE, Ink
from dpframe.report.words import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from dpframe.report.terminal.plugins import PluginEntry


class Finding(Protocol):
    """One promise."""

    @property
    def promise(self) -> str: ...
    @property
    def result(self) -> str: ...
    @property
    def detail(self) -> str: ...


class Conformance(Protocol):
    """A plugin and its promises."""

    @property
    def entry(self) -> PluginEntry: ...
    @property
    def params(self) -> dict[str, Any]: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


_STYLE = {"kept": STYLE["consistent"], "broken": STYLE["violated"], "left out": "dim"}


def render_conformance(found: Conformance, console: Console) -> None:
    """Prints the promises that are kept, broken and left out, in words.

    Args:
        found: what was tried.
        console: where to print.
    """
    ink, entry = Ink.of(console), found.entry
    heading = ink.text(f"{entry.kind} {entry.name}", "bold")
    given = ", ".join(f"{name} = {setting(value)}" for name, value in found.params.items())
    origin = f" · {entry.distribution} {entry.version}"
    console.print(heading.append(ink.plain(f"{origin}{f' · {given}' if given else ''}")))
    width = max(map(len, _STYLE))
    told: dict[str, str] = {}
    for finding in found.findings:
        line = ink.text(finding.result.ljust(width + 2), _STYLE[finding.result])
        console.print(line.append(ink.plain(finding.promise)))
        if finding.detail:
            # One mistake may break many promises, and only its numbers differ.
            first = told.setdefault(re.sub(r"\d+", "", finding.detail), finding.promise)
            text = finding.detail if first == finding.promise else f"as above: {first}"
            console.print(Padding(ink.text(text), (0, 0, 0, width + 2), expand=False))
    counted = [sum(one.result == word for one in found.findings) for word in _STYLE]
    parts = (f"{count} {word}" for count, word in zip(counted, _STYLE, strict=True))
    console.print(ink.plain(", ".join(parts)))
