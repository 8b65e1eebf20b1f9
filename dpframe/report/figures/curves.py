"""Figures of trade-off curves and privacy profiles."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from dpframe.report.figures import drawing as notes
from dpframe.report.figures.drawing import (
    CERTIFIED,
    ESTIMATE,
    FAINT,
    PAGE,
    curve_key,
    draw_bound,
    draw_estimate,
    draw_references,
    grid,
    legend,
    log_ticks,
    name_axes,
    named,
    new,
    shorten,
)
from dpframe.report.group import groups, same, short
from dpframe.report.terminal.plots import Curve
from dpframe.report.words import setting
from dpframe.stats.tradeoff import certified_delta, matching_mu, tradeoff_hull, tradeoff_of_profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.report.figures.drawing import Picture
    from dpframe.results.model import Record


# What estimators say of one mechanism: the curves of its claim, its truth and each of them.


if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpframe.results.model import CellRecord, ClaimRecord, Record, TruthRecord

    Floats = npt.NDArray[np.float64]
    At = Callable[[float], float]


MOST_LINES = 8
GAUSSIAN = ("gdp", "gdp-fit")
"""Estimators that mean the curve of a Gaussian mechanism."""


class Subject(NamedTuple):
    """A mechanism with its parameters, as one attack sees it."""

    title: str
    cells: tuple[CellRecord, ...]
    """One for each estimator, that with the largest bound where δ or a parameter is swept; where
    nothing is certified, one for each value of a swept parameter of the estimator."""
    names: tuple[str, ...]
    """Names of the estimators, each with such a value."""


def subjects(record: Record) -> list[Subject]:
    """List the settings that have curves of their own, in the order of the record."""
    found = groups(record.cells)
    several = len({group.names[1] for group in found}) > 1
    kept: dict[tuple[str, ...], dict[str, CellRecord]] = {}
    varied: dict[tuple[str, ...], dict[str, CellRecord]] = {}
    titles = {}
    for group in found:
        for spot in group.spots:
            keys = [k for k in spot.values if not k.startswith(("audit.", "estimator."))]
            where = [f"{short(k, keys)} {setting(spot.values[k])}" for k in keys]
            who = (group.names[0], group.names[1], *(same(spot.values[k]) for k in keys))
            cells = [c for c in spot.done if c.estimate is not None and _single(c)]
            if not cells:
                continue
            attack = [group.names[1]] if several else []
            titles[who] = shorten(" · ".join([group.names[0], *attack, *where]), 44)
            best = kept.setdefault(who, {})
            label = group.names[2]
            best[label] = max([*([best[label]] if label in best else []), *cells], key=_telling)
            own = [k for k in spot.values if k.startswith("estimator.")]
            values = [f"{short(k, own)} {setting(spot.values[k])}" for k in own]
            name = " · ".join([label, *values]).replace("_", " ")
            varied.setdefault(who, {}).setdefault(name, cells[0])
    shown = {who: _all_or_best(varied[who], best) for who, best in kept.items()}
    return [
        Subject(titles[who], tuple(cells.values()), tuple(cells)) for who, cells in shown.items()
    ]


def _all_or_best(
    varied: dict[str, CellRecord], best: dict[str, CellRecord]
) -> dict[str, CellRecord]:
    """All that estimators made with other parameters, if they are few and none is a bound."""
    certified = any(c.estimate is not None and c.estimate.certified for c in varied.values())
    return best if certified or len(varied) > MOST_LINES else varied


def unfit_curves(record: Record) -> str | None:
    """Why no curves can be drawn of a record."""
    found = subjects(record)
    if not found:
        return "none of its cells has an estimate of one release"
    cells = [cell for subject in found for cell in subject.cells]
    if not any(certified_points(c) or _has_curve(c) for c in cells):
        return "no estimate of it has a curve or certified points"
    return None


def _has_curve(cell: CellRecord) -> bool:
    estimate = cell.estimate
    listed = estimate is not None and (estimate.profile or len(estimate.tradeoff) > 1)
    return bool(listed) or gaussian_mu(cell) is not None


def foremost(found: list[Subject], most: int) -> list[Subject]:
    """As many as fit, those that show most against their claims, in the order of the record.

    First one of each mechanism, then a second one: most against its claim may be one and the same
    mechanism in all of its settings.
    """
    order = sorted(range(len(found)), key=lambda index: -_against(found[index]))
    turns: Counter[str] = Counter()
    ranked = []
    for index in order:
        mechanism = found[index].cells[0].mechanism.label
        ranked.append((turns[mechanism], index))
        turns[mechanism] += 1
    ranked.sort(key=lambda place: place[0])
    return [found[index] for index in sorted(index for _, index in ranked[:most])]


def _against(subject: Subject) -> float:
    shares = [
        (cell.estimate.epsilon_lower or 0.0) / cell.claim.epsilon
        for cell in subject.cells
        if cell.estimate is not None and cell.claim is not None and cell.claim.epsilon > 0
    ]
    return max(shares, default=0.0)


def _single(cell: CellRecord) -> bool:
    return bool(cell.estimator.params.get("compositions", 1) == 1)


def _telling(cell: CellRecord) -> tuple[float, int]:
    estimate = cell.estimate
    assert estimate is not None
    return estimate.epsilon_lower or 0.0, len(estimate.tradeoff)


def curve_of(of: ClaimRecord | TruthRecord, delta: float) -> At:
    """FNR at a false-positive rate, of what is claimed or true."""
    if of.tradeoff:
        points = [(x, y) for x, y in of.tradeoff if math.isfinite(x + y)]
        return Curve(tuple(sorted(points))).at
    return pair_curve(of.epsilon, delta)


def pair_curve(epsilon: float, delta: float) -> At:
    """F of (ε, δ)-DP [Dong2022, proposition 2.5]."""
    growth = math.exp(min(epsilon, 700.0))
    return lambda x: max(0.0, 1 - delta - growth * x, (1 - delta - x) / growth)


def claimed_curve(cell: CellRecord) -> At | None:
    """Return the claimed curve, if there is a claim."""
    claim = cell.claim
    if claim is None:
        return None
    if claim.tradeoff is None and {"epsilon", "delta"} <= claim.parameters.keys():
        # At its own δ, which need not be the cell's.
        return pair_curve(claim.parameters["epsilon"], claim.parameters["delta"])
    return curve_of(claim, claim.delta)


def exact_curve(cell: CellRecord) -> At | None:
    """The exact curve, where it is known and not the claimed one."""
    truth, claim = cell.truth, cell.claim
    if truth is None:
        return None
    if truth.tradeoff:
        return curve_of(truth, 0.0)
    if truth.kind != "pure-dp" or (claim is not None and claim.epsilon == truth.epsilon):
        return None  # the claimed curve; or an old record, and ε at one δ is no curve
    return pair_curve(truth.epsilon, 0.0)


def claimed_profile(cell: CellRecord, epsilons: Floats) -> Floats | None:
    """Claimed δ at each ε; None if nothing is claimed, or an old record does not say."""
    claim = cell.claim
    if claim is None:
        return None
    if claim.profile:
        return _between(claim.profile, epsilons)
    if {"epsilon", "delta"} <= claim.parameters.keys():
        return _pair_profile(claim.parameters["epsilon"], claim.parameters["delta"], epsilons)
    return _pair_profile(claim.epsilon, claim.delta, epsilons) if claim.tradeoff is None else None


def exact_profile(cell: CellRecord, epsilons: Floats) -> Floats | None:
    """Exact δ at each ε, where it is known and not the claimed one."""
    truth = cell.truth
    if truth is None or exact_curve(cell) is None:
        return None
    if truth.profile:
        return _between(truth.profile, epsilons)
    return _pair_profile(truth.epsilon, 0.0, epsilons) if truth.kind == "pure-dp" else None


def _between(profile: list[list[float]], epsilons: Floats) -> Floats:
    """On a straight line in ln δ between recorded points, and NaN beyond the last."""
    places, deltas = np.array(profile, float).T
    logs = np.interp(epsilons, places, np.log(np.maximum(deltas, 1e-300)))
    return np.where(epsilons <= places[-1], np.exp(logs), np.nan)


def _pair_profile(epsilon: float, delta: float, epsilons: Floats) -> Floats:
    """δ(ε) of the curve of (ε, δ)-DP: that of its corner, or δ."""
    corner = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return np.maximum(1 - (1 + np.exp(epsilons)) * corner, delta)


def certified_points(cell: CellRecord) -> list[tuple[float, float]]:
    """Corners below or through which the mechanism's curve runs, by ascending FPR; else none."""
    estimate = cell.estimate
    if estimate is None or not estimate.certified:
        return []
    points = [(x, y) for x, y in estimate.tradeoff if x + y < 1]
    return tradeoff_hull(points) if points else []


def certified_profile(cell: CellRecord, epsilons: Floats) -> Floats | None:
    """Certified δ at each ε; None if there is none.

    Both what the record says of it and what its points of the curve say hold, at one confidence.
    """
    estimate = cell.estimate
    if estimate is None or not estimate.certified:
        return None
    found = certified_delta(np.array(estimate.tradeoff, float).reshape(-1, 1, 2), epsilons)
    if estimate.profile_lower:
        places, deltas = np.array(estimate.profile_lower, float).T
        right = np.searchsorted(places, epsilons)
        found = np.maximum(found, np.append(deltas, 0.0)[right])
    return found if found.max() > 0 else None


def gaussian_mu(cell: CellRecord) -> float | None:
    """μ of the curve that a Gaussian estimator means, from its ε at its δ; None for others."""
    estimate = cell.estimate
    if cell.estimator.use not in GAUSSIAN or estimate is None or not 0 < estimate.delta < 1:
        return None
    if not 0 < estimate.epsilon < math.inf:
        return None
    return float(matching_mu(estimate.epsilon, estimate.delta))


def estimated_curve(cell: CellRecord, fpr: Floats) -> Floats | None:
    """FNR at false-positive rates, from the estimated profile, else from estimated points."""
    estimate = cell.estimate
    if estimate is None:
        return None
    if (mu := gaussian_mu(cell)) is not None:
        return np.asarray(special.ndtr(-special.ndtri(fpr) - mu))
    if estimate.profile:
        profile = [(e, d) for e, d in estimate.profile if math.isfinite(e + d) and e >= 0]
        if profile:
            epsilons, deltas = np.array(profile).T
            return tradeoff_of_profile(fpr, epsilons, np.clip(deltas, 0, 1))
    if not estimate.certified and len(estimate.tradeoff) > 1:
        points = sorted((x, y) for x, y in estimate.tradeoff if math.isfinite(x + y))
        xs, ys = np.array(points).T
        return np.asarray(np.interp(fpr, xs, ys))
    return None


def estimated_profile(cell: CellRecord, epsilons: Floats) -> list[tuple[float, float]]:
    """Points (ε, δ) of an estimate, by ascending ε."""
    estimate = cell.estimate
    if (mu := gaussian_mu(cell)) is not None:
        deltas = special.ndtr(mu / 2 - epsilons / mu) - np.exp(
            epsilons + special.log_ndtr(-mu / 2 - epsilons / mu)
        )
        return list(zip(epsilons.tolist(), deltas.tolist(), strict=True))
    listed = estimate.profile if estimate is not None else []
    return sorted((e, d) for e, d in listed if math.isfinite(e + d) and e >= 0)


# Privacy profiles: δ against ε, claimed, exact, certified, and as each estimator has it.


MOST = 6
"""Settings of mechanisms in one figure."""
LEAST = 1e-6
"""Smallest δ that is drawn."""
STEPS = 240


def draw_profile(record: Record) -> Picture:
    """Draws it: a panel for each mechanism."""
    found = subjects(record)
    shown = foremost(found, MOST)
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
            claimed_profile(first, epsilons),
            exact_profile(first, epsilons),
        )
    )
    kinds: set[object] = {*draw_references(ax, epsilons, claimed, exact)}
    bounds = [b for c in subject.cells if (b := certified_profile(c, epsilons)) is not None]
    if bounds:
        best = np.maximum.reduce(bounds)
        ax.fill_between(epsilons, LEAST / 2, _shown(best), color=FAINT, alpha=0.55, lw=0, zorder=1)
    for name, cell in zip(subject.names, subject.cells, strict=True):
        at = labels.index(name)
        profile = estimated_profile(cell, epsilons)
        every = max(1, len(profile) // 6)
        if len(profile) > 1:
            places, deltas = np.array(profile).T
            draw_estimate(ax, places, _shown(deltas), at, (at % every, every))
            kinds |= {ESTIMATE, (name,)}
        bound = certified_profile(cell, epsilons)
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


# Trade-off curves: claimed, exact, certified, and what each estimator makes of the draws.


MOST_TRADEOFF = 3
"""Settings of mechanisms in one figure."""
LEAST_TRADEOFF = 1e-6
"""Smallest rate of the panel with logarithmic axes, unless nothing is so small."""


def draw_tradeoff(record: Record) -> Picture:
    """Draws it: a row for each mechanism, on linear axes and, for rare errors, logarithmic ones."""
    found = subjects(record)
    shown = foremost(found, MOST_TRADEOFF)
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
        (x for cell in subject.cells for x, _ in certified_points(cell) if x > 0),
        default=1e-3,
    )
    least = 10 ** np.floor(np.log10(min(max(least, LEAST_TRADEOFF), 1e-2)))
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
        for curve in (claimed_curve(first), exact_curve(first))
    )
    kinds: set[object] = {*draw_references(ax, fpr, claimed, exact)}
    for name, cell in zip(subject.names, subject.cells, strict=True):
        at = labels.index(name)
        estimated = estimated_curve(cell, fpr)
        if estimated is not None:
            draw_estimate(ax, fpr, height(estimated), at, (7 * at % 40, 40))
            kinds |= {ESTIMATE, (name,)}
        points = certified_points(cell)
        if points:
            corners = np.array(points)
            draw_bound(ax, fpr, height(np.interp(fpr, corners[:, 0], corners[:, 1])), at, zorder=3)
            x, y = corners[(corners[:, 0] > 0) & (corners[:, 1] > 0)].T
            marks = {"marker": named(at).marker, "markersize": 3, "ls": "none", "zorder": 3.2}
            draw_bound(ax, x, height(y), at, **marks)
            kinds |= {CERTIFIED, (name,)}
    return kinds
