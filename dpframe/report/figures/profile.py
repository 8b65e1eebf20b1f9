"""Privacy profiles: δ against ε, claimed, exact, certified, and as each estimator has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpframe.report.figures import curves, notes
from dpframe.report.figures.axis import log_ticks
from dpframe.report.figures.key import curve_key, draw_bound, draw_estimate, draw_references
from dpframe.report.figures.picture import grid, legend, name_axes
from dpframe.report.figures.style import (
    CERTIFIED,
    ESTIMATE,
    FAINT,
    named,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.record.model import Record
    from dpframe.report.figures.curves import Floats, Subject
    from dpframe.report.figures.picture import Picture

MOST = 6
"""Settings of mechanisms in one figure."""
LEAST = 1e-6
"""Smallest δ that is drawn."""
STEPS = 240


def draw(record: Record) -> Picture:
    """Draws it: a panel for each mechanism."""
    found = curves.subjects(record)
    shown = curves.foremost(found, MOST)
    labels = list(dict.fromkeys(name for s in shown for name in s.names))
    picture, axes = grid(len(shown), height=2.1, shared=False)
    kinds: set[object] = set()
    for ax, subject in zip(axes, shown, strict=True):
        kinds |= _draw(ax, subject, labels)
    name_axes(axes, "ε", "δ")
    legend(picture, curve_key(labels, kinds))
    picture.caption = " ".join(
        [
            f"Privacy profiles of {shorten(record.audit.name, 60)}: δ against ε. The mechanism's "
            "profile runs above or through the certified one.",
            notes.promise(record),
            *notes.more(len(found) - len(shown), "setting"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _end(subject: Subject) -> float:
    """The largest ε of interest."""
    ends = [1e-3]
    for cell in subject.cells:
        estimate, claim = cell.estimate, cell.claim
        ends += [p[0] for p in estimate.profile_lower[-1:]] if estimate else []
        ends += [e for e, d in estimate.profile if d > LEAST] if estimate else []
        ends += [v.epsilon for v in (claim, cell.truth) if v is not None]
        ends += [estimate.epsilon_lower or 0.0] if estimate else []
    return 1.1 * max(end for end in ends if math.isfinite(end))


def _draw(ax: Axes, subject: Subject, labels: list[str]) -> set[object]:
    ax.set_title(shorten(subject.title, 40))
    epsilons = np.linspace(0, _end(subject), STEPS)
    first = subject.cells[0]
    claimed, exact = (
        None if deltas is None else _shown(deltas)
        for deltas in (
            curves.claimed_profile(first, epsilons),
            curves.exact_profile(first, epsilons),
        )
    )
    kinds: set[object] = {*draw_references(ax, epsilons, claimed, exact)}
    bounds = [b for c in subject.cells if (b := curves.certified_profile(c, epsilons)) is not None]
    if bounds:
        best = np.maximum.reduce(bounds)
        ax.fill_between(epsilons, LEAST / 2, _shown(best), color=FAINT, alpha=0.55, lw=0, zorder=1)
    for name, cell in zip(subject.names, subject.cells, strict=True):
        at = labels.index(name)
        profile = curves.estimated_profile(cell, epsilons)
        every = max(1, len(profile) // 6)
        if len(profile) > 1:
            places, deltas = np.array(profile).T
            draw_estimate(ax, places, _shown(deltas), at, (at % every, every))
            kinds |= {ESTIMATE, (name,)}
        bound = curves.certified_profile(cell, epsilons)
        if bound is not None:
            marks = {"marker": named(at).marker, "markevery": (11 * at % 40, 40), "lw": 1.1}
            draw_bound(ax, epsilons, _shown(bound), at, **marks)
            kinds |= {CERTIFIED, (name,)}
    ax.set(yscale="log", ylim=(LEAST, 1.3), xlim=(0, epsilons[-1]))
    decades = [10.0**p for p in range(round(math.log10(LEAST)), 1)]
    log_ticks(ax.yaxis, decades)
    return kinds


def _shown(deltas: Floats) -> Floats:
    """δ on a logarithmic axis: below its end is out of sight."""
    return np.maximum(deltas, LEAST / 10)
