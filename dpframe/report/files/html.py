"""A record as one self-contained HTML page, without scripts or network."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dpframe.common.text import escape
from dpframe.errors import DpframeError
from dpframe.report import sentences, words
from dpframe.report.group import (
    Group,
    Spot,
    attack_of,
    axes,
    called_place,
    called_skipped,
    groups,
    measure,
    parts,
    place,
    repeated,
    same,
    short,
    told_apart,
    weight,
    worst,
)
from dpframe.report.sentences import Kind, outcome, skipped, untried
from dpframe.report.versions import blocks, versions
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS, references
from dpframe.results.model import strict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpframe.results.model import CellRecord, Record


# One cell: as a row of the table, and with everything that is known of it.


LIMITED = {
    "every event": "any event of its decisions",
    "every cut": "any cut of its scores",
    "chosen thresholds": "the chosen thresholds",
}
"""What an upper limit is of, in the words of this page."""

LONGEST = 400
"""Characters of a value, such as counts or thresholds; the record has all of it."""


class Columns(NamedTuple):
    """What the table of all cells tells cells apart by."""

    parts: list[str]
    """`attack` and `estimator`, where there are several."""
    keys: list[str]
    """Swept keys."""
    several: bool
    """Whether there are repeats."""

    def heads(self) -> list[str]:
        """The titles: parts that differ, swept keys, numbers."""
        keys = [short(key, self.keys) for key in self.keys]
        repeat = ["repeat"] if self.several else []
        numbers = ["claimed ε", "empirical ε", "certified ε ≥", "attack shows ≤", "adjusted p"]
        return ["verdict", "mechanism", *self.parts, *keys, *repeat, *numbers]


def columns(cells: list[CellRecord]) -> Columns:
    """The columns that the cells need."""
    return Columns(
        [p for p in ("attack", "estimator") if len({label_of(c, p) for c in cells}) > 1],
        list(dict.fromkeys(key for cell in cells for key in cell.swept)),
        repeated(cells),
    )


def label_of(cell: CellRecord, part: str) -> str:
    """The label of a cell's attack or estimator."""
    return attack_of(cell) if part == "attack" else cell.estimator.label


def row(cell: CellRecord, by: Columns, link: str | None) -> dict[str, Any]:
    """One row of the table.

    Args:
        cell: the cell.
        by: the columns.
        link: where on the page its details are.
    """
    estimate, claim, verdict = cell.estimate, cell.claim, state(cell)
    named = [label_of(cell, part) for part in by.parts]
    swept = [words.setting(cell.swept[key]) if key in cell.swept else "–" for key in by.keys]
    repeat = [str(cell.repeat)] if by.several else []
    return {
        "link": link,
        "class": verdict or "silent",
        "verdict": f"{unexpected(cell)}{SYMBOL[verdict]} {WORDS[verdict]}",
        "texts": [cell.mechanism.label, *named, *swept, *repeat],
        "numbers": [
            words.brief(claim.epsilon) if claim else "–",
            words.point(estimate.epsilon) if estimate else "–",
            _bound(cell),
            words.upper(estimate.epsilon_upper) if estimate else "–",
            "–" if cell.p_adjusted is None else f"{cell.p_adjusted:.2g}",
        ],
    }


def unexpected(cell: CellRecord) -> str:
    """A sign where the cell makes a job fail; nothing where it does not."""
    return f"{UNEXPECTED} " if outcome(cell).kind is Kind.FAILED else ""


def state(cell: CellRecord) -> str | None:
    """The verdict, or that the cell failed."""
    return "failed" if cell.status == "failed" else cell.verdict


def detail(cell: CellRecord, index: int, *, several: bool) -> dict[str, Any]:
    """Everything of a cell, as names and values."""
    verdict = state(cell)
    return {
        "id": f"cell-{index}",
        "class": verdict or "silent",
        "verdict": f"{unexpected(cell)}{SYMBOL[verdict]} {WORDS[verdict]}",
        "name": called_place(cell, repeated=several),
        "facts": [(name, value) for name, value in _facts(cell) if value],
    }


def _facts(cell: CellRecord) -> Iterator[tuple[str, str]]:
    estimate, claim = cell.estimate, cell.claim
    yield "Outcome", outcome(cell).message
    if claim:
        yield "Claimed", f"ε = {words.brief(claim.epsilon)} at δ = {_delta(claim)} ({claim.kind})"
        yield "Claim's parameters", _value(claim.parameters)
    if cell.truth:
        yield "Exact loss, where it is known", f"ε = {words.point(cell.truth.epsilon)}"
    if estimate:
        at = words.setting(estimate.delta)
        yield "Empirical", f"ε = {words.point(estimate.epsilon)} at δ = {at}; no bound"
        if estimate.epsilon_lower is not None:
            level = words.percent(estimate.confidence)
            yield "Certified", f"ε ≥ {_bound(cell)} with {level} confidence"
        if estimate.epsilon_upper is not None:
            most = words.upper(estimate.epsilon_upper)
            of = f", by {LIMITED[estimate.epsilon_upper_of]}" if estimate.epsilon_upper_of else ""
            yield "This attack shows at most", f"{most}{of}"
        if estimate.interval:
            low, high = map(words.point, estimate.interval)
            yield "Interval, approximate or assuming more; no bound", f"{low} – {high}"
        yield "Assumes", estimate.assumption
    if cell.p_value is not None and cell.p_adjusted is not None:
        yield "p-value", f"{cell.p_value:.3g}; adjusted for all tests {cell.p_adjusted:.3g}"
    for part in ("mechanism", "pair", "attack", "estimator"):
        choice = getattr(cell, part)
        given = _value(choice.params) if choice.params else ""
        yield part.capitalize(), f"{choice.use} {given}".strip()
    yield "Statistic, thresholds or edges", _value(cell.statistic) if cell.statistic else ""
    yield "Counts on D", _counts(cell, 0)
    yield "Counts on D′", _counts(cell, 1)
    yield "Draws", f"{cell.trials[0]:,} from D, {cell.trials[1]:,} from D′, seed {cell.seed}"
    if cell.looks is not None and len(cell.looks) > 1:
        yield "Looks at these draws", str(len(cell.looks))
    yield "Notes", "; ".join(estimate.notes)[: 3 * LONGEST] if estimate else ""
    yield "Id", cell.id


def _bound(cell: CellRecord) -> str:
    """The bound in as many digits as it takes to see on which side of the claim it is."""
    lower = cell.estimate.epsilon_lower if cell.estimate else None
    if lower is None:
        return "–"
    return told_apart(lower, cell.claim.epsilon)[0] if cell.claim else words.lower(lower)


def _delta(claim: Any) -> str:
    return words.setting(claim.delta)


def _counts(cell: CellRecord, dataset: int) -> str:
    counts = cell.counts
    if not (isinstance(counts, list) and len(counts) == 2):
        return ""
    row = counts[dataset]
    if cell.statistic.get("name") == "DecisionCounts" and isinstance(row, list) and len(row) == 2:
        return f"the attack said D {row[0]} times, and D′ {row[1]} times"
    return _value(row)


def _value(value: Any) -> str:
    text = json.dumps(strict(value), ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … (the record has all)"


# The heat map: a table whose cells show the verdict, and certified ε over claimed ε.


MOST = 10_000
"""Places that all maps have together."""

LEGEND = (
    ("violated-3", "✗ 12", "violated, certified more than 10 times what is claimed"),
    ("violated-2", "✗ 2.5", "violated, certified up to 10 times what is claimed"),
    ("violated-1", "✗ 0.9", "violated, although not by this bound: see the cell"),
    ("consistent-2", "○ 0.9", "no violation found, certified more than half of what is claimed"),
    ("consistent-1", "○ 0.2", "no violation found, certified up to half of what is claimed"),
    ("inconclusive", "? 0.1", "inconclusive: no counts could have decided"),
    ("failed", "!", "could not be run"),
    ("silent", "~", "no verdict: nothing claimed, or nothing certified"),
)
"""Class, example and meaning of each shade."""


def maps(cells: list[CellRecord], linked: Mapping[int, int]) -> tuple[list[dict[str, Any]], int]:
    """A map for each mechanism, attack and estimator that sweeps something.

    Args:
        cells: of a record.
        linked: indices of the cells whose details are on the page, by the cells' identity.

    Returns:
        The maps, and how many are left out because there would be too many places.
    """
    shown: list[dict[str, Any]] = []
    room, left = MOST, 0
    for group in groups(cells):
        if not group.keys:
            continue
        for name, part in parts(group):
            room -= len(part.spots)
            if room < 0:
                left += 1
            else:
                shown.append(_map(group, name, part, linked))
    return shown, left


def _map(group: Group, name: str, part: Group, linked: Mapping[int, int]) -> dict[str, Any]:
    if len(part.keys) > 1:
        down, across = axes(part)
        rows = part.axis(down)
        label = short(down, group.swept)
    else:
        across, rows, label = part.keys[0], [None], ""
        down = ""
    columns = part.axis(across)
    at = {(same(s.values[down]) if down else "", same(s.values[across])): s for s in part.spots}
    return {
        "title": " · ".join(group.names) + (f", {name}" if name else ""),
        "down": label,
        "across": short(across, group.swept),
        "heads": [words.setting(value) for value in columns],
        "rows": [
            (
                words.setting(value) if down else "",
                [
                    _place(at.get((same(value) if down else "", same(column))), linked)
                    for column in columns
                ],
            )
            for value in rows
        ],
    }


def _place(spot: Spot | None, linked: Mapping[int, int]) -> dict[str, Any] | None:
    if spot is None:
        return None
    cell = worst(spot.done) or spot.cells[0]
    found = weight(cell)
    verdict = spot.verdict
    ratio = "" if found is None or verdict == "failed" else _ratio(found.ratio)
    index = linked.get(id(cell))
    return {
        "class": _class(verdict, None if found is None else found.ratio),
        "sign": f"{''.join({unexpected(c): 1 for c in spot.cells})}{SYMBOL[verdict]}",
        "words": WORDS[verdict],
        "ratio": ratio,
        "link": None if index is None else f"#cell-{index}",
    }


def _class(verdict: str | None, ratio: float | None) -> str:
    if verdict == "violated":
        return f"violated-{1 if ratio is None or ratio <= 1 else 2 if ratio <= 10 else 3}"
    if verdict == "consistent":
        return f"consistent-{2 if ratio is not None and ratio > 0.5 else 1}"
    return verdict or "silent"


def _ratio(ratio: float) -> str:
    """Certified over claimed, rounded down, short enough for a map."""
    if not math.isfinite(ratio):
        return "∞"
    if ratio >= 100:
        return f"{math.floor(ratio):,}".replace(",", " ")
    digits = 1 if ratio >= 10 else 2
    return f"{math.floor(ratio * 10**digits) / 10**digits:.{digits}f}"


# Figures for the page: what the figures of the record are, if they can be drawn here.


MOST_BYTES = 400_000
"""Of all figures together."""
MOST_CELLS = 2_000
"""A figure of more of them shows nothing that can be told apart."""

LEFT_OUT = ("heat-map", "inverse-cdf")
"""The page has its own map, with links; and histograms of the scores say the same."""

_BANNED = {"script", "foreignObject", "image", "iframe", "animate", "set", "a", "handler"}


def pictures(record: Record) -> tuple[list[tuple[str, Markup]], list[str]]:
    """Figures as caption and element, and remarks on those that are left out."""
    if not record.cells:
        return [], []
    if len(record.cells) > MOST_CELLS:
        return [], [f"No figures: more than {MOST_CELLS} cells. `dpframe plot --where` draws some."]
    try:
        from dpframe.report import figures
        from dpframe.report.figures.drawing import inline

        found = [kind for kind, reason in figures.kinds(record).items() if reason is None]
    except (DpframeError, ImportError) as error:
        return [], [f"No figures: {error}"]
    shown, notes, room = [], [], MOST_BYTES
    for kind in found:
        if kind in LEFT_OUT:
            continue
        try:
            picture = figures.draw(record, kind)
            element = inline(picture)
        except DpframeError as error:
            notes.append(f"{kind}: {error}")
            continue
        if (size := len(element.encode())) > room:
            notes.append(f"{kind}: left out, for the page's size; `dpframe plot` draws it.")
        elif not harmless(element):
            notes.append(f"{kind}: left out, because it holds more than a drawing.")
        else:
            room -= size
            shown.append((picture.caption or kind, Markup(element)))
    return shown, notes


def harmless(element: str) -> bool:
    """Whether an SVG element is a drawing and nothing else: it fetches and runs nothing."""
    try:
        root = ElementTree.fromstring(element)
    except ElementTree.ParseError:
        return False
    for part in root.iter():
        if not isinstance(part.tag, str) or part.tag.rpartition("}")[2] in _BANNED:
            return False
        for name, value in part.attrib.items():
            plain = name.rpartition("}")[2].lower()
            if plain.startswith("on") or (plain == "href" and not value.startswith("#")):
                return False
            if "url(" in value.replace("url(#", "") or "javascript:" in value.lower():
                return False
    return "@import" not in element


# What the page says, as plain values for its templates.


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
    said = [(called_place(cell, repeated=several), outcome(cell)) for cell in record.cells]
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


# A record as one self-contained page in HTML, which needs no script and no network.
#
# What labels, parameters, reasons and notes hold is escaped, and what moves a cursor or turns the
# direction of writing is written as its number. A policy in the page forbids whatever else a
# browser
# would fetch or run.


def document(record: Record) -> str:
    """The whole page."""
    return _html_environment().get_template("page.html").render(values(record)) + "\n"


def summary(record: Record) -> str:
    """The verdict and a small table, for a notebook: an element, not a page."""
    return _html_environment().get_template("summary.html").render(values(record, brief=True))


def _html_environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """What an expression of a template prints; markup of our own stays as it is."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return escape(value, "\n\t")
