"""μ against the threshold: what one cut of the scores says if the noise were Gaussian."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.lines import Line2D
from scipy import special

from dpframe.report.figures import notes
from dpframe.report.figures.axis import dress, scale
from dpframe.report.figures.picture import grid, legend, name_axes
from dpframe.report.figures.style import (
    CLAIMED,
    DOTTED,
    ESTIMATE,
    INK,
    QUIET,
    TRUTH,
    named,
    shorten,
)
from dpframe.report.group import groups
from dpframe.stats.profile_fit import matching_mu

if TYPE_CHECKING:
    from dpframe.record.model import CellRecord, Record
    from dpframe.report.figures.picture import Picture

MOST = 6
"""Mechanisms in one figure."""
EXACT: Any = {"color": QUIET, "ls": DOTTED, "lw": 1.4, "zorder": 1.5}


class Cut(NamedTuple):
    """One threshold and what was counted there."""

    threshold: float
    mu: float
    low: float
    high: float
    exact: float
    """What the exact error rates would give; NaN where they are not known."""


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not any(len(cuts) > 1 for cuts in _curves(record).values()):
        return "no estimator with the Gaussian assumption has several thresholds"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a panel for each mechanism."""
    found = {name: cuts for name, cuts in _curves(record).items() if len(cuts) > 1}
    shown = list(found.items())[:MOST]
    claims = _claims(record)
    values = [v for _, cuts in shown for cut in cuts for v in cut[1:]]
    scaled = scale(values, claims.values(), log=False)
    picture, axes = grid(len(shown))
    look = named(0)
    for ax, (name, cuts) in zip(axes, shown, strict=True):
        ax.set_title(shorten(name, 34))
        if name in claims:
            ax.axhline(claims[name], color=INK, lw=1.6, zorder=1)
        for cut in cuts:
            ends = scaled.places((cut.low, cut.high))
            at = [cut.threshold, cut.threshold]
            ax.plot(at, ends, color=look.color, lw=0.9, marker="_", markersize=4, zorder=2)
        ax.plot(
            [cut.threshold for cut in cuts],
            scaled.places(cut.mu for cut in cuts),
            color=look.color,
            ls=(0, (1, 1.2)),
            marker=look.marker,
            markerfacecolor="white",
            zorder=3,
        )
        exact = [(cut.threshold, scaled.place(cut.exact)) for cut in cuts if cut.exact >= 0]
        ax.plot([x for x, _ in exact], [y for _, y in exact], **EXACT)
        dress(ax, "y", scaled)
    name_axes(axes, "threshold", "μ")
    signs = [
        Line2D(
            [], [], color=look.color, ls=":", marker="o", markerfacecolor="white", label=ESTIMATE
        ),
        Line2D([], [], color=look.color, marker="_", label="interval if the noise is Gaussian"),
    ]
    if any(cut.exact >= 0 for _, cuts in shown for cut in cuts):
        signs.append(Line2D([], [], label=TRUTH, **EXACT))
    if any(name in claims for name, _ in shown):
        signs.append(Line2D([], [], color=INK, lw=1.6, label=CLAIMED))
    legend(picture, signs)
    picture.caption = " ".join(
        [
            f"μ of {shorten(record.audit.name, 60)} against the threshold, read as that of a "
            "Gaussian; nothing here is a bound for other noise.",
            *notes.more(len(found) - len(shown), "panel"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _claims(record: Record) -> dict[str, float]:
    """μ of each mechanism that claims one."""
    return {
        cell.mechanism.label: float(cell.claim.parameters["mu"])
        for cell in record.cells
        if cell.claim is not None and cell.claim.kind == "gaussian-dp"
    }


def _curves(record: Record) -> dict[str, list[Cut]]:
    found: dict[str, list[Cut]] = {}
    for group in groups(record.cells):
        for spot in group.spots:
            for cell in spot.done[:1]:
                if (cut := _cut(cell)) is not None:
                    found.setdefault(group.names[0], []).append(cut)
    return {name: sorted(cuts) for name, cuts in found.items()}


def _cut(cell: CellRecord) -> Cut | None:
    """Of decisions at a fixed threshold, from their counts."""
    threshold, counts, estimate = cell.statistic.get("threshold"), cell.counts, cell.estimate
    if cell.estimator.use != "gdp" or estimate is None or not isinstance(threshold, int | float):
        return None
    if not isinstance(counts, list) or [len(row) for row in counts] != [2, 2]:
        return None
    mu = _apart([row[1] / sum(row) for row in counts])
    low, high = (_mu(e, estimate.delta) for e in estimate.interval or (math.nan, math.nan))
    shares = cell.exact_shares or []
    known = [len(row) for row in shares] == [2, 2]
    exact = max(_apart([row[1] for row in shares]), 0.0) if known else math.nan
    return Cut(float(threshold), math.inf if math.isnan(mu) else max(mu, 0.0), low, high, exact)


def _apart(rates: list[float]) -> float:
    """μ of two Gaussians that reach a threshold so often (equation 3.1)."""
    fpr, tpr = rates
    return float(special.ndtri(tpr) - special.ndtri(fpr))


def _mu(epsilon: float, delta: float) -> float:
    if not 0 < epsilon < math.inf:
        return epsilon
    return float(matching_mu(epsilon, delta))
