"""What the page says, as plain values for its templates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dpframe.report import sentences, words
from dpframe.report.files.html.cells import LIMITED, columns, detail, label_of, row, state
from dpframe.report.files.html.maps import LEGEND, maps
from dpframe.report.files.html.pictures import pictures
from dpframe.report.outcome import Kind, outcome, skipped
from dpframe.report.place import called, called_skipped, place, repeated
from dpframe.report.references import references
from dpframe.report.untried import untried
from dpframe.report.verdicts import SYMBOL, WORDS
from dpframe.report.versions import blocks, versions
from dpframe.report.weight import measure, worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import CellRecord, Record

MOST_ROWS = 2_000
"""Rows of the table of all cells."""
MOST_DETAILS = 300
"""Cells that are shown with all that is known of them: those that need attention first."""
MOST_ALARMS = 200
MOST_SPEC = 100_000
"""Characters of the spec."""


def values(record: Record, *, brief: bool = False) -> dict[str, Any]:
    """Everything that a template shows.

    Args:
        record: of a run.
        brief: only what the summary for notebooks shows.
    """
    found = sentences.verdict(record)
    head = {
        "name": record.audit.name,
        "finding": found.finding,
        "rest": found.rest,
        "grave": found.grave,
        "caveats": list(sentences.caveats(record)),
        "warning": sentences.warning(record),
        "expectations": sentences.expectations(record),
        "several": sentences.PROCEDURES.get(record.audit.multiplicity),
        "versions": (matrix := versions(record)),
        "matrices": [] if matrix is None else blocks(matrix),
        "mechanisms": list(_mechanisms(record))[:MOST_ALARMS],
        "untried": list(untried(record)),
    }
    return head if brief else head | _body(record)


def _body(record: Record) -> dict[str, Any]:
    cells = record.cells
    detailed, by = _detailed(cells), columns(cells)
    shown, notes = pictures(record)
    squares, left = maps(cells, {id(cells[index]): index for index in detailed})
    return {
        "maps": squares,
        "maps_left": left,
        "legend": LEGEND,
        "pictures": shown,
        "picture_notes": notes,
        "alarms": list(_alarms(record)),
        "heads": by.heads(),
        "rows": [
            row(cell, by, f"#cell-{i}" if i in detailed else None)
            for i, cell in enumerate(cells[:MOST_ROWS])
        ],
        "rows_left": max(len(cells) - MOST_ROWS, 0),
        "details": [detail(cells[i], i, several=by.several) for i in sorted(detailed)],
        "details_left": len(cells) - len(detailed),
        "number": sentences.plural(len(cells), "cell"),
        "common": _common(cells),
        "estimators": list(_estimators(record)),
        "environment": list(_environment(record)),
        "plugins": record.plugins,
        "spec": record.spec,
        "text": record.spec.text[:MOST_SPEC],
        "text_left": max(len(record.spec.text) - MOST_SPEC, 0),
        "digest": record.digest,
    }


def _mechanisms(record: Record) -> Iterator[dict[str, Any]]:
    members: dict[str, list[CellRecord]] = {}
    for cell in record.cells:
        members.setdefault(cell.mechanism.label, []).append(cell)
    for skip in record.skipped:
        members.setdefault(skip.mechanism, [])
    for label, cells in members.items():
        counts = Counter(map(state, cells))
        gravest = worst(cells)
        yield {
            "label": label,
            "tallies": [
                (v or "silent", f"{SYMBOL[v]} {counts[v]} {WORDS[v]}") for v in SYMBOL if counts[v]
            ]
            or [("failed", "skipped")],
            "worst": "nothing was tested" if gravest is None else measure(gravest),
            "where": None if gravest is None else _where(gravest, several=repeated(record.cells)),
        }


def _where(cell: CellRecord, *, several: bool) -> str:
    by = f"{cell.attack.label} · {cell.estimator.label}"
    repeat = f"repeat {cell.repeat}" if several else ""
    return ", ".join(part for part in (by, place(cell.swept), repeat) if part)


def _alarms(record: Record) -> Iterator[dict[str, Any]]:
    """What is not as expected, what could not be run, what decided nothing: by what is said."""
    several = repeated(record.cells)
    said = [(called(cell, repeated=several), outcome(cell)) for cell in record.cells]
    said += [(called_skipped(skip), skipped(skip)) for skip in record.skipped]
    titles = {
        Kind.FAILED: "Not as expected, or violated without being expected",
        Kind.BROKEN: "Could not be run",
        Kind.UNDECIDED: "Nothing was decided",
    }
    for kind, title in titles.items():
        places: dict[str, list[str]] = {}
        for name, found in said:
            if found.kind is kind:
                places.setdefault(found.message, []).append(name)
        if places:
            groups = [(why, names[:12], len(names[12:])) for why, names in places.items()]
            number = sum(map(len, places.values()))
            yield {
                "title": title,
                "number": number,
                "groups": groups[:MOST_ALARMS],
                "left": len(groups[MOST_ALARMS:]),
            }


def _detailed(cells: list[CellRecord]) -> set[int]:
    """The cells that are shown with everything: as many as there may be, the gravest first."""

    def calm(index: int) -> tuple[bool, bool]:
        cell = cells[index]
        alarming = outcome(cell).kind in (Kind.FAILED, Kind.BROKEN)
        return not alarming, cell.verdict != "violated"

    return set(sorted(range(len(cells)), key=calm)[:MOST_DETAILS])


def _common(cells: list[CellRecord]) -> str:
    """What all cells have in common and the table need not repeat."""
    parts = []
    for part in ("attack", "estimator"):
        labels = {label_of(cell, part) for cell in cells}
        if len(labels) == 1:
            parts.append(f"{part} {labels.pop()}")
    return ", ".join(parts)


def _estimators(record: Record) -> Iterator[dict[str, Any]]:
    """Each estimator with what it promises, assumes and rests on."""
    sources = references(record)
    members: dict[str, list[CellRecord]] = {}
    for cell in record.cells:
        members.setdefault(cell.estimator.label, []).append(cell)
    for label, cells in list(members.items())[:MOST_ALARMS]:
        found = [cell.estimate for cell in cells if cell.estimate is not None]
        certified = sum(estimate.certified for estimate in found)
        where = "" if certified == len(found) else f" in {certified} of {len(found)} cells"
        yield {
            "label": label,
            "use": cells[0].estimator.use,
            "certified": f"certifies a lower bound, valid at this number of draws{where}"
            if certified
            else "gives an estimate and certifies nothing",
            "assumption": "; ".join(dict.fromkeys(e.assumption for e in found)) or "–",
            "reference": sources.get(cells[0].estimator.use) or "–",
            "levels": ", ".join(
                sorted({words.percent(e.confidence) for e in found if e.certified})[:5]
            )
            or "–",
            "deltas": ", ".join(sorted({words.setting(e.delta) for e in found})[:5]) or "–",
            "limits": ", ".join(
                dict.fromkeys(LIMITED[e.epsilon_upper_of] for e in found if e.epsilon_upper_of)
            )
            or "–",
        }


def _environment(record: Record) -> Iterator[tuple[str, str]]:
    environment, total = record.environment, record.summary
    for name in ("dpframe", "jax", "numpy", "scipy", "python"):
        yield name, getattr(environment, name)
    yield "platform", environment.platform
    yield "devices", ", ".join(environment.devices)
    yield "random number generator", environment.prng
    yield "seed", str(record.seed)
    yield "draws", words.quantity(total.draws)
    if total.calls is not None:
        yield "calls of black boxes", words.quantity(total.calls)
    yield "duration", words.duration(total.seconds)
    if total.peak_rss_bytes is not None:
        yield "memory", words.size(total.peak_rss_bytes)
