"""The total variation distance of two histograms, against the number of bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from dpframe.report.figures import notes
from dpframe.report.figures.axis import log_ticks
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import CLAIMED, COLUMN, ESTIMATE, INK, named, shorten
from dpframe.report.group import groups
from dpframe.report.words import number

if TYPE_CHECKING:
    from dpframe.record.model import CellRecord, Record
    from dpframe.report.figures.picture import Picture

KEY = "estimator.bins"


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not any(len(points) > 1 for points in _distances(record).values()):
        return "the number of bins of a histogram is not swept"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a line for each mechanism, means and the range of replicates."""
    found = _distances(record)
    picture = new(COLUMN, 2.4)
    ax = picture.subplots()
    exact = _claims(record)
    signs = []
    for place, (name, points) in enumerate(found.items()):
        look, bins = named(place), sorted(points)
        means = [float(np.mean(points[b])) for b in bins]
        for b in bins:
            ends = [min(points[b]), max(points[b])]
            ax.plot([b, b], ends, color=look.color, lw=0.8, zorder=2)
        style: Any = {"color": look.color, "marker": look.marker, "markerfacecolor": "white"}
        ax.plot(bins, means, ls=(0, (1, 1.2)), zorder=3, **style)
        signs.append(Line2D([], [], ls=":", label=f"{shorten(name, 30)}, {ESTIMATE}", **style))
        if name in exact:
            ax.axhline(exact[name], color=INK, lw=1.2, zorder=1)
    if exact:
        signs.append(Line2D([], [], color=INK, lw=1.2, label=CLAIMED))
    ax.set(xscale="log", xlabel="bins", ylabel="total variation distance")
    ax.set_ylim(bottom=-0.01)
    log_ticks(
        ax.xaxis, [10.0**p for p in range(1, 5) if 10.0**p <= 2 * max(map(max, found.values()))]
    )
    legend(picture, signs)
    picture.caption = " ".join(
        [
            f"Total variation distance of {shorten(record.audit.name, 60)} between two "
            "histograms, against their number of bins: an estimate and no bound.",
            *notes.repeats(record),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _claims(record: Record) -> dict[str, float]:
    """δ at ε = 0, which is the total variation distance that a claim allows."""
    return {
        cell.mechanism.label: cell.claim.profile[0][1]
        for cell in record.cells
        if cell.claim is not None and cell.claim.profile
    }


def _distances(record: Record) -> dict[str, dict[float, list[float]]]:
    """For each mechanism and number of bins, those of all replicates; of one estimator."""
    found: dict[str, dict[float, list[float]]] = {}
    for group in groups(record.cells):
        points: dict[float, list[float]] = {}
        for spot in group.spots:
            bins = number(spot.values.get(KEY))
            for cell in spot.done:
                if bins is not None and (distance := _distance(cell)) is not None:
                    points.setdefault(bins, []).append(distance)
        if points and group.names[0] not in found:
            found[group.names[0]] = points
    return found


def _distance(cell: CellRecord) -> float | None:
    counts: Any = cell.counts
    if "edges" not in cell.statistic or not isinstance(counts, list) or len(counts) != 2:
        return None
    q, p = (np.array(row, float) / max(sum(row), 1) for row in counts)
    return float(np.abs(p - q).sum() / 2)
