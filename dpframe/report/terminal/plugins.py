"""The list of plugins, and what one of them takes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rich.cells import cell_len

from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink, fitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console
    from rich.table import Table


MANY = {"decision": "decisions", "score": "scores"}
"""What is said of more than one."""
LEAST_TEXT = 24
"""Columns that the description of a plugin needs beside its name, to be read."""


class Row(NamedTuple):
    """What the list says of a plugin."""

    name: str
    origin: str
    handed: str
    """What it gives or takes."""
    text: str


class PluginEntry(Protocol):
    """A plugin class and where it comes from."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def distribution(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def cls(self) -> type[Any]: ...


class BrokenPlugin(Protocol):
    """Something a distribution offered that could not be used, and why."""

    @property
    def distribution(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def error(self) -> str: ...


class PluginParameter(Protocol):
    """One row of a parameter table."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def default(self) -> str: ...
    @property
    def bounds(self) -> str: ...
    @property
    def meaning(self) -> str: ...


def render_plugins(
    entries: Iterable[PluginEntry],
    broken: Iterable[BrokenPlugin],
    exchange: Callable[[type[Any]], dict[str, Any]],
    console: Console,
) -> None:
    """Prints a table per kind, then a line for everything that could not be loaded.

    Args:
        entries: the plugins that can be used.
        broken: those that cannot.
        exchange: tells what a class gives or takes.
        console: where to print.
    """
    ink = Ink.of(console)
    kinds: dict[str, list[Row]] = {}
    for entry in entries:
        told = ",\n".join(handed(exchange(entry.cls)))
        row = Row(entry.name, _origin(entry), told, first_line(entry))
        kinds.setdefault(entry.kind, []).append(row)
    if not kinds:
        console.print("no plugins")
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
            console.print(_table(kind, rows, widths, ink))
        else:
            _stacked(kind, rows, ink, console)
    for failure in broken:
        console.print()
        where = f"{failure.distribution} {failure.version}, {failure.what}"
        line = ink.text(f"{SYMBOL['failed']} not loaded: {where}: ", STYLE["failed"])
        console.print(line.append_text(ink.text(failure.error)))


def _table(kind: str, rows: list[Row], widths: list[int], ink: Ink) -> Table:
    table = ink.table(2)
    table.add_column(kind, min_width=widths[0], no_wrap=True)
    table.add_column("from", min_width=widths[1], no_wrap=True)
    if told := any(row.handed for row in rows):
        table.add_column("gives" if kind == "attack" else "takes", no_wrap=True)
    table.add_column("what it is", overflow="fold", ratio=1)
    for row in rows:
        texts = [row.handed] if told else []
        cells = [ink.text(text) for text in (row.origin, *texts, row.text)]
        table.add_row(ink.text(row.name, "bold"), *cells)
    return table


def _stacked(kind: str, rows: list[Row], ink: Ink, console: Console) -> None:
    """For narrow terminals: everything below the name."""
    console.print(ink.text(kind.upper()))
    for row in rows:
        for line in ink.folded(row.name, "bold", console.width):
            console.print(line)
        verb = "gives" if kind == "attack" else "takes"
        told = [f"{verb} {row.handed}".replace("\n", " ")] if row.handed else []
        for text in (row.origin, *told, row.text):
            for line in ink.folded(text, "", console.width - 2):
                console.print(ink.text("  ").append_text(line))


def handed(exchange: dict[str, Any]) -> list[str]:
    """What a plugin gives or takes, in words; nothing for one that does neither."""
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


def render_plugin(
    entry: PluginEntry,
    parameters: Iterable[PluginParameter],
    exchange: dict[str, Any],
    console: Console,
) -> None:
    """Prints what one plugin is and a table of what it takes.

    Args:
        entry: the plugin.
        parameters: in the order to show them.
        exchange: what it gives or takes.
        console: where to print.
    """
    ink = Ink.of(console)
    heading = ink.text(entry.name, "bold")
    heading.append(ink.plain(f" · {entry.kind} · {_origin(entry)}"))
    console.print(heading)
    for line in _said(exchange):
        console.print(ink.text(line))
    documentation = inspect.cleandoc(entry.cls.__doc__ or "No description.")
    for paragraph in documentation.split("\n\n"):
        console.print()
        console.print(ink.text(_reflowed(paragraph)))
    console.print()
    rows = list(parameters)
    if not rows:
        console.print("takes no parameters")
        return
    table = ink.table(2)
    columns = ("parameter", "type", "default", "bounds", "meaning")
    for title in columns:
        table.add_column(title, overflow="fold", ratio=1 if title == "meaning" else None)
    for row in rows:
        table.add_row(
            ink.text(row.name, "bold"),
            *(ink.text(text) for text in (row.type, row.default, row.bounds, row.meaning)),
        )
    for part in fitted(table, ink, console.width):
        console.print(part)


def _said(exchange: dict[str, Any]) -> Iterator[str]:
    """What a plugin gives or takes, in sentences."""
    if "gives" in exchange:
        yield f"gives {', '.join(handed(exchange))}"
    if "takes" in exchange:
        yield f"takes {', '.join(handed(exchange))}"
        sure = "certifies a bound" if exchange["certifies"] else "certifies nothing"
        yield f"{sure}; assumes {exchange['assumption']}"
        if exchange["reference"]:
            yield f"rests on {exchange['reference']}"


def first_line(entry: PluginEntry) -> str:
    """The first line of a plugin's docstring."""
    lines = inspect.cleandoc(entry.cls.__doc__ or "").splitlines()
    return lines[0] if lines else ""


def _reflowed(paragraph: str) -> str:
    """Joins the lines of prose, so that they break at the console's width, not the source's."""
    lines = paragraph.splitlines()
    return paragraph if any(line[:1] in " *-" for line in lines) else " ".join(lines)


def _origin(entry: PluginEntry) -> str:
    return f"{entry.distribution} {entry.version}"
