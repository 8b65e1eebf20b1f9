"""The figure of the wealth of bets against a claim, over draws."""

import math
from typing import Any, NamedTuple

from dpframe.report.figures import drawing, scales
from dpframe.report.figures.drawing import DOTTED, INK, Picture, entry, named, shorten
from dpframe.report.group import groups
from dpframe.report.number_format import quantity
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import look_price

MOST_LINES = 6  # in one figure: those of the cells that earned most
DEEP = 2.0  # the axis ends at minus this multiple of the level that refutes a claim


class Growth(NamedTuple):
    """The wealth of the bets against the claim of one cell."""

    cell: CellRecord
    name: tuple[str, ...]
    points: list[tuple[float, float]]
    """Draws on each dataset, and the logarithm of the wealth; two or more."""
    level: float
    """Logarithm of the wealth that refutes this claim at the cell's share of the error."""

    @property
    def most(self) -> float:
        """The largest wealth, as a logarithm."""
        return max(y for _, y in self.points)


def needed(record: Record, look: int = 1) -> float:
    """Return the logarithm of the wealth that refutes a claim at its share of the error.

    `look` is the number of the look at the draws of the cell, from 1.
    """
    divide = max(1, record.summary.m) if record.audit.multiplicity != "none" else 1
    return math.log(divide * look_price(look) / (1 - record.audit.confidence))


def find_wealth(record: Record) -> list[Growth] | str:
    """Return the wealth of each cell whose estimator bets, or the reason for none."""
    shown = []
    for group in groups(record.cells):
        for spot in group.spots:
            for cell in spot.cells:
                wealth = cell.estimate.wealth if cell.estimate is not None else []
                points = [(float(n), float(y)) for n, y in wealth if float(n) > 0]
                if len(points) > 1:
                    level = needed(record, cell.basis.look if cell.basis is not None else 1)
                    name = tuple(group.name_of(spot, cell).split(" · "))
                    shown.append(Growth(cell, name, points, level))
    return shown or "no cell has bets; only the estimator betting and searches make them"


def draw_wealth(record: Record, found: list[Growth]) -> Picture:
    """Draw the wealth of each cell up to its verdict, and the wealth that refutes a claim."""
    first = sorted(range(len(found)), key=lambda place: -found[place].most)[:MOST_LINES]
    shown = [found[place] for place in sorted(first)]
    # Names are of equal length, unless cells sweep different keys; equal parts say nothing.
    columns = list(zip(*(growth.name for growth in shown), strict=False))
    telling = [n for n, column in enumerate(columns) if len(set(column)) > 1] or [0]
    whole = len({len(growth.name) for growth in shown}) > 1
    picture = drawing.new(drawing.COLUMN, 2.6)
    ax = picture.subplots()
    handles = []
    for place, growth in enumerate(shown):
        look = named(place)
        draws, heights = zip(*growth.points, strict=True)
        ax.plot(draws, heights, color=look.color, ls=look.dashes, zorder=2)
        ends: dict[str, Any] = {"color": look.color, "markersize": 5}
        ends["marker"] = drawing.mark(growth.cell.verdict)
        ax.plot(draws[-1:], heights[-1:], ls="none", zorder=3, **ends)
        name = " · ".join(growth.name if whole else [growth.name[n] for n in telling])
        label = f"{shorten(name, 48)}: {growth.cell.verdict or 'no verdict'}"
        handles.append(entry(label, ls=look.dashes, **ends))
    levels = dict.fromkeys(growth.level for growth in shown)  # each further look raises it
    for level in levels:
        ax.axhline(level, color=INK, lw=0.9, ls=DOTTED, zorder=1)
    refuted = " or ".join(f"{level:.3g}" for level in levels)
    handles.append(entry(f"where the claim is refuted: {refuted}", color=INK, lw=0.9, ls=DOTTED))
    ax.set(xscale="log", xlabel="draws on each dataset", ylabel="ln wealth")
    lowest = -DEEP * max(levels)
    if min(y for growth in shown for _, y in growth.points) < lowest:
        ax.set_ylim(bottom=lowest)
    ends_of_lines = [n for growth in shown for n, _ in (growth.points[0], growth.points[-1])]
    ticks = scales.decades(min(ends_of_lines), max(ends_of_lines))
    scales.log_ticks(ax.xaxis, ticks, [quantity(int(tick)) for tick in ticks])
    return drawing.finish(
        picture,
        handles,
        record,
        f"Growth of the evidence in {drawing.audit_name(record)}: the log wealth of the bets "
        "against the claim, over draws on each dataset.",
        "The symbol at the end of a line is its verdict.",
        "Only the cells that earned most are drawn." if len(shown) < len(found) else "",
        drawing.more(len(found) - len(shown), "cell"),
    )
