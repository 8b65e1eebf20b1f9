"""Figures of thresholds: trade-off, ROC, and μ against the threshold."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy import special

from dpframe.common.types import Floats
from dpframe.report.figures import curves, drawing, scales
from dpframe.report.figures.drawing import CLAIMED, INK, QUIET, TRUTH, Picture
from dpframe.report.group import groups
from dpframe.report.number_format import percent, quantity
from dpframe.report.scores import bound_of, canaries, certified_rows
from dpframe.results.model import CellRecord, Record
from dpframe.stats.tradeoff import matching_mu

MOST = 4  # estimators in one figure: those with the largest bounds
COUNTED = "these scores, no bound"

Corners = list[tuple[float, float]]


def draw_roc(found: Mapping[str, Any]) -> Picture:
    """Draw the trade-off and the ROC of the answer of `dpframe.score` or `score_one_run`."""
    certified = _certified(found)
    labels = list(certified)
    counted = np.array(found["scores"]["roc"], float).reshape(-1, 2)
    corners = [point for shown in certified.values() for point in shown]
    least = curves.least_rate([x for x in (*counted[:, 0], *(x for x, _ in corners)) if x > 0])
    claim = None if found["claim"] is None else _claim(found["claim"])
    picture = drawing.new(drawing.PAGE, 2.9)
    left, right = picture.subplots(1, 2)
    curves.linear_rates(left)
    curves.logarithmic_rates(right, least)
    for ax, power in ((left, False), (right, True)):
        _draw_curves(ax, counted, claim, list(certified.values()), least, power=power)
    drawn: set[object] = {(label,) for label in labels}
    drawn |= {drawing.CERTIFIED} if labels else set()
    drawn |= set() if claim is None else {CLAIMED}
    handles = drawing.curve_key(labels, drawn)
    if len(counted):
        handles.append(drawing.entry(COUNTED, color=QUIET, lw=0.7))
    drawing.legend(picture, handles)
    picture.caption = " ".join(_caption(found, bool(labels)))
    return picture


def _certified(found: Mapping[str, Any]) -> dict[str, Corners]:
    """Return corners (FPR, FNR) of the estimators that certify some, largest bound first."""
    rows = sorted(certified_rows(found), key=bound_of, reverse=True)
    corners = {
        row["estimator"]["label"]: curves.corners(row["estimate"]["tradeoff"]) for row in rows
    }
    return dict([each for each in corners.items() if each[1]][:MOST])


def _claim(claim: Mapping[str, Any]) -> curves.At:
    """Return the claimed curve; a claim at a single δ keeps its corners."""
    given = claim["parameters"]
    if claim["kind"] in ("pure-dp", "approx-dp"):
        return curves.pair_curve(given["epsilon"], given.get("delta", 0.0))
    return curves.curve_through((x, y) for x, y in claim["tradeoff"])


def _draw_curves(
    ax: Axes,
    counted: Floats,
    claim: curves.At | None,
    certified: list[Corners],
    least: float,
    *,
    power: bool,
) -> None:
    """Draw all lines, as false negatives or as true positives."""
    fpr, height = (
        np.append(0.0, np.geomspace(least / 10, 1, 400)),
        partial(curves.rates, power=power),
    )
    ax.step(counted[:, 0], height(1 - counted[:, 1]), where="post", color=QUIET, lw=0.7, zorder=1.5)
    if claim is not None:
        claimed = np.array([claim(float(x)) for x in fpr])
        ax.plot(fpr, height(claimed), color=INK, lw=1.6, zorder=2)
    for index, corners in enumerate(certified):
        curves.draw_corners(ax, np.array(corners), fpr, index, power=power)


def _caption(found: Mapping[str, Any], certified: bool) -> Iterator[str]:
    scores = found["scores"]
    if "in" in scores:
        inside, outside = scores["in"], scores["out"]
        names = inside["name"].removesuffix(", in")
        if names != outside["name"].removesuffix(", out"):
            names = f"{inside['name']} and {outside['name']}"
        many = (
            f"{quantity(inside['scores'])} scores with the record, "
            f"{quantity(outside['scores'])} without"
        )
    else:
        names = scores["name"]
        many = f"{canaries(scores)}, {quantity(scores['members'])} of them in"
    yield (
        f"{drawing.shorten(names, 80)}: {many}. False-negative rate against false-positive rate; "
        "on the right, true-positive rate on logarithmic axes."
    )
    yield "The thin grey line shows the rates of thresholds on these scores; it is not a bound."
    if certified:
        yield (
            "The mechanism's curve runs through each certified point or below it, on the right "
            "above it, for each estimator alone with "
            f"{percent(found['audit']['confidence'])} confidence."
        )
    elif certified_rows(found):
        yield "No point of the curve is certified, only ε at this δ."
    else:
        yield "Estimates only: nothing here is certified."
    yield drawing.NO_PROOF if found["refuted"] is False else "Other scores may show more."


# μ against the threshold: the loss that one threshold implies if the noise is Gaussian.

MOST_THRESHOLD_CURVE = 6  # mechanisms in one figure
EXACT: Any = {**drawing.REFERENCES[TRUTH], "zorder": 1.5}


class Cut(NamedTuple):
    """A threshold and the values of μ there."""

    threshold: float
    mu: float
    low: float
    high: float
    exact: float  # from the exact error rates; NaN if they are unknown


def draw_threshold_curve(record: Record, found: dict[str, list[Cut]]) -> Picture:
    """Draw a panel for each mechanism."""
    shown = list(found.items())[:MOST_THRESHOLD_CURVE]
    claims = {
        cell.mechanism.label: float(cell.claim.parameters["mu"])
        for cell in record.cells
        if cell.claim is not None and cell.claim.kind == "gaussian-dp"
    }
    values = [v for _, cuts in shown for cut in cuts for v in cut[1:]]
    scaled = scales.scale(values, claims.values(), log=False)
    picture, axes = drawing.grid(len(shown))
    look = drawing.named(0)
    for ax, (name, cuts) in zip(axes, shown, strict=True):
        ax.set_title(drawing.shorten(name, 34))
        if name in claims:
            ax.axhline(claims[name], color=INK, lw=1.6, zorder=1)
        for cut in cuts:
            ends, at = scaled.places((cut.low, cut.high)), [cut.threshold] * 2
            ax.plot(at, ends, color=look.color, lw=0.9, marker="_", markersize=4, zorder=2)
        places = scaled.places(cut.mu for cut in cuts)
        ax.plot([c.threshold for c in cuts], places, **look.hollow, ls=drawing.DOTTED, zorder=3)
        exact = [(cut.threshold, cut.exact) for cut in cuts if cut.exact >= 0]
        ax.plot(*scaled.columns(exact), **EXACT)
        scales.dress(ax, "y", scaled)
    drawing.name_axes(axes, "threshold", "μ")
    handles = [
        drawing.entry(drawing.ESTIMATE, **look.hollow, ls=":"),
        drawing.entry("interval if the noise is Gaussian", color=look.color, marker="_"),
    ]
    if any(cut.exact >= 0 for _, cuts in shown for cut in cuts):
        handles.append(drawing.entry(TRUTH, **EXACT))
    if any(name in claims for name, _ in shown):
        handles.append(drawing.entry(CLAIMED, color=INK, lw=1.6))
    return drawing.finish(
        picture,
        handles,
        record,
        f"μ of {drawing.audit_name(record)} against the threshold, read as that of a "
        "Gaussian; nothing here is a bound for other noise.",
        drawing.more(len(found) - len(shown), "panel"),
    )


def find_threshold_curve(record: Record) -> dict[str, list[Cut]] | str:
    """Return the cuts of each mechanism with several of them, or the reason for none."""
    found: dict[str, list[Cut]] = {}
    for group in groups(record.cells):
        for spot in group.spots:
            for cell in spot.done[:1]:
                if (cut := _cut(cell)) is not None:
                    found.setdefault(group.names[0], []).append(cut)
    several = {name: sorted(cuts) for name, cuts in found.items() if len(cuts) > 1}
    return several or "no estimator with the Gaussian assumption has several thresholds"


def _cut(cell: CellRecord) -> Cut | None:
    """Return μ at a fixed threshold, from counts of decisions."""
    threshold, counts, estimate = cell.statistic.get("threshold"), cell.counts, cell.estimate
    if cell.estimator.use != "gdp" or estimate is None or not isinstance(threshold, int | float):
        return None
    if not isinstance(counts, list) or [len(row) for row in counts] != [2, 2]:
        return None
    mu = _mu_of_rates([row[1] / sum(row) for row in counts])
    low, high = (_mu(e, estimate.delta) for e in estimate.interval or (math.nan, math.nan))
    shares = cell.exact_shares or []
    known = [len(row) for row in shares] == [2, 2]
    exact = max(_mu_of_rates([row[1] for row in shares]), 0.0) if known else math.nan
    return Cut(float(threshold), math.inf if math.isnan(mu) else max(mu, 0.0), low, high, exact)


def _mu_of_rates(rates: list[float]) -> float:
    """Return μ of two Gaussians with these rates beyond a threshold (equation 3.1)."""
    fpr, tpr = rates
    return float(special.ndtri(tpr) - special.ndtri(fpr))


def _mu(epsilon: float, delta: float) -> float:
    return float(matching_mu(epsilon, delta)) if 0 < epsilon < math.inf else epsilon
