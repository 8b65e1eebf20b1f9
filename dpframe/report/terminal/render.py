"""The report of a run in the terminal, from the record alone."""

import math
from collections.abc import Iterator, Mapping

import rich.table
from rich.columns import Columns
from rich.console import Console, Group as Stacked
from rich.text import Text

from dpframe.report import verdict_text
from dpframe.report.findings import (
    ATTENTION,
    HEAD,
    Finding,
    Kind,
    findings,
    mechanism_table,
    of,
)
from dpframe.report.group import (
    GridCell,
    Group,
    Map,
    found_by,
    groups,
    maps,
    names,
    repeated,
    settings,
    short,
    tallies,
    telling,
    telling_name,
)
from dpframe.report.number_format import lower, plural, point, quantity, setting, spread, upper
from dpframe.report.tables import Line, ReportTable, Row, version_table
from dpframe.report.terminal.text import STYLE, joined, laid_out, least_width, literal, show, table
from dpframe.report.verdict_text import BLIND, SHADES, SYMBOL, UNEXPECTED, WORDS, headline, weight
from dpframe.results.model import Record
from dpframe.results.rows import share
from dpframe.results.verdict import saw_nothing

MOST_LINES = 12  # findings of a kind; the record has them all
MOST_SLACK = 60  # cells whose slack is printed; the record has all


def render(record: Record, console: Console, *, numbers: bool = False, slack: bool = False) -> None:
    """Print the report: answer, reason, map or table, what needs attention, limits.

    `numbers` adds the numbers of all cells; cells that are not on a map are always listed. `slack`
    adds the parts of claimed − certified ε of cells that are not violated.
    """
    found, every = groups(record.cells), findings(record)
    ran = [one for one in found if any(spot.done for spot in one.spots)]
    drawn = _mapped(ran, console)
    listed = ran if numbers else [one for one in ran if one not in drawn]
    show(console, *_answer(record, every))
    urgent = [kind for kind in ATTENTION if kind.state is not None]
    if attention := [line for kind in urgent for line in _listed(every, kind)]:
        show(console, Text(), *attention)
    show(console, Text(), _title(record, found, drawn))
    if drawn:
        show(console, *_heat(drawn))
    if listed:
        show(console, *([] if drawn else [Text()]), *_numbers(listed, record, console.width))
    if slack:
        show(console, *([Text()] if listed else []), *_slack(record, found))
    overview = mechanism_table(record, words={})
    if len(record.cells) != len(overview.rows):  # else the table shows each mechanism's only cell
        blank = [] if drawn and not numbers and not slack else [Text()]
        show(console, *blank, laid_out(overview))
    if (by_version := version_table(record)) is not None:
        show(console, Text(), laid_out(by_version))
    for kind in ATTENTION:
        if kind not in urgent:
            show(console, *_listed(every, kind))
    rest = [one for one in every if one.kind in (Kind.EVIDENCE, Kind.MEANING)]
    # A command has a line of its own, to be copied whole.
    lines = [text for one in rest for text in (str(one._replace(remedy="")), one.remedy) if text]
    show(console, *([Text()] if rest else []), *map(literal, lines))
    if len(listed) < len(ran):
        show(console, literal("The numbers of every cell: --numbers", "dim"))


def _answer(record: Record, every: list[Finding]) -> Iterator[Text]:
    """Write the answer, warnings, the reason, what was tested, and confidence and cost."""
    head = headline(record)
    line = literal(head.answer, STYLE["violated"] if head.grave else "bold")
    yield line.append_text(literal(head.others, "bold"))
    for finding in (one for one in every if one.kind in HEAD):
        yield literal(f"{finding.kind.sign} {finding}".strip(), STYLE[finding.kind.state])
    yield literal(" ".join(filter(None, [head.sure, head.cost])))


def _title(record: Record, found: list[Group], drawn: list[Group]) -> Text:
    """Name the audit, the trials and δ, and explain the signs that occur."""
    naming = telling(drawn)
    parts = [record.audit.name]
    parts += [drawn[0].names[part] for part in (1, 2) if drawn and part not in naming]
    trials = {max(cell.trials) for cell in record.cells} - {0}
    if len(trials) == 1:
        parts.append(f"{quantity(trials.pop())} draws on each dataset")
    spots = [spot for one in found for spot in one.spots]
    deltas = {estimate.delta for spot in spots for estimate in spot.found}
    at = ""
    if not deltas <= {0.0}:
        at = f" at δ = {setting(deltas.pop())}" if len(deltas) == 1 else " at each cell's δ"
    name, *rest = [*parts, f"ε in nats{at}"]
    signs = [literal(f"{SYMBOL[v]} {WORDS[v]}", STYLE[v]) for v in tallies(record.cells)]
    if any(spot.unexpected for spot in spots):
        signs.append(literal(f"{UNEXPECTED} not as expected", STYLE["failed"]))
    text = literal(name, "bold").append_text(literal("".join(f" · {r}" for r in rest), "not bold"))
    return text.append("\n" * bool(signs)).append_text(joined(signs))


def _listed(every: list[Finding], kind: Kind) -> Iterator[Text]:
    """List the findings of a kind."""
    found = [finding for finding in every if finding.kind is kind]
    for finding in found[:MOST_LINES]:
        yield literal(f"{kind.sign} {finding.what}", STYLE[kind.state])
        if finding.where:
            yield literal(f"    at {finding.where}")
    if rest := sum(finding.cells for finding in found[MOST_LINES:]):
        text = f"{kind.sign} … and {rest} more such cells; see the record"
        yield literal(text, STYLE[kind.state])


# The maps of a sweep.


def _mapped(found: list[Group], console: Console) -> list[Group]:
    """Return the groups that have a map: those that sweep something and certify a claim's bound.

    There is none if one of the maps is wider than the console.
    """
    drawn = [
        one
        for one in found
        if one.keys and any(weight(cell) for spot in one.spots for cell in spot.done)
    ]
    wide = any(least_width(_map_table(one)) > console.width for one in maps(drawn))
    return [] if wide else drawn


def _heat(found: list[Group]) -> Iterator[Text | Columns]:
    """Draw the maps of groups, as many beside each other as fit."""
    drawn = list(maps(found))
    used = {_shade(spot) for one in drawn for spot in one.spots}
    directions = sorted({one.directions for one in drawn})
    key = [literal(f"Certified ÷ claimed ε, {' or '.join(directions)}:", "dim")]
    key += [literal(f"{sign} {text}", "dim") for _, sign, text in SHADES if sign in used]
    if any(len(spot.cells) > 1 for one in drawn for spot in one.spots):
        key.append(literal("of repeats the worst", "dim"))
    yield joined(key)
    yield Text()
    yield Columns(map(_map, drawn), padding=(0, 3))


def _map(one: Map) -> Stacked:
    title = [literal(one.title, "bold")] if one.title else []
    return Stacked(*title, _map_table(one), Text())


def _map_table(one: Map) -> rich.table.Table:
    rows = [
        [literal(label, "bold"), *(Text("") if s is None else _sign(s) for s in spots), Text("")]
        for label, spots in one.rows
    ]
    heads = ["", *one.heads, ""]
    made = table(heads, rows, whole=heads)
    made.box = None
    return made


def _sign(spot: GridCell) -> Text:
    mark = literal(UNEXPECTED if spot.unexpected else "", STYLE["failed"])
    return mark.append_text(literal(SYMBOL[spot.verdict] + _shade(spot), STYLE[spot.verdict]))


def _shade(spot: GridCell) -> str:
    found = spot.share
    return "" if found is None else next(sign for most, sign, _ in SHADES if found <= most)


# The table of numbers.


AVERAGE = "⌀"  # sign of the mean of several bounds, which is not a bound
HEADS = ("claimed", "empirical", "certified", "at most")


def _numbers(found: list[Group], record: Record, width: int) -> Iterator[Text | rich.table.Table]:
    """Print a table with a line for each combination of swept values.

    If only this fits the console, verdicts are signs alone, which the title explains.
    """
    keys = list(dict.fromkeys(key for one in found for key in one.keys))
    naming, titles = telling(found), [short(key, keys) for key in keys]
    searched = any(cell.is_searched for cell in record.cells)
    rows: list[tuple[list[str | Line], GridCell]] = []
    spots = []
    for one in found:
        for spot in one.spots:
            names = [one.names[part] for part in naming]
            names += [setting(spot.values[key]) if key in spot.values else "–" for key in keys]
            texts = [*_cells(spot), *[found_by(spot) or "–"] * searched]
            rows.append(([*names, *(Line(text, spot.verdict) for text in texts)], spot))
            spots.append(spot)
    heads = [("mechanism", "attack", "estimator")[part] for part in naming]
    heads += [*titles, *HEADS, *["found by"] * searched, "verdict"]
    if all(_cells(spot)[-1] == "–" for spot in spots):
        del heads[at := heads.index("at most")]
        for row, _ in rows:
            del row[at]
    made = []
    for words in (WORDS, {}):
        filled = [Row([*row, Line(_verdict(spot, words), spot.verdict)]) for row, spot in rows]
        made.append(laid_out(ReportTable(heads, filled, right=[*titles, *HEADS])))
    yield next((one for one in made if least_width(one) <= width), made[0])
    yield literal(" ".join(_meanings(spots)), "dim")


def _cells(spot: GridCell) -> list[str]:
    """Write claimed, empirical and certified ε, and the most that the attack shows."""
    mean, deviation = spot.mean("epsilon"), spot.deviation
    empirical = point(mean) if spot.done else "–"
    if mean is not None and deviation is not None:
        empirical = " ± ".join(spread(mean, deviation))
    bounds, limits = spot.estimates("epsilon_lower"), spot.estimates("epsilon_upper")
    decided = spot.verdict in ("consistent", "inconclusive")
    most = f"≤ {upper(limits[0])}" if decided and len(limits) == 1 else "–"
    certified = "–"
    if bounds:
        certified = f"{AVERAGE if len(bounds) > 1 else '≥'} {lower(spot.mean('epsilon_lower'))}"
    elif (interval := _interval(spot)) is not None:
        certified = f"({point(interval[0])} – {point(interval[1])})"
    if _is_blind(spot):
        certified, most = BLIND, "–"
    return [point(spot.claim), empirical, certified, most]


def _interval(spot: GridCell) -> list[float] | None:
    """Return the approximate limits of an estimator that certifies nothing."""
    found = [estimate.interval for estimate in spot.found]
    return found[0] if len(found) == 1 and not spot.estimates("epsilon_lower") else None


def _is_blind(spot: GridCell) -> bool:
    return bool(spot.done) and all(map(saw_nothing, spot.done))


def _verdict(spot: GridCell, words: Mapping[str | None, str]) -> str:
    mark = f"{UNEXPECTED} " if spot.unexpected else ""
    text = f"{mark}{SYMBOL[spot.verdict]} {words.get(spot.verdict, '')}".rstrip()
    if len(spot.cells) == 1 or spot.verdict != "violated":
        return text
    violated = sum(cell.verdict == "violated" for cell in spot.done)
    return f"{text} in {violated} of {len(spot.done)} repeats"


def _meanings(spots: list[GridCell]) -> Iterator[str]:
    """Explain the columns, in so far as they are used."""
    yield "Empirical: the point value, not a bound."
    bounds = [len(spot.estimates("epsilon_lower")) for spot in spots if not _is_blind(spot)]
    if 1 in bounds:
        yield "Certified (≥): the loss is at least this."
    if max(bounds, default=0) > 1:
        yield f"{AVERAGE}: the mean of the repeats' bounds, itself not a bound."
    if any(_interval(spot) for spot in spots):
        yield "In parentheses: approximate or Bayesian limits; nothing is certified."
    if any(map(_is_blind, spots)):
        yield f"{BLIND.capitalize()}: every score of this attack was equal."
    scopes = {
        estimate.epsilon_upper_of
        for spot in spots
        for estimate in spot.found
        if estimate.epsilon_upper is not None and math.isfinite(estimate.epsilon_upper)
    }
    if any(_cells(spot)[-1] != "–" for spot in spots):
        yield "At most (≤): limits the attack, not the mechanism."
        if "chosen thresholds" in scopes:
            yield "At other than the chosen thresholds it may show more."


def _slack(record: Record, found: list[Group]) -> Iterator[Text | rich.table.Table]:
    """Write the parts of claimed − certified ε of cells that are not violated."""
    cells = [c for c in record.cells if c.slack is not None and c.verdict != "violated"]
    naming, several = telling(found), repeated(record.cells)
    meanings = verdict_text.meanings_of_slack()
    parts = [{part.name: part.amount for part in verdict_text.slack(cell)} for cell in cells]
    used = [name for name in meanings if any(name in amounts for amounts in parts)]
    yield literal("Slack: the parts of claimed − certified ε", "bold")
    if not cells:
        yield literal("No cell has slack: no bound lies below its claim.")
        return
    rows = []
    for cell, amounts in zip(cells[:MOST_SLACK], parts, strict=False):
        name = telling_name(cell, naming, repeated=several)
        shown = [amounts.get(part, "–") for part in used]
        rows.append(Row([name, *shown, lower(share(cell))]))
    heads = ["cell", *used, "ratio"]
    yield laid_out(ReportTable(heads, rows, right=heads[1:], is_named=False))
    if (rest := len(cells) - MOST_SLACK) > 0:
        yield literal(f"… and {plural(rest, 'more cell')}; see the record", "dim")
    yield from (literal(f"{name}: {meanings[name]}", "dim") for name in used)
    yield literal("ratio: certified ÷ claimed ε. An unknown part is included in the next.", "dim")


def render_notes(record: Record, console: Console) -> None:
    """Print the notes of estimators and of the engine on every cell, and what was not tried."""
    for cell in (one for one in record.cells if one.estimate and one.estimate.notes):
        assert cell.estimate is not None
        place = settings(cell.swept, cell.swept)
        show(console, Text(), literal(" · ".join([*names(cell), *place]), "bold"))
        show(console, *(literal(f"  {note}") for note in cell.estimate.notes))
    show(console, Text(), literal(Kind.UNTRIED.title, "bold"))
    show(console, *(literal(f"  {finding}") for finding in of(record, Kind.UNTRIED)))
