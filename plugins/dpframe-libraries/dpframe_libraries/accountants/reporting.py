"""Tables, findings and reports of a comparison of accountants."""

from __future__ import annotations

import csv
import html
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from dpframe.plugins import DpframeError
from dpframe_libraries.accountants.judging import ABSOLUTE, KINDS, RELATIVE, AccountantRow, Fault
from dpframe_libraries.accountants.questions import describe

FORMATS = (".json", ".csv", ".svg")
COLUMNS = ("accountant", "answers", *KINDS, "not asked", "least", "most", "seconds")
WARNING = (
    "No findings does not prove an accountant right: it only means that these settings show no "
    "error."
)
_COLOURS = {None: "#4878a8", "loose": "#c8952c", "below": "#c03030", "above": "#c03030"}
_STYLE = (  # no ground, and light letters on a dark page
    "<style>text{fill:#24292f}.true{stroke:#333}.tick{stroke:#ddd}"
    "@media screen and (prefers-color-scheme:dark){text{fill:#e6edf3}.true{stroke:#ccc}"
    ".tick{stroke:#444}}</style>"
)


def check(file: Path) -> None:
    """Raise DpframeError if a report has no known format or cannot be written."""
    if file.suffix.lower() not in FORMATS:
        raise DpframeError(f"--report {file}: the name must end in {', '.join(FORMATS)}")
    if not file.absolute().parent.is_dir():
        raise DpframeError(f"--report {file}: there is no folder {file.parent}")


def _ratio(row: AccountantRow) -> float | None:
    """Return the answer ÷ the midpoint of the interval, if both are finite and positive."""
    middle = (row.truth.lower + row.truth.upper) / 2
    if row.epsilon is None or not math.isfinite(row.epsilon) or not 0.01 < middle < math.inf:
        return None
    return row.epsilon / middle


def _table(rows: list[AccountantRow], spent: dict[str, float]) -> list[tuple[str, ...]]:
    groups: dict[str, list[AccountantRow]] = {}
    for row in rows:
        groups.setdefault(str(row.accountant), []).append(row)
    lines = []
    for name, group in groups.items():
        ratios = [ratio for row in group if (ratio := _ratio(row)) is not None]
        faults = [sum(row.kind == kind for row in group) for kind in KINDS]
        lines.append(
            (
                name,
                str(sum(row.epsilon is not None for row in group)),
                *(str(number) if number else "–" for number in faults),
                str(sum(bool(row.not_asked) for row in group)),
                f"{min(ratios):.3g}" if ratios else "–",
                f"{max(ratios):.3g}" if ratios else "–",
                f"{spent[name]:.1f}",
            )
        )
    return lines


def _explained(one: Fault) -> list[str]:
    """Describe a finding in a few lines."""
    row, worst = one.smallest, one.worst
    settings = "setting" if one.settings == 1 else "settings"
    lines = [
        f"{one.accountant}: {KINDS[one.kind]} at {one.settings} {settings}",
        f"smallest: {row.question}",
        f"answer: {_answer(row)}; true ε in {_interval(row)}",
    ]
    if worst.epsilon is not None and worst.question != row.question:
        lines.append(f"worst: {worst.question}")
        lines.append(f"answer: {_answer(worst)}; true ε in {_interval(worst)}")
    return [*lines, f"it states: {one.accountant.statement}"]


def _answer(row: AccountantRow) -> str:
    return row.failure if row.epsilon is None else f"ε = {row.epsilon:.6g}"


def _interval(row: AccountantRow) -> str:
    return f"[{row.truth.lower:.6g}, {row.truth.upper:.6g}]"


def _summary(rows: list[AccountantRow], spent: dict[str, float]) -> str:
    truths = {row.question: row.truth for row in rows}
    widths = sorted(
        one.width / max(one.upper, 0.01) for one in truths.values() if one.upper < math.inf
    )
    width = f", {widths[len(widths) // 2]:.1g} of ε wide (median)" if widths else ""
    return (
        f"{len(truths)} settings; intervals{width} took {spent['truth']:.1f} s. An answer counts "
        f"as wrong if it misses by more than {RELATIVE:g} of ε + {ABSOLUTE:g}."
    )


def asked(rows: list[AccountantRow], settings: int) -> str:
    """Return for each accountant about how many of the settings it was asked."""
    groups: dict[str, set[Any]] = {}
    for row in rows:
        of = groups.setdefault(str(row.accountant), set())
        of |= set() if row.not_asked else {row.question}
    return "; ".join(f"{name}: {len(of)} of {settings} asked" for name, of in groups.items())


def render(
    rows: list[AccountantRow],
    faults: list[Fault],
    spent: dict[str, float],
    settings: int,
    out: TextIO,
) -> None:
    """Print the table of accountants and the findings."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None if out.isatty() else 160
    console = Console(file=out, width=width, highlight=False, markup=False)
    console.print(asked(rows, settings), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "accountant" else "right")
    for cells in _table(rows, spent):
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print("least, most: answer ÷ true ε", style="dim")
    for one in faults:
        head, *rest = _explained(one)
        console.print()
        console.print(head, style="bold red" if one.kind in ("below", "above") else "bold")
        for line in rest:
            console.print(f"  {line}", soft_wrap=True)
    console.print()
    console.print(_summary(rows, spent), soft_wrap=True)
    console.print(WARNING, soft_wrap=True)


def write(
    file: Path,
    rows: list[AccountantRow],
    faults: list[Fault],
    spent: dict[str, float],
    missing: dict[str, str],
) -> None:
    """Write a report in the format that its file name implies."""
    suffix = file.suffix.lower()
    if suffix == ".json":
        text = json.dumps(
            {
                "rows": [_plain(row) for row in rows if not row.not_asked],
                "not asked": _not_asked(rows),
                "findings": [
                    {
                        "kind": one.kind,
                        "accountant": str(one.accountant),
                        "statement": one.accountant.statement,
                        "settings": one.settings,
                        "smallest": _plain(one.smallest),
                        "worst": _plain(one.worst),
                    }
                    for one in faults
                ],
                "seconds": spent,
                "not installed": missing,
            },
            allow_nan=False,
        )
    elif suffix == ".csv":
        text = _csv(_plain(row) for row in rows if not row.not_asked)
    else:
        text = figure(rows)
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise DpframeError(f"--report {file} cannot be written: {error.strerror}") from None


def _not_asked(rows: list[AccountantRow]) -> dict[str, dict[str, int]]:
    """Count the settings that an accountant was not asked about, by reason."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.not_asked:
            own = found.setdefault(str(row.accountant), {})
            own[row.not_asked] = own.get(row.not_asked, 0) + 1
    return found


def _plain(row: AccountantRow) -> dict[str, Any]:
    def number(value: float | None) -> float | str | None:
        return value if value is None or math.isfinite(value) else str(value)

    (delta,) = row.question.deltas
    return {
        "accountant": str(row.accountant),
        "composition": " + ".join(describe(step) for step in row.question.steps),
        "relation": row.question.relation,
        "delta": delta,
        "epsilon": number(row.epsilon),
        "claim": row.accountant.claim,
        "lower": number(row.truth.lower),
        "upper": number(row.truth.upper),
        "closed_form": row.truth.exact,
        "finding": row.kind,
        "failure": row.failure,
    }


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue().rstrip("\n")


def _cell(value: Any) -> Any:
    """Mark text that a spreadsheet would take for a formula, because messages of libraries may."""
    if isinstance(value, str) and value.lstrip().startswith(("=", "+", "-", "@")):
        return value if value in ("-inf", "-nan") else f"'{value}"
    return value


def figure(rows: list[AccountantRow]) -> str:
    """Return an SVG: a strip for each accountant, a dot for each answer ÷ true ε."""
    dots: dict[str, list[tuple[float, AccountantRow]]] = {}
    for row in rows:
        ratio = _ratio(row)
        if ratio is not None and ratio > 0:
            dots.setdefault(str(row.accountant), []).append((ratio, row))
    low = min([0.5, *(one for each in dots.values() for one, _ in each)])
    high = max([2.0, *(one for each in dots.values() for one, _ in each)])

    def x(ratio: float) -> float:
        return 300 + 520 * math.log(ratio / low) / math.log(high / low)

    height = 26 * len(dots) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="850" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        _STYLE,
    ]
    ticks = [1.0]
    for tick in (0.1, 10.0, 100.0, 0.01, 0.5, 2.0, 5.0, 0.2, 0.8, 1.25):
        if low <= tick <= high and all(abs(x(tick) - x(other)) > 30 for other in ticks):
            ticks.append(tick)
    for tick in ticks:
        kind = "true" if tick == 1 else "tick"
        parts.append(
            f'<path d="M{x(tick):.1f} 10V{height - 34}" class="{kind}"/>'
            f'<text x="{x(tick):.1f}" y="{height - 20}" text-anchor="middle">{tick:g}</text>'
        )
    for i, (name, each) in enumerate(dots.items()):
        y = 24 + 26 * i
        parts.append(f'<text x="290" y="{y + 4}" text-anchor="end">{html.escape(name)}</text>')
        seen = set()
        for j, (ratio, row) in enumerate(each):
            place = (f"{x(ratio):.0f}", y + 3 * (j % 5) - 6, _COLOURS[row.kind])
            if place not in seen:
                seen.add(place)
                parts.append(
                    f'<circle cx="{place[0]}" cy="{place[1]}" r="2" fill="{place[2]}" '
                    'fill-opacity=".6"/>'
                )
    parts.append(
        f'<text x="560" y="{height - 5}" text-anchor="middle">answer ÷ true ε</text></svg>'
    )
    return "\n".join(parts)
