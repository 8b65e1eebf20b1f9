"""How well each hockey-stick divergence determines the noise of a Gaussian mechanism."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from dpframe.report.figures import notes
from dpframe.report.figures.axis import log_ticks
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import COLUMN, INK, ordered, shorten
from dpframe.report.words import setting
from dpframe.stats.hockeystick import hockey_stick
from dpframe.stats.profile_fit import matching_mu

if TYPE_CHECKING:
    from dpframe.record.model import CellRecord, Record
    from dpframe.report.figures.picture import Picture

FEWEST = 8
"""Replicates from which a spread can be told."""
MOST = 6
"""Mechanisms in one figure."""
ORDERS = np.geomspace(1, 10, 25)


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _replicates(record):
        return f"no Gaussian claim has histograms of {FEWEST} repeats or more"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a line for each σ, and where the slope of the divergence is steepest."""
    found = _replicates(record)
    shown = sorted(found)[:MOST]
    picture = new(COLUMN, 2.4)
    ax = picture.subplots()
    signs = []
    for place, sigma in enumerate(shown):
        look = ordered(place, len(shown))
        spread = np.array([_spread(found[sigma], order) / sigma for order in ORDERS])
        ax.plot(ORDERS, spread, color=look.color, marker=look.marker, markevery=(place % 4, 4))
        steepest = math.exp(1 / (2 * sigma**2))
        if steepest <= ORDERS[-1]:
            height = np.interp(steepest, ORDERS, spread)
            ax.plot(steepest, height, color=INK, marker="*", markersize=7, ls="none", zorder=4)
        label = f"σ = {setting(sigma)}"
        signs.append(Line2D([], [], color=look.color, marker=look.marker, label=label))
    star = "where the slope of the divergence is steepest"
    signs.append(Line2D([], [], color=INK, marker="*", markersize=7, ls="none", label=star))
    ax.set(xscale="log", yscale="log", xlabel="order α", ylabel="spread of σ / σ")
    log_ticks(ax.xaxis, (1, 2, 5, 10))
    low, high = ax.get_ylim()
    ticks = [m * 10.0**p for p in range(-4, 1) for m in (1, 3)]
    log_ticks(ax.yaxis, [tick for tick in ticks if low <= tick <= high])
    legend(picture, signs)
    picture.caption = " ".join(
        [
            f"Standard deviation of σ over the repeats of {shorten(record.audit.name, 60)}, if it "
            "is read off the hockey-stick divergence of one order; as a share of σ.",
            *notes.more(len(found) - len(shown), "σ"),
            *notes.left_out(record),
        ]
    )
    return picture


def _replicates(record: Record) -> dict[float, list[CellRecord]]:
    """The cells of each σ, of the first estimator that has enough of them."""
    found: dict[tuple[float, str], list[CellRecord]] = {}
    for cell in record.cells:
        claim = cell.claim
        if claim is None or claim.kind != "gaussian-dp" or "edges" not in cell.statistic:
            continue
        if cell.counts is not None and cell.status == "ok":
            sigma = 1 / float(claim.parameters["mu"])
            found.setdefault((sigma, cell.estimator.label), []).append(cell)
    enough: dict[float, list[CellRecord]] = {}
    for (sigma, _), cells in found.items():
        if len(cells) >= FEWEST and len({cell.repeat for cell in cells}) == len(cells):
            enough.setdefault(sigma, cells)
    return enough


def _spread(cells: list[CellRecord], order: float) -> float:
    """Standard deviation of σ over replicates; NaN where some divergence is 0."""
    sigmas = []
    for cell in cells:
        counts: Any = cell.counts
        q, p = (np.array(row, float) / max(sum(row), 1) for row in counts)
        divergence = float(hockey_stick(p, q, math.log(order)))
        if not 0 < divergence < 1:
            return math.nan
        sigmas.append(1 / float(matching_mu(math.log(order), divergence)))
    return float(np.std(sigmas, ddof=1))
