"""Scores made elsewhere: their trade-off, their ROC on logarithmic axes, and what is certified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from dpframe.report import words
from dpframe.report.figures.curves import pair_curve
from dpframe.report.figures.key import curve_key
from dpframe.report.figures.notes import NO_PROOF
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import CERTIFIED, CLAIMED, INK, PAGE, QUIET, named, shorten
from dpframe.report.figures.tradeoff import LEAST, linear_rates, logarithmic_rates
from dpframe.report.terminal.curve import Curve
from dpframe.stats.hull import tradeoff_hull

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes

    from dpframe.report.figures.curves import At, Floats
    from dpframe.report.figures.picture import Picture

MOST = 4
"""Estimators in one figure: those with the largest bounds."""
COUNTED = "these scores, no bound"

Corners = list[tuple[float, float]]


def draw(found: Mapping[str, Any]) -> Picture:
    """Draws what `dpframe.score` or `dpframe.score_one_run` returns."""
    certified = _certified(found)
    counted = np.array(found["scores"]["roc"], float).reshape(-1, 2)
    corners = [point for shown in certified.values() for point in shown]
    rates = [x for x in (*counted[:, 0], *(x for x, _ in corners)) if x > 0]
    least = float(10 ** np.floor(np.log10(min(max(min(rates, default=1e-3), LEAST), 1e-2))))
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
