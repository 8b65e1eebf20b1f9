"""Trade-off curves: claimed, exact, certified, and what each estimator makes of the draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.report.figures import curves, notes
from dpframe.report.figures.axis import log_ticks
from dpframe.report.figures.key import curve_key, draw_bound, draw_estimate, draw_references
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import (
    CERTIFIED,
    ESTIMATE,
    FAINT,
    PAGE,
    named,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.record.model import Record
    from dpframe.report.figures.curves import Floats, Subject
    from dpframe.report.figures.picture import Picture

MOST = 3
"""Settings of mechanisms in one figure."""
LEAST = 1e-6
"""Smallest rate of the panel with logarithmic axes, unless nothing is so small."""


def draw(record: Record) -> Picture:
    """Draws it: a row for each mechanism, on linear axes and, for rare errors, logarithmic ones."""
    found = curves.subjects(record)
    shown = curves.foremost(found, MOST)
    labels = list(dict.fromkeys(name for s in shown for name in s.names))
    picture = new(PAGE, 2.6 * len(shown) + 0.3)
    axes = picture.subplots(len(shown), 2, squeeze=False)
    kinds: set[object] = set()
    for (left, right), subject in zip(axes, shown, strict=True):
        kinds |= _linear(left, subject, labels)
        _logarithmic(right, subject, labels)
    legend(picture, curve_key(labels, kinds))
    picture.caption = " ".join(
        [
            f"Trade-off curves of {shorten(record.audit.name, 60)}: false-negative rate against "
            "false-positive rate, and on the right the true-positive rate, where more loss is "
            "higher. The mechanism's curve runs below or through each certified point.",
            notes.promise(record),
            *notes.more(len(found) - len(shown), "setting"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _linear(ax: Axes, subject: Subject, labels: list[str]) -> set[object]:
    ax.set_title(subject.title)
    fpr = np.concatenate([np.geomspace(1e-9, 0.02, 60), np.linspace(0.02, 1, 200)[1:]])
    kinds = _curves(ax, subject, labels, np.concatenate([[0.0], fpr]), power=False)
    linear_rates(ax)
    return kinds


def linear_rates(ax: Axes) -> None:
    """Axes of a trade-off, with the line of guessing."""
    ax.plot([0, 1], [1, 0], color=FAINT, lw=0.6, zorder=0.5)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="false-negative rate")
    ax.set_aspect("equal")


def _logarithmic(ax: Axes, subject: Subject, labels: list[str]) -> None:
    least = min(
        (x for cell in subject.cells for x, _ in curves.certified_points(cell) if x > 0),
        default=1e-3,
    )
    least = 10 ** np.floor(np.log10(min(max(least, LEAST), 1e-2)))
    _curves(ax, subject, labels, np.geomspace(least, 1, 240), power=True)
    logarithmic_rates(ax, float(least))


def logarithmic_rates(ax: Axes, least: float) -> None:
    """Logarithmic axes of an ROC from the least rate up, with the line of guessing."""
    ax.plot([least, 1], [least, 1], color=FAINT, lw=0.6, zorder=0.5)
    ax.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.15))
    ax.set(xlabel="false-positive rate", ylabel="true-positive rate")
    decades = [10.0**p for p in range(round(np.log10(least)), 1)]
    for axis in (ax.xaxis, ax.yaxis):
        log_ticks(axis, decades)
    ax.set_box_aspect(1)


def _curves(
    ax: Axes, subject: Subject, labels: list[str], fpr: Floats, *, power: bool
) -> set[object]:
    """Draws all curves; returns which kinds of lines there are."""

    def height(fnr: Floats) -> Floats:
        return np.maximum(1 - fnr, 1e-12) if power else fnr

    first = subject.cells[0]
    claimed, exact = (
        None if curve is None else height(np.array([curve(float(x)) for x in fpr]))
        for curve in (curves.claimed_curve(first), curves.exact_curve(first))
    )
    kinds: set[object] = {*draw_references(ax, fpr, claimed, exact)}
    for name, cell in zip(subject.names, subject.cells, strict=True):
        at = labels.index(name)
        estimated = curves.estimated_curve(cell, fpr)
        if estimated is not None:
            draw_estimate(ax, fpr, height(estimated), at, (7 * at % 40, 40))
            kinds |= {ESTIMATE, (name,)}
        points = curves.certified_points(cell)
        if points:
            corners = np.array(points)
            draw_bound(ax, fpr, height(np.interp(fpr, corners[:, 0], corners[:, 1])), at, zorder=3)
            x, y = corners[(corners[:, 0] > 0) & (corners[:, 1] > 0)].T
            marks = {"marker": named(at).marker, "markersize": 3, "ls": "none", "zorder": 3.2}
            draw_bound(ax, x, height(y), at, **marks)
            kinds |= {CERTIFIED, (name,)}
    return kinds
