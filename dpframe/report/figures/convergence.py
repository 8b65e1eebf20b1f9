"""How fast what histograms say of a mechanism approaches what is exact, as draws are added."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from dpframe.report.figures import notes
from dpframe.report.figures.axis import decades, log_ticks
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import COLUMN, DOTTED, INK, named, shorten
from dpframe.report.group import groups
from dpframe.report.words import number

if TYPE_CHECKING:
    from dpframe.record.model import CellRecord, Record
    from dpframe.report.figures.picture import Picture

KEY = "audit.trials"
RATE = -1 / 3
"""Of the mean error, at least, with bins of Scott's width [Koskela2024, theorem 4]."""
MOST = 6
"""Lines in one figure."""


class Line(NamedTuple):
    """One mechanism behind one estimator."""

    name: str
    trials: list[float]
    """Draws on either dataset, ascending; two or more."""
    errors: list[list[float]]
    """For each, how far the distance is from the exact one, of all repeats."""

    @property
    def means(self) -> list[float]:
        """Mean errors."""
        return [float(np.mean(found)) for found in self.errors]

    @property
    def slope(self) -> float:
        """Of the straight line through the mean errors, both logarithmic, by least squares."""
        return float(np.polyfit(np.log(self.trials), np.log(self.means), 1)[0])


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _lines(record):
        return "no histogram of a known distance has several numbers of trials"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a line for each mechanism, its slope, and the slope that theorem 4 promises."""
    found = _lines(record)
    shown = found[:MOST]
    picture = new(COLUMN, 2.6)
    ax = picture.subplots()
    signs = []
    for place, line in enumerate(shown):
        look, means = named(place), line.means
        for n, errors in zip(line.trials, line.errors, strict=True):
            ax.plot([n, n], _middle(errors), color=look.color, lw=0.8, zorder=2)
        ax.plot(line.trials, means, color=look.color, marker=look.marker, ls="none", zorder=3)
        fitted = np.exp(np.polyval(np.polyfit(np.log(line.trials), np.log(means), 1), _log(line)))
        ax.plot(line.trials, fitted, color=look.color, ls=look.dashes, zorder=2)
        name = f"{shorten(line.name, 24)}: slope {line.slope:.2f}".replace("-", "−")
        style = {"color": look.color, "marker": look.marker, "ls": look.dashes}
        signs.append(Line2D([], [], label=name, **style))
        promised = means[0] * (np.array(line.trials) / line.trials[0]) ** RATE
        ax.plot(line.trials, promised, color=INK, lw=0.9, ls=DOTTED, zorder=1)
    label = "at least so fast in the limit: slope −⅓"
    signs.append(Line2D([], [], color=INK, lw=0.9, ls=DOTTED, label=label))
    ax.set(xscale="log", yscale="log", xlabel="trials on either dataset")
    ax.set_ylabel("error of the distance")
    for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        log_ticks(axis, decades(*ends))
    legend(picture, signs)
    picture.caption = " ".join(
        [
            f"Error of the total variation distance of {shorten(record.audit.name, 60)}, as its "
            "histograms have it, against the number of draws. Means over repeats, bars from the "
            "lower to the upper quartile.",
            *notes.more(len(found) - len(shown), "line"),
            *notes.left_out(record),
        ]
    )
    return picture


def _log(line: Line) -> list[float]:
    return [math.log(n) for n in line.trials]


def _middle(errors: list[float]) -> list[float]:
    return [float(np.quantile(errors, share)) for share in (0.25, 0.75)]


def _lines(record: Record) -> list[Line]:
    found = groups(record.cells)
    several = len({group.names[2] for group in found}) > 1
    lines = []
    for group in found:
        errors: dict[float, list[float]] = {}
        for spot in group.spots:
            trials = number(spot.values.get(KEY))
            known = [error for cell in spot.done if (error := _error(cell)) is not None]
            if trials is not None and 0 < trials < math.inf and sum(known) > 0:
                errors.setdefault(trials, []).extend(known)
        if len(errors) > 1:
            name = group.names[0] if not several else f"{group.names[0]} · {group.names[2]}"
            lines.append(Line(name, sorted(errors), [errors[n] for n in sorted(errors)]))
    return lines


def _error(cell: CellRecord) -> float | None:
    """Of an estimated δ at ε = 0, which is the total variation distance; None where unknown."""
    if cell.estimate is None or "edges" not in cell.statistic:
        return None
    profiles = [cell.estimate.profile]
    if cell.truth is not None:
        profiles.append(cell.truth.profile or (cell.claim.profile if cell.claim else None) or [])
    starts = [profile[0] for profile in profiles if profile and profile[0][0] == 0]
    if len(starts) < 2 or not all(math.isfinite(delta) for _, delta in starts):
        return None
    return abs(starts[0][1] - starts[1][1])
