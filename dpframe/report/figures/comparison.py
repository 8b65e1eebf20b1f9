"""Figures that compare estimators, numbers of releases, slack, wealth and power."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from dpframe.errors import DpframeError
from dpframe.report import verdict_text
from dpframe.report.figures import drawing, points, scales
from dpframe.report.figures.drawing import CLAIMED, INK, TRUTH, Picture, Sign, named, shorten
from dpframe.report.figures.points import Published, by_setting, named_cells, one_release
from dpframe.report.figures.scales import Scale
from dpframe.report.group import GridCell, Group, groups, same, telling
from dpframe.report.number_format import brief, number, quantity
from dpframe.report.scores import step_bets
from dpframe.report.terminal.plan import Outlook
from dpframe.results.model import CellRecord, EstimateRecord, Record
from dpframe.results.verdict import VIOLATED, look_price

MOST_PANELS = 6
MOST_ROWS = 24  # in a panel


class ComparisonRow(NamedTuple):
    """One estimator behind one attack."""

    label: str
    cell: CellRecord
    estimate: EstimateRecord

    @property
    def references(self) -> dict[Sign, float]:
        """The claimed and the true value of the estimated loss."""
        claim, truth = self.cell.claim, self.cell.truth
        found = {} if claim is None else {CLAIMED: claim.epsilon}
        if truth is not None and truth.epsilon != found.get(CLAIMED):
            found[TRUTH] = truth.epsilon
        return found if one_release(self.cell) else {}

    @property
    def limit(self) -> float | None:
        """The most that the attack can show, if it is finite."""
        limit = self.estimate.epsilon_upper
        return limit if limit is not None and math.isfinite(limit) else None


def find_comparison(record: Record) -> list[tuple[str, list[ComparisonRow]]] | str:
    """Return the rows of each panel, or why there is nothing to compare."""
    several = 1 in telling(groups(record.cells))
    panels: dict[tuple[str, ...], tuple[str, list[ComparisonRow]]] = {}
    for place in by_setting(record, ("estimator.", "attack."), attack=False):
        # The first replicate: replicates are not estimators to compare.
        for cell in [cell for cell in place.spot.done if cell.estimate is not None][:1]:
            assert cell.estimate is not None
            labels = place.group.names[1 if several else 2 :]
            label = shorten(" · ".join([*labels, *place.spot.texts(place.rest)]), 40)
            _, rows = panels.setdefault(place.key, (place.title, []))
            rows.append(ComparisonRow(label, cell, cell.estimate))
    if not panels:
        return "none of its cells has an estimate"
    if max(len(rows) for _, rows in panels.values()) < 2:
        return "there is nothing to compare: one attack, one estimator"
    return list(panels.values())


def draw_comparison(picture: Picture, found: list[tuple[str, list[ComparisonRow]]]) -> None:
    """Draw a panel for each mechanism and swept value, with a row for each estimator."""
    panels = picture.first(found, MOST_PANELS, "panel")
    picture.leave_out(sum(max(len(rows) - MOST_ROWS, 0) for _, rows in panels), "row")
    panels = [(title, rows[:MOST_ROWS]) for title, rows in panels]
    axes = picture.stack([[row.label for row in rows] for _, rows in panels], "loss ε")
    for ax, (title, rows) in zip(axes, panels, strict=True):
        ax.set_title(shorten(title, 60))
        anchors = [value for row in rows for value in row.references.values()]
        values = [
            value
            for row in rows
            for e in [row.estimate]
            for value in (e.epsilon, e.epsilon_lower, *(e.interval or ()), row.limit)
        ]
        scaled = scales.scale([*values, *anchors], anchors)
        for place, row in enumerate(rows):
            for sign, value in row.references.items():
                at = scaled.place(value)
                picture.add(sign, ax.plot, [at, at], [place - 0.5, place + 0.5], zorder=1)
            _draw_row(picture, ax, place, row, scaled)
        scales.dress(ax, "x", scaled)


def _draw_row(picture: Picture, ax: Axes, place: int, row: ComparisonRow, scaled: Scale) -> None:
    estimate = row.estimate
    ax.axhline(place, color=drawing.FAINT, lw=0.4, zorder=0.5)
    if estimate.interval is not None:
        ends = scaled.places(estimate.interval)
        picture.add(drawing.INTERVAL, ax.plot, ends, [place, place])
    if estimate.epsilon_lower is not None:
        bound: Any = {"color": drawing.BLUE, "marker": ">", "markersize": 5, "ls": "none"}
        start = scaled.place(estimate.epsilon_lower)
        if row.limit is not None:
            end = scaled.place(row.limit)
            picture.add(drawing.LIMIT, ax.plot, [start, end], [place, place], markevery=[1])
        ax.plot(start, place, **bound, zorder=3)
        picture.name(drawing.AT_LEAST, **bound)
    if not math.isnan(estimate.epsilon):
        picture.add(drawing.ESTIMATE, ax.plot, scaled.place(estimate.epsilon), place, zorder=3)


# Slack: certified ε and the parts of claimed − certified ε.

MOST_BARS = 40
BEYOND = 2.0  # claims: an axis ends here


class Bar(NamedTuple):
    """Certified ε and the parts of the slack of one cell, as shares of the claimed ε."""

    label: str
    parts: dict[str, float]  # they add up to 1
    partial: bool  # True if a part is unknown or only limited


def find_slack(record: Record) -> list[Bar] | str:
    """Return a bar for each certified cell that is not violated, or the reason for none."""
    bars = [_bar(cell, shorten(name)) for name, cell in named_cells(record)]
    known = [bar for bar in bars if bar is not None]
    return known or "none of its cells has slack: a bound, and a finite claim that is not violated"


def _bar(cell: CellRecord, label: str) -> Bar | None:
    lower = None if cell.estimate is None else cell.estimate.epsilon_lower
    if cell.slack is None or lower is None or verdict_text.state(cell) == "violated":
        return None
    parts = verdict_text.slack(cell)
    sizes = {"certified": lower} | {p.name: p.size for p in parts if p.size is not None}
    # The parts add up to the claim: they are claimed − certified ε, and the certified one.
    if (claimed := sum(sizes.values())) <= verdict_text.NEGLIGIBLE:
        return None
    shares = {name: size / claimed for name, size in sizes.items()}
    return Bar(label, shares, any(part.size is None or part.sign for part in parts))


def draw_slack(picture: Picture, found: list[Bar]) -> None:
    """Draw a bar for each cell: certified ε and the parts of the slack, which add up to 1."""
    bars = picture.first(found, MOST_BARS, "bar")
    (ax,) = picture.stack([[bar.label for bar in bars]], "ε / claimed ε")
    low, high = 0.0, 1.0
    for row, bar in enumerate(bars):
        ends = {True: 0.0, False: 0.0}  # right end of positive parts, left end of negative parts
        for name, size in bar.parts.items():
            ax.barh(row, size, 0.72, ends[size > 0], **_part(name))
            ends[size > 0] += size
        low, high = min(low, ends[False]), max(high, ends[True])
    for name in drawing.PARTS:
        if any(name in bar.parts for bar in bars):
            picture.name(name, **_part(name))
    picture.add(CLAIMED, ax.axvline, 1, zorder=3)
    ax.set_xlim(max(1.03 * low, -BEYOND), min(1.03 * high, BEYOND + 1))
    if any(bar.partial for bar in bars):
        picture.remarks.append(
            "An unknown part is contained in the next one; if the limit of an attack is learned, "
            "attack is at least, and sampling at most, what is drawn."
        )
    if low < -BEYOND or high > BEYOND + 1:
        picture.remarks.append("Bars that pass the ends of the axis are cut.")


def _part(name: str) -> dict[str, Any]:
    color, hatch = drawing.PARTS[name]
    return {"facecolor": color, "hatch": hatch, "edgecolor": INK, "lw": 0.3}


# Compositions: the loss of several releases, estimated from one.

MOST_ESTIMATORS = 8  # lines of a panel


class CompositionPanel(NamedTuple):
    """One mechanism behind one attack."""

    title: str
    lines: dict[str, list[tuple[float, GridCell]]]  # by estimator; numbers of releases, ascending
    single: list[GridCell]  # certified cells of a single release

    @property
    def marks(self) -> list[tuple[float, GridCell]]:
        """The marks of all lines."""
        return [mark for line in self.lines.values() for mark in line]


def find_compositions(record: Record) -> list[CompositionPanel] | str:
    """Return the lines of each panel, or the reason for none."""
    found = groups(record.cells)
    several = 1 in telling(found)
    panels: dict[tuple[str, ...], CompositionPanel] = {}
    for group in found:
        who = group.names[: 2 if several else 1]
        panel = panels.setdefault(who, CompositionPanel(" · ".join(who), {}, []))
        for spot in group.spots:
            count = number(spot.cells[0].estimator.params.get("compositions"))
            if count is not None and 1 <= count < math.inf:
                panel.lines.setdefault(_line_name(found, group), []).append((count, spot))
            elif points.certified(spot) is not None:
                panel.single.append(spot)
    for line in (line for panel in panels.values() for line in panel.lines.values()):
        line.sort(key=lambda mark: mark[0])
    drawn = [panel for panel in panels.values() if panel.lines]
    if not any(len(line) > 1 for panel in drawn for line in panel.lines.values()):
        return "no estimator has results for several numbers of releases"
    return drawn


def _line_name(found: list[Group], group: Group) -> str:
    """Return the label, or the plugin's name if labels differ only in the number of releases."""

    def settings(one: Group) -> str:
        estimator = one.spots[0].cells[0].estimator
        params = {k: v for k, v in estimator.params.items() if k != "compositions"}
        return same([estimator.use, params])

    labels = {other.names[2] for other in found if settings(other) == settings(group)}
    if len(group.spots) == 1 and len(labels) > 1:
        return group.spots[0].cells[0].estimator.use
    return group.names[2]


def draw_compositions(
    picture: Picture,
    found: list[CompositionPanel],
    beside: Published | None = None,
) -> None:
    """Draw a line for each estimator, and the claim and the bound of one release."""
    shown = picture.first(found, MOST_PANELS, "panel")
    labels = dict.fromkeys(name for panel in shown for name in panel.lines)
    spots = [spot for p in shown for spot in (*p.single, *(spot for _, spot in p.marks))]
    published = beside.losses(spots) if beside else []
    scaled = scales.scale([*points.losses(spots), *published], map(points.claimed, spots))
    axes = picture.grid([panel.title for panel in shown], "releases", "loss ε", height=2.2)
    looks = {name: named(place) for place, name in enumerate([*labels][:MOST_ESTIMATORS])}
    for ax, panel in zip(axes, shown, strict=True):
        for name in (name for name in looks if name in panel.lines):
            means = scaled.columns((x, spot.mean("epsilon")) for x, spot in panel.lines[name])
            label = f"{shorten(name, 40)}, {drawing.ESTIMATE.label}"
            picture.add(label, ax.plot, *means, **looks[name].estimate)
        claims = {points.claimed(s) for s in (*panel.single, *(s for _, s in panel.marks))}
        bounds = map(points.certified, panel.single)
        for sign, values in ((drawing.CLAIMED_ONCE, claims), (drawing.CERTIFIED_ONCE, bounds)):
            xs, ys = scaled.columns((1.0, value) for value in values)
            if xs:
                picture.add(sign, ax.plot, xs, ys, zorder=4)
        if beside:
            beside.draw(picture, ax, panel.marks, scaled)
        scales.dress_swept(ax, sorted({1.0, *(x for x, _ in panel.marks)}))
        scales.dress(ax, "y", scaled)


# Wealth: what bets against a claim earned, over draws.

MOST_BETS = 6  # lines in one figure: those of the cells that earned most
DEEP = 2.0  # the axis ends at minus this multiple of the level that refutes a claim


class Growth(NamedTuple):
    """The wealth of the bets against the claim of one cell."""

    name: str
    verdict: str | None
    draws: list[float]  # on each dataset; two or more
    wealth: list[float]  # logarithms
    level: float  # logarithm of the wealth that refutes this claim at the cell's share of the error


def needed(record: Record, look: int = 1) -> float:
    """Return the logarithm of the wealth that refutes a claim at its share of the error.

    `look` is the number of the look at the draws of the cell, from 1.
    """
    divide = max(1, record.summary.m) if record.audit.multiplicity != "none" else 1
    return math.log(divide * look_price(look) / (1 - record.audit.confidence))


def find_wealth(record: Record) -> list[Growth] | str:
    """Return the wealth of each cell whose estimator bets, or the reason for none."""
    shown = []
    for name, cell in named_cells(record):
        earned = cell.estimate.wealth if cell.estimate is not None else []
        marks = [(float(n), float(y)) for n, y in earned if float(n) > 0]
        if len(marks) > 1:
            draws, wealth = map(list, zip(*marks, strict=True))
            level = needed(record, cell.basis.look if cell.basis is not None else 1)
            shown.append(Growth(name, cell.verdict, draws, wealth, level))
    return shown or "no cell has bets; only the estimator betting and searches make them"


def draw_wealth(
    picture: Picture, found: list[Growth], along: str = "draws on each dataset"
) -> None:
    """Draw the wealth of each cell up to its verdict, and the wealth that refutes a claim."""
    (ax,) = picture.grid([""], along, "ln wealth", height=2.1)
    most = sorted(range(len(found)), key=lambda place: -max(found[place].wealth))
    shown = [found[place] for place in sorted(most[:MOST_BETS])]
    if len(shown) < len(found):
        picture.remarks.append("Only the cells that earned most are drawn.")
        picture.leave_out(len(found) - len(shown), "cell")
    for place, growth in enumerate(shown):
        look = named(place)
        ax.plot(growth.draws, growth.wealth, color=look.color, ls=look.dashes, zorder=2)
        end: Any = {"color": look.color, "marker": drawing.mark(growth.verdict), "markersize": 5}
        ax.plot(growth.draws[-1:], growth.wealth[-1:], ls="none", zorder=3, **end)
        label = f"{shorten(growth.name, 48)}: {growth.verdict or 'no verdict'}"
        picture.name(label, ls=look.dashes, **end)
    levels = dict.fromkeys(growth.level for growth in shown)  # each further look raises it
    for level in levels:
        ax.axhline(level, **drawing.REFUTED.look, zorder=1)
    refuted = " or ".join(f"{level:.3g}" for level in levels)
    picture.name(f"{drawing.REFUTED.label}: {refuted}", **drawing.REFUTED.look)
    ax.set(xscale="log")
    lowest = -DEEP * max(levels)
    if min(min(growth.wealth) for growth in shown) < lowest:
        ax.set_ylim(bottom=lowest)
    ends = [n for growth in shown for n in (growth.draws[0], growth.draws[-1])]
    ticks = scales.decades(min(ends), max(ends))
    scales.fix_ticks(ax.xaxis, ticks, [quantity(int(tick)) for tick in ticks])


def find_step_wealth(found: Mapping[str, Any]) -> list[Growth] | str:
    """Return the wealth of the bets on a training's steps, or the reason for none."""
    bets = found.get("step_bets")
    if not bets or len(bets["wealth"]) < 2:
        return "it has no bets on steps; random-gradient canaries make them"
    steps, wealth = (list(map(float, each)) for each in zip(*bets["wealth"], strict=True))
    verdict = None if bets["refuted_at"] is None else VIOLATED
    level = -math.log1p(-bets["confidence"])
    return [Growth("noise of the steps", verdict, steps, wealth, level)]


def draw_step_wealth(picture: Picture, found: Mapping[str, Any]) -> None:
    """Draw the wealth of bets on steps; raise DpframeError if there are none."""
    growth = find_step_wealth(found)
    if isinstance(growth, str):
        raise DpframeError(growth)
    draw_wealth(picture, growth, "steps")
    name = shorten(found["scores"]["name"], 80)
    picture.finish(
        f"Growth of the evidence against the stated noise of {name}: the log wealth of bets on "
        "its steps.",
        step_bets(found),
    )


# Power: of a plan.


def draw_power(picture: Picture, plan: Outlook) -> None:
    """Draw a panel for each claim of a plan: power against trials, a line for each true loss."""
    rows = [row for row in plan["power"] if row["by_trials"]]
    if not rows:
        raise DpframeError("no claim of this plan has a power that can be drawn against trials")
    titles = [f"{row['label']}: ε = {brief(row['claimed'])}" for row in rows]
    axes = picture.grid(titles, "trials per dataset", "power", across=2)
    losses = list(rows[0]["by_trials"])
    sizes = [n for row in rows for n, _ in row["by_trials"][losses[0]]]
    for ax, row in zip(axes, rows, strict=True):
        for place, multiple in enumerate(losses):
            look = drawing.ordered(place, len(losses))
            sizes_and_power = zip(*row["by_trials"][multiple], strict=True)
            label = f"true loss {multiple:g} × claimed"
            picture.add(label, ax.plot, *sizes_and_power, **look.sign, ls=look.dashes)
        picture.add(drawing.PLANNED, ax.axvline, row["trials"], zorder=0.5)
        ax.axhline(row["probability"], color=drawing.FAINT, lw=0.6, zorder=0.5)
        ax.set(xscale="log", ylim=(-0.03, 1.03))
        scales.fix_ticks(ax.xaxis, scales.decades(min(sizes), max(sizes)))
    picture.leave_out(len(plan["power"]) - len(rows), "claim")
    models = " or ".join(sorted({row["model"] for row in rows}))
    picture.finish(
        f"Probability that {shorten(plan['name'], 60)} refutes a claim, against trials; "
        f"the grey line is {rows[0]['probability']:g}. Model of the true loss: {models}, for an "
        "attack that sees all of it. With a weaker attack, another pair, or a search of more "
        "pairs, it is detected less often.",
        *picture.remarks,
    )
