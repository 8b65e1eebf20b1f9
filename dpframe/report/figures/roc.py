"""Figures of thresholds: trade-off, ROC, and μ against the threshold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from scipy import special

from dpframe.report import words
from dpframe.report.figures import drawing as notes
from dpframe.report.figures.curves import (
    LEAST_TRADEOFF,
    linear_rates,
    logarithmic_rates,
    pair_curve,
)
from dpframe.report.figures.drawing import (
    CERTIFIED,
    CLAIMED,
    DOTTED,
    ESTIMATE,
    INK,
    NO_PROOF,
    PAGE,
    QUIET,
    TRUTH,
    curve_key,
    dress,
    grid,
    legend,
    name_axes,
    named,
    new,
    scale,
    shorten,
)
from dpframe.report.group import groups
from dpframe.report.terminal.plots import Curve
from dpframe.stats.tradeoff import matching_mu, tradeoff_hull

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes

    from dpframe.report.figures.curves import At, Floats
    from dpframe.report.figures.drawing import Picture
    from dpframe.results.model import CellRecord, Record


# Scores made elsewhere: their trade-off, their ROC on logarithmic axes, and what is certified.


MOST = 4
"""Estimators in one figure: those with the largest bounds."""
COUNTED = "these scores, no bound"

Corners = list[tuple[float, float]]


def draw_roc(found: Mapping[str, Any]) -> Picture:
    """Draws what `dpframe.score` or `dpframe.score_one_run` returns."""
    certified = _certified(found)
    counted = np.array(found["scores"]["roc"], float).reshape(-1, 2)
    corners = [point for shown in certified.values() for point in shown]
    rates = [x for x in (*counted[:, 0], *(x for x, _ in corners)) if x > 0]
    least = float(
        10 ** np.floor(np.log10(min(max(min(rates, default=1e-3), LEAST_TRADEOFF), 1e-2)))
    )
    claim = None if found["claim"] is None else _claim(found["claim"])
    picture = new(PAGE, 2.9)
    left, right = picture.subplots(1, 2)
    linear_rates(left)
    logarithmic_rates(right, least)
    for ax, power in ((left, False), (right, True)):
        _curves(ax, counted, claim, list(certified.values()), least, power=power)
    labels = list(certified)
    drawn: set[object] = {(label,) for label in labels}
    drawn |= {CERTIFIED} if labels else set()
    drawn |= set() if claim is None else {CLAIMED}
    handles = curve_key(labels, drawn)
    if len(counted):
        handles.append(Line2D([], [], color=QUIET, lw=0.7, label=COUNTED))
    legend(picture, handles)
    picture.caption = " ".join(_caption(found, bool(labels)))
    return picture


def _certified(found: Mapping[str, Any]) -> dict[str, Corners]:
    """Corners (FPR, FNR) of the estimators that certify some, largest bound first."""
    rows = [row for row in found["rows"] if row["estimate"] and row["estimate"]["certified"]]
    rows.sort(key=lambda row: -(words.number(row["estimate"]["epsilon_lower"]) or 0.0))
    corners: dict[str, Corners] = {}
    for row in rows:
        points = [(x, y) for x, y in row["estimate"]["tradeoff"] if x + y < 1]
        if points and len(corners) < MOST:
            corners[row["estimator"]["label"]] = tradeoff_hull(points)
    return corners


def _claim(claim: Mapping[str, Any]) -> At:
    """FNR at a false-positive rate; a claim at a single δ has corners, which are kept."""
    given = claim["parameters"]
    if claim["kind"] in ("pure-dp", "approx-dp"):
        return pair_curve(given["epsilon"], given.get("delta", 0.0))
    return Curve(tuple(sorted((x, y) for x, y in claim["tradeoff"]))).at


def _curves(
    ax: Axes,
    counted: Floats,
    claim: At | None,
    certified: list[Corners],
    least: float,
    *,
    power: bool,
) -> None:
    """Draws all lines, as false negatives or as true positives."""
    fpr = np.concatenate([[0.0], np.geomspace(least / 10, 1, 400)])

    def height(fnr: Any) -> Floats:
        found = np.asarray(fnr, np.float64)
        return np.maximum(1 - found, 1e-12) if power else found

    ax.step(counted[:, 0], height(1 - counted[:, 1]), where="post", color=QUIET, lw=0.7, zorder=1.5)
    if claim is not None:
        ax.plot(fpr, height([claim(float(x)) for x in fpr]), color=INK, lw=1.6, zorder=2)
    for index, corners in enumerate(certified):
        look, (x, y) = named(index), np.array(corners).T
        inner = (x > 0) & (y > 0)
        ax.plot(fpr, height(np.interp(fpr, x, y)), color=look.color, lw=1.0, zorder=3)
        ax.plot(
            x[inner],
            height(y[inner]),
            color=look.color,
            ls="none",
            marker=look.marker,
            markersize=3,
            zorder=3.2,
        )


def _caption(found: Mapping[str, Any], certified: bool) -> Iterator[str]:
    scores = found["scores"]
    if "in" in scores:
        inside, outside = scores["in"], scores["out"]
        names = _names(inside["name"], outside["name"])
        many = f"{inside['scores']:,} scores with the record, {outside['scores']:,} without"
    else:
        names = scores["name"]
        many = f"{scores['canaries']:,} canaries of one run, {scores['members']:,} of them in"
    yield (
        f"{shorten(names, 80)}: {many}. False-negative rate against false-positive rate, and on "
        "the right the true-positive rate, on logarithmic axes."
    )
    yield "The thin grey line is what thresholds on these very scores give, and no bound."
    if certified:
        yield (
            "The mechanism's curve runs below or through each certified point, on the right above "
            "or through it: for each estimator alone with "
            f"{words.percent(found['audit']['confidence'])} confidence."
        )
    elif any(row["estimate"] and row["estimate"]["certified"] for row in found["rows"]):
        yield "No point of the curve is certified: what is certified here is ε at δ alone."
    else:
        yield "Estimates only: nothing here is certified."
    yield NO_PROOF


def _names(inside: str, outside: str) -> str:
    """Both files, or the one that both sides come from."""
    if inside.removesuffix(", in") == outside.removesuffix(", out"):
        return inside.removesuffix(", in")
    return f"{inside} and {outside}"


# μ against the threshold: what one cut of the scores says if the noise were Gaussian.


MOST_THRESHOLD_CURVE = 6
"""Mechanisms in one figure."""
EXACT: Any = {"color": QUIET, "ls": DOTTED, "lw": 1.4, "zorder": 1.5}


class Cut(NamedTuple):
    """One threshold and what was counted there."""

    threshold: float
    mu: float
    low: float
    high: float
    exact: float
    """Return the value of the exact error rates; NaN if they are unknown."""


def unfit_threshold_curve(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not any(len(cuts) > 1 for cuts in _threshold_curve_curves(record).values()):
        return "no estimator with the Gaussian assumption has several thresholds"
    return None


def draw_threshold_curve(record: Record) -> Picture:
    """Draws it: a panel for each mechanism."""
    found = {name: cuts for name, cuts in _threshold_curve_curves(record).items() if len(cuts) > 1}
    shown = list(found.items())[:MOST_THRESHOLD_CURVE]
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


def _threshold_curve_curves(record: Record) -> dict[str, list[Cut]]:
    found: dict[str, list[Cut]] = {}
    for group in groups(record.cells):
        for spot in group.spots:
            for cell in spot.done[:1]:
                if (cut := _cut(cell)) is not None:
                    found.setdefault(group.names[0], []).append(cut)
    return {name: sorted(cuts) for name, cuts in found.items()}


def _cut(cell: CellRecord) -> Cut | None:
    """Return the rates of decisions at a fixed threshold, from their counts."""
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
