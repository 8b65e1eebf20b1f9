"""The list of plugins, the description of one plugin, and its promises."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dpframe.report.number_format import setting
from dpframe.report.tables import Line, Part, ReportTable, Row
from dpframe.report.terminal.text import STYLE, laid_out, literal, show, show_parts
from dpframe.report.verdict_text import SYMBOL

PLURALS = {"decision": "decisions", "score": "scores"}  # plurals

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
    kinds: dict[str, list[list[str]]] = {}
    for entry in entries:
        handed = ", ".join(_handed(exchange(entry.cls)))
        summary, *_ = [*inspect.cleandoc(entry.cls.__doc__ or "").splitlines(), ""]
        row = [entry.name, _origin(entry), handed, summary]
        kinds.setdefault(entry.kind, []).append(row)
    shown: list[Part] = [] if kinds else [Line("no plugins")]
    for kind, rows in kinds.items():
        heads = [kind, "from", "gives" if kind == "attack" else "takes", "what it is"]
        # Mechanisms and pairs exchange nothing.
        used = [n for n in range(len(heads)) if n != 2 or any(row[n] for row in rows)]
        made = [Row([row[n] for n in used]) for row in rows]
        shown.append(ReportTable([heads[n] for n in used], made))
    for failure in broken:
        where = f"{failure.distribution} {failure.version}, {failure.what}"
        shown.append(Line(f"{SYMBOL['failed']} not loaded: {where}: {failure.error}", "failed"))
    show_parts(console, shown)


def render_plugin(
    entry: Any, parameters: Iterable[Any], exchange: dict[str, Any], console: Console
) -> None:
    """Print the description of a plugin, the scores that it gives or takes, and its parameters."""
    heading = literal(entry.name, "bold")
    show(console, heading.append_text(literal(f" · {entry.kind} · {_origin(entry)}", "not bold")))
    show(console, *map(literal, _sentences(exchange)))
    documentation = inspect.cleandoc(entry.cls.__doc__ or "No description.")
    for paragraph in documentation.split("\n\n"):
        lines = paragraph.splitlines()
        # Prose is folded at the console's width; lists and code are not.
        is_prose = not any(line[:1] in " *-" for line in lines)
        show(console, Text(), *map(literal, [" ".join(lines)] if is_prose else lines))
    fields = ("name", "type", "default", "bounds", "meaning")
    rows = [Row([getattr(parameter, name) for name in fields]) for parameter in parameters]
    made = laid_out(ReportTable(("parameter", *fields[1:]), rows))
    show(console, Text(), made if rows else literal("takes no parameters"))


def _handed(exchange: dict[str, Any]) -> list[str]:
    """List the kinds of scores that an attack gives or an estimator takes; [] for other plugins."""
    if "gives" in exchange:
        return [PLURALS.get(exchange["gives"], exchange["gives"])]
    if "takes" not in exchange:
        return []
    if exchange["takes"] is None:
        return ["not known"]
    kinds = [
        "binned scores" if kind == "score" and exchange["bins"] else PLURALS.get(kind, kind)
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


def _origin(entry: Any) -> str:
    return f"{entry.distribution} {entry.version}"


_RESULTS = {"kept": STYLE["consistent"], "broken": STYLE["violated"], "left out": "dim"}


def render_conformance(found: Any, console: Console) -> None:
    """Print the promises of a plugin that are kept, broken and left out, from a `Conformance`."""
    entry = found.entry
    given = ", ".join(f"{name} = {setting(value)}" for name, value in found.params.items())
    of = f" · {_origin(entry)}{f' · {given}' if given else ''}"
    heading = literal(f"{entry.kind} {entry.name}", "bold")
    show(console, heading.append_text(literal(of, "not bold")))
    width = max(map(len, _RESULTS))
    explained: dict[str, str] = {}
    for finding in found.findings:
        line = literal(finding.result.ljust(width + 2), _RESULTS[finding.result])
        show(console, line.append_text(literal(finding.promise)))
        if finding.detail:
            # One mistake may break many promises, and only its numbers differ.
            first = explained.setdefault(re.sub(r"\d+", "", finding.detail), finding.promise)
            text = finding.detail if first == finding.promise else f"as above: {first}"
            show(console, Padding(literal(text), (0, 0, 0, width + 2), expand=False))
    counts = [sum(one.result == result for one in found.findings) for result in _RESULTS]
    parts = (f"{count} {result}" for count, result in zip(counts, _RESULTS, strict=True))
    show(console, literal(", ".join(parts)))
