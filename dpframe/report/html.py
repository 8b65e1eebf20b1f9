"""A record as one self-contained HTML page, without network.

The first screen shows the verdict, the worst cell and the map. Everything can be read without the
script, which sorts and filters the table and shows the numbers of a cell beside the pointer.
"""

import bisect
import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dpframe import __version__
from dpframe.common.text import escape
from dpframe.errors import DpframeError
from dpframe.report import findings, group, number_format, scores, verdict_text
from dpframe.report.findings import ATTENTION, Finding, Kind
from dpframe.report.group import GridCell, maps
from dpframe.report.number_format import duration, plural, quantity, together
from dpframe.report.tables import Line, Part, bound, cell_table, facts, version_table
from dpframe.report.verdict_text import (
    SHADES,
    SYMBOL,
    UNEXPECTED,
    WORDS,
    OutcomeKind,
    outcome,
    state,
)
from dpframe.results.model import CellRecord, Record

MOST_ROWS = 2_000  # rows of the table of all cells
MOST_DETAILS = 300  # cells that are shown in full: those that need attention first
MOST_ISSUES = 200
FIRST = 3  # sentences of evidence that are not folded: the worst event, with its outputs
MOST_SPEC = 100_000  # characters of the spec
MOST_PLACES = 10_000  # places of all maps together
MOST_BYTES = 400_000  # size of all figures together
MOST_CELLS = 2_000  # cells of a figure; with more, they cannot be distinguished

LEFT_OUT = ("heat-map", "inverse-cdf")
"""Figures left out: the page has its own map, with links, and histograms show the same scores."""
_BANNED = {"script", "foreignObject", "image", "iframe", "animate", "set", "a", "handler"}
_TEMPLATES = Path(__file__).parent / "templates"

LEGEND = (
    ("violated-3", "✗", "12", "violated, > 10 × the claim"),
    ("violated-2", "✗", "2.5", "violated, ≤ 10 × the claim"),
    ("violated-1", "✗", "0.9", "violated, but not through this bound: see the cell"),
    ("consistent-2", "○", "0.9", "no violation found, ≤ 1 × the claim"),
    ("consistent-1", "○", "0.2", "no violation found, ≤ 0.5 × the claim"),
    ("consistent-0", "○", "0", "no violation found, nothing certified"),
    ("inconclusive", "?", "0.1", "inconclusive: no counts could have decided"),
    ("failed", "!", "", "could not be run"),
    ("silent", "~", "", "no verdict: nothing claimed, or nothing certified"),
    ("unexpected", UNEXPECTED, "", "not as expected"),
)
"""Class, sign, example and meaning of each shade of a map."""


def document(record: Record) -> str:
    """Return the whole page."""
    shared = values(record)
    page = environment().get_template("page.html")
    return page.render(shared | _body(record, shared["by_kind"])).lstrip() + "\n"


def summary(record: Record) -> str:
    """Return the verdict and a small table, for a notebook: an element, not a page."""
    return environment().get_template("summary.html").render(values(record))


def power(plan: Any) -> str:
    """Return a page with a plan's powers as a table, and against trials if they are drawn."""
    from dpframe.report.terminal.plan import facts_of, meaning_of_power, power_table

    parts: list[Part] = [Line(f"Power of {plan['name']}")]
    parts += [Line(f"{name}: {text}.") for name, text in facts_of(plan)]
    if plan["power"]:
        parts += [power_table(plan["power"]), Line(meaning_of_power(plan["power"]), "dim")]
    for skip in plan["without_power"]:
        number = plural(skip["cells"], "cell")
        parts.append(Line(f"Power unknown, {number}: {skip['reason']}."))
    drawn = figure("draw_power", plan)
    return page_of("Plan of an audit", parts, [drawn], f"dpframe {__version__}")


def page_of(
    title: str,
    parts: Iterable[Part],
    drawn: Iterable[tuple[Markup, str]],
    versions: str,
    *,
    grave: bool = False,
) -> str:
    """Return a page with the parts of a report, and figures with their captions."""
    values = {"title": title, "parts": list(parts), "drawn": list(drawn)}
    page = environment().get_template("parts_page.html")
    return page.render(values, versions=versions, grave=grave) + "\n"


def scores_page(answer: Mapping[str, Any]) -> str:
    """Return a page with the answer about scores made elsewhere."""
    versions = ", ".join(f"{name} {answer['environment'][name]}" for name in ("dpframe", "numpy"))
    kinds = ("roc", "wealth") if answer.get("step_bets") else ("roc",)
    return page_of(
        "Scores made elsewhere",
        scores.parts(answer, remarks=True, every=True),
        [figure("draw_scores", answer, kind) for kind in kinds],
        f"Seed {answer['seed']}; {versions}",
        grave=bool(answer["refuted"]),
    )


def scores_fragment(answer: Mapping[str, Any]) -> str:
    """Return what `dpframe score` prints as an element, for a notebook."""
    context = {"parts": list(scores.parts(answer)), "grave": answer["refuted"]}
    return environment().get_template("parts.html").render(context)


def figure(draw: str, subject: Any, *kind: str) -> tuple[Markup, str]:
    """Draw something as an element, and return its caption; without matplotlib the error."""
    try:
        from dpframe.report import figures
        from dpframe.report.figures.drawing import inline, with_dark_mode

        picture = getattr(figures, draw)(subject, *kind)
        return Markup(with_dark_mode(inline(picture))), picture.caption or ""
    except (DpframeError, ImportError) as error:
        return Markup(""), str(error)


def environment() -> Environment:
    """Return templates that escape all text; a policy in the page forbids fetching."""
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["together"] = together
    return templates


def _shown(value: Any) -> Any:
    """Escape control and bidirectional characters of an expression; our own markup stays."""
    text = str(value) if isinstance(value, Finding) else value
    plain = isinstance(text, str) and not isinstance(text, Markup)
    return escape(text, "\n\t") if plain else text


def values(record: Record) -> dict[str, Any]:
    """Return the values of the summary for a notebook, which the page has, too."""
    by_kind: dict[str, list[Finding]] = {kind.name: [] for kind in Kind}
    for finding in findings.findings(record):
        by_kind[finding.kind.name].append(finding)
    return {
        "name": record.audit.name,
        "head": verdict_text.headline(record),
        "by_kind": by_kind,
        "mechanisms": findings.mechanism_table(record, MOST_ISSUES),
    }


def _body(record: Record, by_kind: dict[str, list[Finding]]) -> dict[str, Any]:
    """Return the values that only the page has."""
    cells = record.cells
    detailed, several = _detailed(cells), group.repeated(cells)
    table = cell_table(cells, MOST_ROWS)
    shown, notes = pictures(record)
    drawn, omitted = _maps(cells, {id(cells[index]): index for index in detailed})
    places = [place for one in drawn for _, row in one["rows"] for place in row if place]
    used = {place["class"] for place in places}
    used |= {"unexpected" for place in places if UNEXPECTED in place["sign"]}
    script = (_TEMPLATES / "cells.js").read_text(encoding="utf-8")
    return {
        "record": record,
        # The policy of the page allows this script by its digest, and no other.
        "script": Markup(script),
        "digest_of_script": b64encode(sha256(script.encode()).digest()).decode(),
        "attention": [(kind, by_kind[kind.name]) for kind in ATTENTION if by_kind[kind.name]],
        "most": MOST_ISSUES,
        "first": FIRST,
        "procedure": verdict_text.PROCEDURES.get(record.audit.multiplicity),
        "expectations": verdict_text.expectations(record),
        "versions": version_table(record),
        "several_repeats": several,
        "maps": drawn,
        "maps_left": omitted,
        "legend": [row for row in LEGEND if row[0] in used],
        "pictures": shown,
        "picture_notes": notes,
        "table": table,
        "bars": list(map(_bar, cells[:MOST_ROWS])),
        "detailed": detailed,
        "rows_left": max(len(cells) - MOST_ROWS, 0),
        "details": [_detail(cells[i], i, several=several) for i in sorted(detailed)],
        "details_left": len(cells) - len(detailed),
        "slack": verdict_text.meanings_of_slack(),
        "number": plural(len(cells), "cell"),
        "estimators": list(findings.estimators(record))[:MOST_ISSUES],
        "environment": list(_run(record)),
        "text": record.spec.text[:MOST_SPEC],
        "text_left": max(len(record.spec.text) - MOST_SPEC, 0),
    }


def _detailed(cells: list[CellRecord]) -> set[int]:
    """Return the indices of the cells that are shown in full, the gravest first."""

    def calm(index: int) -> tuple[bool, bool]:
        cell = cells[index]
        alarming = outcome(cell).kind in (OutcomeKind.FAILED, OutcomeKind.BROKEN)
        return not alarming, verdict_text.state(cell) != "violated"

    return set(sorted(range(len(cells)), key=calm)[:MOST_DETAILS])


def _run(record: Record) -> Iterator[tuple[str, str]]:
    environment, total = record.environment, record.summary
    for name in ("dpframe", "jax", "numpy", "scipy", "python", "platform"):
        yield name, getattr(environment, name)
    yield "devices", ", ".join(environment.devices)
    yield "random number generator", environment.prng
    yield "seed", str(record.seed)
    yield "draws", quantity(total.draws)
    if total.calls is not None:
        yield "calls of black boxes", quantity(total.calls)
    yield "duration", duration(total.seconds)
    if total.peak_rss_bytes is not None:
        yield "memory", number_format.size(total.peak_rss_bytes)


# One cell in full, and its slack.


def _detail(cell: CellRecord, index: int, *, several: bool) -> dict[str, Any]:
    """Return all facts about a cell, as names and values."""
    return {
        "class": state(cell) or "silent",
        "verdict": verdict_text.verdict(cell),
        "id": f"cell-{index}",
        "name": group.cell_name(cell, repeated=several),
        "facts": facts(cell),
    }


def _bar(cell: CellRecord) -> Markup | str:
    """Draw the certified ε and the positive parts of the slack, if the cell is not violated."""
    if cell.slack is None or cell.estimate is None or verdict_text.state(cell) == "violated":
        return "–"
    parts = verdict_text.slack(cell)
    label = ", ".join([f"certified {bound(cell)}", *map(str, parts)])
    sizes = {"certified": cell.estimate.epsilon_lower} | {part.name: part.size for part in parts}
    drawn = {name: size for name, size in sizes.items() if size is not None and size > 0}
    span = Markup('<span class="part-{}" style="flex-grow:{:.4f}"></span>')
    spans = [span.format(name, size / sum(drawn.values())) for name, size in drawn.items()]
    bar = Markup('<div class="bar" role="img" aria-label="{0}" title="{0}">{1}</div>')
    return bar.format(label, Markup("").join(spans))


# The heat maps.


def _maps(cells: list[CellRecord], linked: Mapping[int, int]) -> tuple[list[dict[str, Any]], int]:
    """Return the maps of swept parameters, and the number of maps left out.

    `linked` are the indices of the cells whose details are on the page, by the cells' identity.
    """
    shown: list[dict[str, Any]] = []
    room, omitted = MOST_PLACES, 0
    for one in maps([swept for swept in group.groups(cells) if swept.keys]):
        room -= len(one.spots)
        if room < 0:
            omitted += 1
            continue
        rows = [(label, [_place(spot, linked) for spot in row]) for label, row in one.rows]
        shown.append(one._asdict() | {"rows": rows})
    return shown, omitted


def _place(spot: GridCell | None, linked: Mapping[int, int]) -> dict[str, Any] | None:
    if spot is None:
        return None
    cell = verdict_text.worst(spot.done) or spot.cells[0]
    verdict, share, index = spot.verdict, spot.share, linked.get(id(cell))
    return {
        "class": shade_class(verdict, share),
        "sign": max(map(verdict_text.unexpected, spot.cells)).strip() + SYMBOL[verdict],
        "words": WORDS[verdict],
        "ratio": "" if share is None or verdict == "failed" else _ratio(share),
        "link": None if index is None else f"#cell-{index}",
    }


def shade_class(verdict: str | None, ratio: float | None) -> str:
    """Return the class of a place: the verdict, and the shade of `SHADES`."""
    shade = bisect.bisect_left([most for most, *_ in SHADES], ratio or 0.0)
    if verdict == "violated":
        return f"violated-{max(shade - 1, 1)}"
    if verdict == "consistent":
        return f"consistent-{min(shade, 2)}"
    return verdict or "silent"


def _ratio(ratio: float) -> str:
    """Write certified over claimed, rounded down, short enough for a map."""
    if not math.isfinite(ratio) or ratio <= 0:
        return "∞" if ratio > 0 else "0"
    if ratio >= 100:
        return f"{math.floor(ratio):,}"
    digits = 1 if ratio >= 10 else 2
    return f"{math.floor(ratio * 10**digits) / 10**digits:.{digits}f}"


# Figures.


def pictures(record: Record) -> tuple[list[tuple[str, Markup]], list[str]]:
    """Return figures as caption and element, and remarks on those that are left out."""
    if not record.cells:
        return [], []
    if len(record.cells) > MOST_CELLS:
        return [], [f"No figures: more than {MOST_CELLS} cells. `dpframe plot --where` draws some."]
    try:
        from dpframe.report import figures
        from dpframe.report.figures.drawing import inline, with_dark_mode

        kinds = [kind for kind, reason in figures.kinds(record).items() if reason is None]
        from dpframe.report.figures.gallery import no_proof, promise
    except (DpframeError, ImportError) as error:
        return [], [f"No figures: {error}"]
    shown, notes, room = [], [], MOST_BYTES
    for kind in kinds:
        if kind in LEFT_OUT:
            continue
        try:
            picture = figures.draw(record, kind)
            element = with_dark_mode(inline(picture))
        except DpframeError as error:
            notes.append(f"{kind}: {error}")
            continue
        if (size := len(element.encode())) > room:
            notes.append(f"{kind}: left out, for the page's size; `dpframe plot` draws it.")
        elif not harmless(element):
            notes.append(f"{kind}: left out, because it contains more than a drawing.")
        else:
            room -= size
            caption = picture.caption
            for sentence in (promise(record), no_proof(record)):
                caption = caption.replace(sentence, "").strip()  # the page says it elsewhere
            shown.append((caption or kind, Markup(element)))
    return shown, notes


def harmless(element: str) -> bool:
    """True if an SVG element neither fetches nor runs anything."""
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
