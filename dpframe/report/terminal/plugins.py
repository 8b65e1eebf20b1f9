"""The list of plugins, the description of one plugin, and its promises."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from dpframe.report import words
from dpframe.report.terminal.elements import STYLE, Ink, print_fitted, show
from dpframe.report.words import SYMBOL

MANY = {"decision": "decisions", "score": "scores"}  # plurals
LEAST_TEXT = 24  # least columns of a description beside the plugin's name


class PluginRow(NamedTuple):
    """A line of the list."""

    name: str
    origin: str
    handed: str  # kinds of scores that it gives or takes
    text: str


# Entries, broken plugins and parameters are those of `dpframe.interfaces`, which reports do not
# import.


def render_plugins(
    entries: Iterable[Any],
    broken: Iterable[Any],
    exchange: Callable[[type[Any]], dict[str, Any]],
    console: Console,
) -> None:
    """Print a table for each kind, then a line for each plugin that could not be loaded.

    `entries` and `broken` are those of the registry; `exchange` returns the kinds of scores that a
    class gives or takes.
    """
    ink = Ink.of(console)
    kinds: dict[str, list[PluginRow]] = {}
    for entry in entries:
        handed = ",\n".join(_handed(exchange(entry.cls)))
        lines = inspect.cleandoc(entry.cls.__doc__ or "").splitlines()
        row = PluginRow(entry.name, _origin(entry), handed, lines[0] if lines else "")
        kinds.setdefault(entry.kind, []).append(row)
    if not kinds:
        show(console, "no plugins")
    # One width for all tables, so that the columns of the whole listing line up.
    everyone = [row for rows in kinds.values() for row in rows]
    widths = [
        max(cell_len(line) for text in texts for line in text.split("\n"))
        for texts in zip(*everyone, strict=True)
    ]
    wide = sum(widths[:3]) + LEAST_TEXT + 6 <= console.width
    for index, (kind, rows) in enumerate(kinds.items()):
        if index:
            console.print()
        if wide:
            show(console, _table(kind, rows, widths, ink))
        else:
            _stacked(kind, rows, ink, console)
    for failure in broken:
        console.print()
        where = f"{failure.distribution} {failure.version}, {failure.what}"
        line = ink.text(f"{SYMBOL['failed']} not loaded: {where}: ", STYLE["failed"])
        show(console, line.append_text(ink.text(failure.error)))


def _table(kind: str, rows: list[PluginRow], widths: list[int], ink: Ink) -> Table:
    table = ink.table(2)
    table.add_column(kind, min_width=widths[0], no_wrap=True)
    table.add_column("from", min_width=widths[1], no_wrap=True)
    if handed := any(row.handed for row in rows):
        table.add_column("gives" if kind == "attack" else "takes", no_wrap=True)
    table.add_column("what it is", overflow="fold", ratio=1)
    for row in rows:
        texts = [row.handed] if handed else []
        cells = [ink.text(text) for text in (row.origin, *texts, row.text)]
        table.add_row(ink.text(row.name, "bold"), *cells)
    return table


def _stacked(kind: str, rows: list[PluginRow], ink: Ink, console: Console) -> None:
    """Print everything below the name, for narrow terminals."""
    show(console, ink.text(kind.upper()))
    verb = "gives" if kind == "attack" else "takes"
    for row in rows:
        show(console, *ink.folded(row.name, "bold", console.width))
        handed = [f"{verb} {row.handed}".replace("\n", " ")] if row.handed else []
        for text in (row.origin, *handed, row.text):
            folded = ink.folded(text, "", console.width - 2)
            show(console, *(ink.text("  ").append_text(line) for line in folded))


def render_plugin(
    entry: Any, parameters: Iterable[Any], exchange: dict[str, Any], console: Console
) -> None:
    """Print the description of a plugin, the scores that it gives or takes, and its parameters."""
    ink = Ink.of(console)
    heading = ink.text(entry.name, "bold")
    heading.append(ink.plain(f" · {entry.kind} · {_origin(entry)}"))
    show(console, heading)
    show(console, *map(ink.text, _sentences(exchange)))
    documentation = inspect.cleandoc(entry.cls.__doc__ or "No description.")
    for paragraph in documentation.split("\n\n"):
        console.print()
        show(console, ink.text(_reflowed(paragraph)))
    console.print()
    rows = list(parameters)
    if not rows:
        show(console, "takes no parameters")
        return
    table = ink.table(2)
    for title in ("parameter", "type", "default", "bounds", "meaning"):
        table.add_column(title, overflow="fold", ratio=1 if title == "meaning" else None)
    for row in rows:
        texts = (row.type, row.default, row.bounds, row.meaning)
        table.add_row(ink.text(row.name, "bold"), *map(ink.text, texts))
    print_fitted(table, console)


def _handed(exchange: dict[str, Any]) -> list[str]:
    """List the kinds of scores that an attack gives or an estimator takes; [] for other plugins."""
    if "gives" in exchange:
        return [MANY.get(exchange["gives"], exchange["gives"])]
    if "takes" not in exchange:
        return []
    if exchange["takes"] is None:
        return ["not known"]
    kinds = [
        "binned scores" if kind == "score" and exchange["bins"] else MANY.get(kind, kind)
        for kind in exchange["takes"]
    ]
    return [*kinds, *(["raw scores"] if exchange["raw_scores"] else [])]


def _sentences(exchange: dict[str, Any]) -> Iterator[str]:
    if "gives" in exchange:
        yield f"gives {', '.join(_handed(exchange))}"
    if "takes" in exchange:
        yield f"takes {', '.join(_handed(exchange))}"
        sure = "certifies a bound" if exchange["certifies"] else "certifies nothing"
        yield f"{sure}; assumes {exchange['assumption']}"
        if exchange["reference"]:
            yield f"rests on {exchange['reference']}"


def _reflowed(paragraph: str) -> str:
    """Join the lines of prose, so that they are folded at the console's width."""
    lines = paragraph.splitlines()
    return paragraph if any(line[:1] in " *-" for line in lines) else " ".join(lines)


def _origin(entry: Any) -> str:
    return f"{entry.distribution} {entry.version}"


_RESULTS = {"kept": STYLE["consistent"], "broken": STYLE["violated"], "left out": "dim"}


def render_conformance(found: Any, console: Console) -> None:
    """Print the promises of a plugin that are kept, broken and left out, from a `Conformance`."""
    ink, entry = Ink.of(console), found.entry
    heading = ink.text(f"{entry.kind} {entry.name}", "bold")
    given = ", ".join(f"{name} = {words.setting(value)}" for name, value in found.params.items())
    show(console, heading.append(ink.plain(f" · {_origin(entry)}{f' · {given}' if given else ''}")))
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
