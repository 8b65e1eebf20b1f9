"""The report of a run in the terminal, from the record alone."""

import math
from collections.abc import Iterable, Iterator

from rich.columns import Columns
from rich.console import Console, Group as Stacked
from rich.table import Table
from rich.text import Text

from dpframe.report import verdict_text
from dpframe.report.findings import ATTENTION, Finding, Kind, findings, mechanisms, of
from dpframe.report.group import (
    Group,
    Map,
    Spot,
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
from dpframe.report.terminal.text import STYLE, joined, least_width, literal, show, table
from dpframe.report.verdict_text import BLIND, SHADES, SYMBOL, UNEXPECTED, WORDS, headline, weight
from dpframe.report.versions import blocks, versions
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
    found, said = groups(record.cells), findings(record)
    ran = [one for one in found if any(spot.done for spot in one.spots)]
    drawn = _mapped(ran, console)
    listed = ran if numbers else [one for one in ran if one not in drawn]
    show(console, *_answer(record, said), Text(), _title(record, found, drawn))
    if drawn:
        show(console, *_heat(drawn))
    if listed:
        show(console, *([] if drawn else [Text()]), *_numbers(listed, record))
    if slack:
        show(console, *([Text()] if listed else []), *_slack(record, found))
    overview = list(mechanisms(record))
    if len(record.cells) != len(overview):  # else the table shows each mechanism's only cell
        rows = [
            (
                literal(one.label, "bold"),
                joined(literal(text, STYLE[state]) for state, text in one.tallies),
                one.worst,
            )
            for one in overview
        ]
        blank = [] if drawn and not numbers and not slack else [Text()]
        show(console, *blank, table(["mechanism", "cells", "worst cell"], rows))
    show(console, *_matrix(record))
    for kind in ATTENTION:
        show(console, *_listed([one for one in said if one.kind is kind]))
    rest = [one for one in said if one.kind in (Kind.EVIDENCE, Kind.MEANING)]
    show(console, *([Text()] if rest else []), *(literal(str(finding)) for finding in rest))
    if len(listed) < len(ran):
        show(console, literal("The numbers of every cell: --numbers", "dim"))


def _answer(record: Record, said: list[Finding]) -> Iterator[Text]:
    """Write the answer, its confidence and cost, the worst cell, and warnings."""
    head = headline(record)
    line = literal(head.answer, STYLE["violated"] if head.grave else "bold")
    yield line.append_text(literal(head.others, "bold"))
    yield literal(" ".join(filter(None, [head.sure, head.cost])))
    for finding in said:
        if finding.kind is Kind.WORST and len(record.cells) > 1:
            yield literal(f"Worst: {finding}")
        if finding.kind is Kind.WARNING:
            yield literal(f"{finding.kind.sign} {finding}", STYLE[finding.kind.state])


def _title(record: Record, found: list[Group], drawn: list[Group]) -> Text:
    """Name the audit, the trials and δ, and explain the signs that occur."""
    parts = [f" · {label}" for label in _shared(drawn)]
    trials = {max(cell.trials) for cell in record.cells} - {0}
    if len(trials) == 1:
        parts.append(f" · {quantity(trials.pop())} draws from each of D and D′ per cell")
    deltas = {estimate.delta for group in found for s in group.spots for estimate in s.found}
    at = ""
    if not deltas <= {0.0}:
        at = f" at δ = {setting(deltas.pop())}" if len(deltas) == 1 else " at each cell's δ"
    text = literal(record.audit.name, "bold").append_text(literal("".join(parts), "not bold"))
    text.append_text(literal(f" · ε in nats{at}", "not bold")).append("\n")
    cells = [cell for group in found for spot in group.spots for cell in spot.cells]
    signs = [literal(f"{SYMBOL[v]} {WORDS[v]}", STYLE[v]) for v, _ in tallies(cells)]
    if any(spot.unexpected for group in found for spot in group.spots):
        signs.append(literal(f"{UNEXPECTED} not as expected", STYLE["failed"]))
    return text.append_text(joined(signs))


def _shared(found: list[Group]) -> list[str]:
    """Return the attack and the estimator that all groups share."""
    naming = telling(found)
    return [found[0].names[part] for part in (1, 2) if found and part not in naming]


def _listed(found: list[Finding]) -> Iterator[Text]:
    """List findings of one kind."""
    for finding in found[:MOST_LINES]:
        yield literal(f"{finding.kind.sign} {finding.what}", STYLE[finding.kind.state])
        if finding.where:
            yield literal(f"    at {finding.where}")
    if (rest := sum(finding.cells for finding in found[MOST_LINES:])) > 0:
        kind = found[0].kind
        yield literal(
            f"{kind.sign} … and {rest} more such cells; see the record", STYLE[kind.state]
        )


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
    key = [literal(f"Certified ε ÷ claimed ε, {' or '.join(directions)}:", "dim")]
    key += [literal(f"{sign} {text}", "dim") for _, sign, text in SHADES if sign in used]
    if any(len(spot.cells) > 1 for one in drawn for spot in one.spots):
        key.append(literal("of repeats the worst", "dim"))
    yield joined(key)
    yield Text()
    yield Columns(map(_map, drawn), padding=(0, 3))


def _map(one: Map) -> Stacked:
    title = [literal(one.title, "bold")] if one.title else []
    return Stacked(*title, _map_table(one), Text())


def _map_table(one: Map) -> Table:
    rows = [
        [literal(label, "bold"), *(Text("") if s is None else _sign(s) for s in spots), Text("")]
        for label, spots in one.rows
    ]
    heads = ["", *one.heads, ""]
    made = table(heads, rows, whole=heads)
    made.box = None
    return made


def _sign(spot: Spot) -> Text:
    mark = UNEXPECTED if spot.unexpected else ""
    sign = literal(SYMBOL[spot.verdict] + _shade(spot), STYLE[spot.verdict])
    return literal(mark, STYLE["failed"]).append_text(sign)


def _shade(spot: Spot) -> str:
    found = spot.share
    return "" if found is None else next(sign for most, sign, _ in SHADES if found <= most)


# The table of numbers.


AVERAGE = "⌀"  # sign of the mean of several bounds, which is not a bound
HEADS = ("claimed", "empirical", "certified", "shows at most")


def _numbers(found: list[Group], record: Record) -> Iterator[Text | Table]:
    """Print a table with a line for each combination of swept values."""
    keys = list(dict.fromkeys(key for one in found for key in one.keys))
    naming = telling(found)
    searched = any(cell.is_searched for cell in record.cells)
    titles = [("mechanism", "attack", "estimator")[part] for part in naming]
    heads = [*titles, *(short(key, keys) for key in keys), *HEADS]
    rows, spots = [], []
    for one in found:
        for spot in one.spots:
            lead = [one.names[part] for part in naming]
            lead += [setting(spot.values[key]) if key in spot.values else "–" for key in keys]
            style = STYLE[spot.verdict]
            texts = [*_cells(spot), *([found_by(spot) or "–"] if searched else [])]
            cells = [literal(text, style) for text in (*texts, _verdict(spot))]
            rows.append([literal(lead[0], "bold"), *lead[1:], *cells])
            spots.append(spot)
    heads += ["found by"] * searched + ["verdict"]
    yield table(heads, rows, right=[*(short(key, keys) for key in keys), *HEADS])
    yield literal(" ".join(_meanings(spots)), "dim")


def _cells(spot: Spot) -> list[str]:
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


def _interval(spot: Spot) -> list[float] | None:
    """Return the approximate limits of an estimator that certifies nothing."""
    found = [estimate.interval for estimate in spot.found]
    return found[0] if len(found) == 1 and not spot.estimates("epsilon_lower") else None


def _is_blind(spot: Spot) -> bool:
    return bool(spot.done) and all(map(saw_nothing, spot.done))


def _verdict(spot: Spot) -> str:
    mark = f"{UNEXPECTED} " if spot.unexpected else ""
    text = f"{mark}{SYMBOL[spot.verdict]} {WORDS[spot.verdict]}"
    if len(spot.cells) > 1 and spot.verdict == "violated":
        violated = sum(cell.verdict == "violated" for cell in spot.done)
        text += f" in {violated} of {len(spot.done)} repeats"
    return text


def _meanings(spots: list[Spot]) -> Iterator[str]:
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
        yield "Shows at most (≤): limits the attack, not the mechanism."
        if "chosen thresholds" in scopes:
            yield "At other than the chosen thresholds it may show more."


def _slack(record: Record, found: list[Group]) -> Iterator[Text | Table]:
    """Write the parts of claimed − certified ε of cells that are not violated."""
    cells = [c for c in record.cells if c.slack is not None and c.verdict != "violated"]
    naming, several = telling(found), repeated(record.cells)
    meanings = verdict_text.meanings_of_slack()
    parts = [{part.name: part.amount for part in verdict_text.slack(cell)} for cell in cells]
    used = [name for name in meanings if any(name in amounts for amounts in parts)]
    rows = [
        [telling_name(cell, naming, repeated=several)]
        + [amounts.get(name, "–") for name in used]
        + [lower(share(cell))]
        for cell, amounts in list(zip(cells, parts, strict=True))[:MOST_SLACK]
    ]
    heads = ["cell", *used, "certified ÷ claimed"]
    yield literal("Slack: the parts of claimed − certified ε", "bold")
    if not rows:
        yield literal("No cell has slack: no bound lies below its claim.")
        return
    yield table(heads, rows, right=heads[1:])
    if len(cells) > MOST_SLACK:
        yield literal(
            f"… and {plural(len(cells) - MOST_SLACK, 'more cell')}; see the record", "dim"
        )
    yield from (literal(f"{name}: {meanings[name]}", "dim") for name in used)


def _matrix(record: Record) -> Iterator[Text | Table]:
    """Draw the version matrix: a row for each environment, a column for each mechanism."""
    if (found := versions(record)) is None:
        return
    for part in blocks(found):
        rows: Iterable[list[Text]] = (
            [literal(name, "bold")]
            + [literal(p.text, STYLE[p.verdict]) if p else literal("–") for p in places]
            for name, places in part.rows
        )
        yield Text()
        yield table(["environment", *part.mechanisms], rows)


def render_notes(record: Record, console: Console) -> None:
    """Print the notes of estimators and of the engine on every cell, and what was not tried."""
    for cell in record.cells:
        place = settings(cell.swept, cell.swept)
        show(console, Text(), literal(" · ".join([*names(cell), *place]), "bold"))
        for note in cell.estimate.notes if cell.estimate else []:
            show(console, literal(f"  {note}"))
    show(console, Text(), literal(Kind.UNTRIED.title, "bold"))
    show(console, *(literal(f"  {finding}") for finding in of(record, Kind.UNTRIED)))
