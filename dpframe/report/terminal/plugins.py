"""The list of plugins, and what one of them takes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console


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
    entries: Iterable[PluginEntry], broken: Iterable[BrokenPlugin], console: Console
) -> None:
    """Prints a table per kind, then a line for everything that could not be loaded.

    Args:
        entries: the plugins that can be used.
        broken: those that cannot.
        console: where to print.
    """
    ink = Ink.of(console)
    kinds: dict[str, list[PluginEntry]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry)
    if not kinds:
        console.print("no plugins")
    # One width for all tables, so that the columns of the whole listing line up.
    everyone = [entry for found in kinds.values() for entry in found]
    widths = [
        max((len(text) for text in texts), default=0)
        for texts in ([e.name for e in everyone], [_origin(e) for e in everyone])
    ]
    for index, (kind, found) in enumerate(kinds.items()):
        if index:
            console.print()
        table = ink.table(2)
        table.add_column(kind, min_width=min(widths[0], 26), overflow="fold")
        table.add_column("from", min_width=min(widths[1], 26), overflow="fold")
        table.add_column("what it is", overflow="fold", ratio=1)
        for entry in found:
            table.add_row(
                ink.text(entry.name, "bold"), ink.text(_origin(entry)), ink.text(first_line(entry))
            )
        console.print(table)
    for failure in broken:
        console.print()
        where = f"{failure.distribution} {failure.version}, {failure.what}"
        line = ink.text(f"{SYMBOL['failed']} not loaded: {where}: ", STYLE["failed"])
        console.print(line.append_text(ink.text(failure.error)))


def render_plugin(
    entry: PluginEntry, parameters: Iterable[PluginParameter], console: Console
) -> None:
    """Prints what one plugin is and a table of what it takes.

    Args:
        entry: the plugin.
        parameters: in the order to show them.
        console: where to print.
    """
    ink = Ink.of(console)
    heading = ink.text(entry.name, "bold")
    heading.append(ink.plain(f" · {entry.kind} · {_origin(entry)}"))
    console.print(heading)
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
    console.print(table)


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
