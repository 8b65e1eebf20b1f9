"""Figures of trade-off curves and privacy profiles."""

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy import special

from dpframe.common.types import Floats
from dpframe.report.figures import drawing, scales
from dpframe.report.figures.drawing import CERTIFIED, ESTIMATE, FAINT, Picture, named
from dpframe.report.group import groups, same, telling
from dpframe.results.model import CellRecord, ClaimRecord, Record, TruthRecord
from dpframe.stats.tradeoff import (
    certified_delta,
    matching_mu,
    tradeoff_hull,
    tradeoff_of_profile,
)

At = Callable[[float], float]

MOST_LINES = 8
GAUSSIAN = ("gdp", "gdp-fit")  # estimators that assume a Gaussian mechanism


class Subject(NamedTuple):
    """A mechanism with its parameters, behind one attack.

    It has one cell for each estimator, the one with the largest bound if δ or a parameter is swept.
    If nothing is certified, it has one for each swept value of the estimator's parameters.
    """

    title: str
    cells: tuple[CellRecord, ...]
    names: tuple[str, ...]  # estimators, each with its swept value if there is one


def subjects(record: Record) -> list[Subject]:
    """List the settings with an estimate of one release, in the order of the record."""
    found = groups(record.cells)
    several = 1 in telling(found)
    kept: dict[tuple[str, ...], dict[str, CellRecord]] = {}
    varied: dict[tuple[str, ...], dict[str, CellRecord]] = {}
    titles = {}
    for group in found:
        for spot in group.spots:
            released_once = [c for c in spot.done if c.estimator.params.get("compositions", 1) == 1]
            cells = [cell for cell in released_once if cell.estimate is not None]
            if not cells:
                continue
            keys = [k for k in spot.values if not k.startswith(("audit.", "estimator."))]
            who = (group.names[0], group.names[1], *(same(spot.values[k]) for k in keys))
            names = [*group.names[: 2 if several else 1], *spot.texts(keys, keys)]
            titles[who] = drawing.shorten(" · ".join(names), 44)
            best, label = kept.setdefault(who, {}), group.names[2]
            best[label] = max([*([best[label]] if label in best else []), *cells], key=_strength)
            own = [k for k in spot.values if k.startswith("estimator.")]
            name = " · ".join([label, *spot.texts(own, own)]).replace("_", " ")
            varied.setdefault(who, {}).setdefault(name, cells[0])
    listed = []
    for who, best in kept.items():
        every = varied[who]
        certified = any(c.estimate is not None and c.estimate.certified for c in every.values())
        shown = best if certified or len(every) > MOST_LINES else every
        listed.append(Subject(titles[who], tuple(shown.values()), tuple(shown)))
    return listed


def find_curves(record: Record) -> list[Subject] | str:
    """Return the settings that have curves, or the reason for none."""
    found = subjects(record)
    if not found:
        return "none of its cells has an estimate of one release"
    cells = [cell for subject in found for cell in subject.cells]
    listed = any(c.estimate and (c.estimate.profile or len(c.estimate.tradeoff) > 1) for c in cells)
    if not listed and not any(certified_points(c) or gaussian_mu(c) is not None for c in cells):
        return "no estimate of it has a curve or certified points"
    return found


def _foremost(found: list[Subject], most: int) -> list[Subject]:
    """Choose the subjects with the largest certified ÷ claimed ε, in the order of the record.

    Mechanisms take turns, because one of them may lead in all of its settings.
    """
    order = sorted(range(len(found)), key=lambda index: -_largest_share(found[index]))
    turns: Counter[str] = Counter()
    ranked = []
    for index in order:
        mechanism = found[index].cells[0].mechanism.label
        ranked.append((turns[mechanism], index))
        turns[mechanism] += 1
    ranked.sort(key=lambda place: place[0])
    return [found[index] for index in sorted(index for _, index in ranked[:most])]


def _largest_share(subject: Subject) -> float:
    shares = [
        (cell.estimate.epsilon_lower or 0.0) / cell.claim.epsilon
        for cell in subject.cells
        if cell.estimate is not None and cell.claim is not None and cell.claim.epsilon > 0
    ]
    return max(shares, default=0.0)


def _strength(cell: CellRecord) -> tuple[float, int]:
    estimate = cell.estimate
    assert estimate is not None
    return estimate.epsilon_lower or 0.0, len(estimate.tradeoff)


def _curve_of(of: ClaimRecord | TruthRecord, delta: float) -> At:
    """Return the trade-off function of a claim or a truth."""
    if of.tradeoff:
        return curve_through((x, y) for x, y in of.tradeoff if math.isfinite(x + y))
    return pair_curve(of.epsilon, delta)


NEAREST = 1e-15  # rates differ from 0 and 1 by at least this


def curve_through(points: Iterable[tuple[float, float]]) -> At:
    """Return the claimed FNR at a false-positive rate, from recorded points (FPR, FNR).

    Between recorded points the curve is drawn as that of two normal distributions, which is a
    straight line in the quantiles of both rates: recorded points may lie decades apart.
    """
    known = sorted(points)
    places = [x for x, _ in known]

    def at(fpr: float) -> float:
        right = min(max(bisect.bisect_left(places, fpr), 1), len(places) - 1)
        (x0, y0), (x1, y1) = known[right - 1 : right + 1]
        if not x0 < fpr < x1:
            return y1 if fpr >= x1 else y0
        if x0 > 0 and x1 < 1 and y1 > 0 and y0 < 1:
            share = (_quantile(fpr) - _quantile(x0)) / (_quantile(x1) - _quantile(x0))
            between = _quantile(y0) + share * (_quantile(y1) - _quantile(y0))
            return float(special.ndtr(between))
        # Beyond the last inner point its distance in quantiles is kept, up to the end point.
        x, y = (x1, y1) if x0 <= 0 or y0 >= 1 else (x0, y0)
        distance = -_quantile(x) - _quantile(y)
        return min(max(float(special.ndtr(-_quantile(fpr) - distance)), y1), y0)

    return at


def _quantile(probability: float) -> float:
    return float(special.ndtri(min(max(probability, NEAREST), 1 - NEAREST)))


def corners(listed: Iterable[Iterable[float]]) -> list[tuple[float, float]]:
    """Return the lower convex hull of points better than guessing, by ascending FPR, or []."""
    points = [(x, y) for x, y in listed if math.isfinite(x + y) and x + y < 1]
    return tradeoff_hull(points) if points else []


def pair_curve(epsilon: float, delta: float) -> At:
    """Return the trade-off function of (ε, δ)-DP [Dong2022, proposition 2.5]."""
    growth = math.exp(min(epsilon, 700.0))
    return lambda x: max(0.0, 1 - delta - growth * x, (1 - delta - x) / growth)


def numbers_in(parameters: Mapping[str, Any], *names: str) -> tuple[float, ...]:
    """Return some parameters of a claim; () if one is missing or not a number."""
    try:
        return tuple(float(parameters[name]) for name in names)
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()


def claimed_curve(cell: CellRecord) -> At | None:
    """Return the claimed curve, if there is a claim."""
    claim = cell.claim
    if claim is None:
        return None
    if claim.tradeoff is None and (own := numbers_in(claim.parameters, "epsilon", "delta")):
        return pair_curve(*own)  # at its own δ, which need not be the cell's
    return _curve_of(claim, claim.delta)


def exact_curve(cell: CellRecord) -> At | None:
    """Return the exact curve, if it is known and not the claimed one."""
    truth, claim = cell.truth, cell.claim
    if truth is None:
        return None
    if truth.tradeoff:
        return _curve_of(truth, 0.0)
    if truth.kind != "pure-dp" or (claim is not None and claim.epsilon == truth.epsilon):
        return None  # the claimed curve
    return pair_curve(truth.epsilon, 0.0)


def claimed_profile(cell: CellRecord, epsilons: Floats) -> Floats | None:
    """Return the claimed δ at each ε; None if it is unknown."""
    claim = cell.claim
    if claim is None:
        return None
    if claim.profile:
        return _interpolate(claim.profile, epsilons)
    if own := numbers_in(claim.parameters, "epsilon", "delta"):
        return _pair_profile(own[0], own[1], epsilons)
    return _pair_profile(claim.epsilon, claim.delta, epsilons) if claim.tradeoff is None else None


def exact_profile(cell: CellRecord, epsilons: Floats) -> Floats | None:
    """Return the exact δ at each ε, if it is known and not the claimed one."""
    truth = cell.truth
    if truth is None or exact_curve(cell) is None:
        return None
    if truth.profile:
        return _interpolate(truth.profile, epsilons)
    return _pair_profile(truth.epsilon, 0.0, epsilons) if truth.kind == "pure-dp" else None


def _interpolate(profile: list[list[float]], epsilons: Floats) -> Floats:
    """Interpolate ln δ linearly between recorded points; NaN beyond the last."""
    places, deltas = np.array(profile, float).T
    logs = np.interp(epsilons, places, np.log(np.maximum(deltas, 1e-300)))
    return np.where(epsilons <= places[-1], np.exp(logs), np.nan)


def _pair_profile(epsilon: float, delta: float, epsilons: Floats) -> Floats:
    """Return δ(ε) of the curve of (ε, δ)-DP: that of its corner, or δ."""
    corner = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return np.maximum(1 - (1 + np.exp(epsilons)) * corner, delta)


def certified_points(cell: CellRecord) -> list[tuple[float, float]]:
    """Return corners on or above the mechanism's curve, by ascending false-positive rate."""
    estimate = cell.estimate
    return corners(estimate.tradeoff) if estimate is not None and estimate.certified else []


def certified_profile(cell: CellRecord, epsilons: Floats) -> Floats | None:
    """Return the certified δ at each ε; None if there is none.

    The recorded profile and the recorded points of the curve hold together, at one confidence.
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
    """Return μ of the curve that a Gaussian estimator assumes, from ε at δ; None for others."""
    estimate = cell.estimate
    if cell.estimator.use not in GAUSSIAN or estimate is None or not 0 < estimate.delta < 1:
        return None
    if not 0 < estimate.epsilon < math.inf:
        return None
    return float(matching_mu(estimate.epsilon, estimate.delta))


def estimated_curve(cell: CellRecord, fpr: Floats) -> Floats | None:
    """Return the false-negative rates of the estimated profile, else of estimated points."""
    estimate = cell.estimate
    if estimate is None:
        return None
    if (mu := gaussian_mu(cell)) is not None:
        return np.asarray(special.ndtr(-special.ndtri(fpr) - mu))
    profile = [(e, d) for e, d in estimate.profile or [] if math.isfinite(e + d) and e >= 0]
    if profile:
        epsilons, deltas = np.array(profile).T
        return tradeoff_of_profile(fpr, epsilons, np.clip(deltas, 0, 1))
    if not estimate.certified and len(estimate.tradeoff) > 1:
        xs, ys = np.array(sorted((x, y) for x, y in estimate.tradeoff if math.isfinite(x + y))).T
        return np.asarray(np.interp(fpr, xs, ys))
    return None


def _estimated_profile(cell: CellRecord, epsilons: Floats) -> list[tuple[float, float]]:
    """Return points (ε, δ) of an estimate, by ascending ε."""
    estimate = cell.estimate
    if (mu := gaussian_mu(cell)) is not None:
        deltas = special.ndtr(mu / 2 - epsilons / mu) - np.exp(
            epsilons + special.log_ndtr(-mu / 2 - epsilons / mu)
        )
        return list(zip(epsilons.tolist(), deltas.tolist(), strict=True))
    listed = estimate.profile if estimate is not None else []
    return sorted((e, d) for e, d in listed if math.isfinite(e + d) and e >= 0)


MOST = 6  # panels of profiles
LEAST = 1e-6  # smallest δ that is drawn


def draw_profile(record: Record, found: list[Subject]) -> Picture:
    """Draw a privacy profile, δ against ε, in a panel for each mechanism."""
    shown = _foremost(found, MOST)
    labels = list(dict.fromkeys(name for s in shown for name in s.names))
    picture, axes = drawing.grid(len(shown), height=2.1, shared=False)
    kinds: set[object] = set()
    for ax, subject in zip(axes, shown, strict=True):
        kinds |= _profile_panel(ax, subject, labels)
    drawing.name_axes(axes, "ε", "δ")
    return drawing.finish(
        picture,
        drawing.curve_key(labels, kinds),
        record,
        f"Privacy profiles of {drawing.audit_name(record)}: δ against ε. The mechanism's "
        "profile is nowhere below the certified one.",
        drawing.promise(record),
        drawing.more(len(found) - len(shown), "setting"),
    )


def _profile_panel(ax: Axes, subject: Subject, labels: list[str]) -> set[object]:
    ax.set_title(drawing.shorten(subject.title, 40))
    epsilons = np.linspace(0, _largest_epsilon(subject), 240)

    def shown(deltas: Floats | None) -> Any:
        return None if deltas is None else np.maximum(deltas, LEAST / 10)  # out of sight

    first = subject.cells[0]
    claimed, exact = shown(claimed_profile(first, epsilons)), shown(exact_profile(first, epsilons))
    kinds: set[object] = {*drawing.draw_references(ax, epsilons, claimed, exact)}
    bounds = [certified_profile(cell, epsilons) for cell in subject.cells]
    if known := [bound for bound in bounds if bound is not None]:
        best = shown(np.maximum.reduce(known))
        ax.fill_between(epsilons, LEAST / 2, best, color=FAINT, alpha=0.55, lw=0, zorder=1)
    for name, cell, bound in zip(subject.names, subject.cells, bounds, strict=True):
        at = labels.index(name)
        profile = _estimated_profile(cell, epsilons)
        every = max(1, len(profile) // 6)
        if len(profile) > 1:
            places, deltas = np.array(profile).T
            drawing.draw_estimate(ax, places, shown(deltas), at, (at % every, every))
            kinds |= {ESTIMATE, (name,)}
        if bound is not None:
            marks = {"marker": named(at).marker, "markevery": (11 * at % 40, 40), "lw": 1.1}
            drawing.draw_bound(ax, epsilons, shown(bound), at, **marks)
            kinds |= {CERTIFIED, (name,)}
    ax.set(yscale="log", ylim=(LEAST, 1.3), xlim=(0, epsilons[-1]))
    scales.log_ticks(ax.yaxis, [10.0**p for p in range(round(math.log10(LEAST)), 1)])
    return kinds


def _largest_epsilon(subject: Subject) -> float:
    ends = [1e-3]
    for cell in subject.cells:
        if (estimate := cell.estimate) is not None:
            ends += [p[0] for p in estimate.profile_lower[-1:]]
            ends += [e for e, d in estimate.profile if d > LEAST]
            ends.append(estimate.epsilon_lower or 0.0)
        ends += [v.epsilon for v in (cell.claim, cell.truth) if v is not None]
    return 1.1 * max(end for end in ends if math.isfinite(end))


MOST_TRADEOFF = 4  # settings with trade-off curves
LEAST_TRADEOFF = 1e-6  # smallest rate on logarithmic axes, unless nothing is so small


def draw_tradeoff(record: Record, found: list[Subject]) -> Picture:
    """Draw two panels for each mechanism: linear axes, and logarithmic axes for rare errors."""
    shown = _foremost(found, MOST_TRADEOFF)
    labels = list(dict.fromkeys(name for s in shown for name in s.names))
    # A single pair of panels is as wide as the page; several pairs stand two in a row.
    rows, across = (1, 1) if len(shown) == 1 else (math.ceil(len(shown) / 2), 2)
    picture = drawing.new(drawing.PAGE, (2.9 if across == 1 else 2.1) * rows + 0.3)
    axes = picture.subplots(rows, 2 * across, squeeze=False).reshape(-1, 2)
    for spare in axes[len(shown) :].ravel():
        spare.set_axis_off()
    linear = np.concatenate([[0.0], np.geomspace(1e-9, 0.02, 60), np.linspace(0.02, 1, 200)[1:]])
    kinds: set[object] = set()
    for (left, right), subject in zip(axes, shown, strict=False):
        left.set_title(subject.title)
        kinds |= _draw_curves(left, subject, labels, linear, power=False)
        linear_rates(left)
        least = least_rate([x for c in subject.cells for x, _ in certified_points(c) if x > 0])
        _draw_curves(right, subject, labels, np.geomspace(least, 1, 240), power=True)
        logarithmic_rates(right, least, most=4)
    return drawing.finish(
        picture,
        drawing.curve_key(labels, kinds),
        record,
        f"Trade-off curves of {drawing.audit_name(record)}: false-negative rate against "
        "false-positive rate; on the right, the true-positive rate, where a higher curve means "
        "more loss. The mechanism's curve runs through each certified point or below it, on the "
        "right above it.",
        drawing.promise(record),
        drawing.more(len(found) - len(shown), "setting"),
    )


def least_rate(known: list[float]) -> float:
    """Return the power of ten at which a logarithmic axis of these rates begins."""
    lowest = min(max(min(known, default=1e-3), LEAST_TRADEOFF), 1e-2)
    return float(10 ** np.floor(np.log10(lowest)))


def linear_rates(ax: Axes) -> None:
    """Set the linear axes of a trade-off, and draw the line of guessing."""
    ax.plot([0, 1], [1, 0], color=FAINT, lw=0.6, zorder=0.5)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="false-negative rate")


def logarithmic_rates(ax: Axes, least: float, most: int = 9) -> None:
    """Set the logarithmic axes of an ROC, and draw the line of guessing.

    `least` is the smallest rate, a power of 10; `most` is the number of labels that fit.
    """
    ax.plot([least, 1], [least, 1], color=FAINT, lw=0.6, zorder=0.5)
    ax.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.15))
    ax.set(xlabel="false-positive rate", ylabel="true-positive rate")
    decades = round(-np.log10(least))
    for axis in (ax.xaxis, ax.yaxis):
        step = math.ceil((decades + 1) / most)
        scales.log_ticks(axis, [10.0**-p for p in range(0, decades + 1, step)][::-1])


def _draw_curves(
    ax: Axes, subject: Subject, labels: list[str], fpr: Floats, *, power: bool
) -> set[object]:
    """Draw all curves; return the styles in use, as `drawing.curve_key` takes them."""
    height, first = partial(rates, power=power), subject.cells[0]
    claimed, exact = (
        None if curve is None else height(np.array([curve(float(x)) for x in fpr]))
        for curve in (claimed_curve(first), exact_curve(first))
    )
    kinds: set[object] = {*drawing.draw_references(ax, fpr, claimed, exact)}
    for name, cell in zip(subject.names, subject.cells, strict=True):
        at = labels.index(name)
        estimated = estimated_curve(cell, fpr)
        if estimated is not None:
            drawing.draw_estimate(ax, fpr, height(estimated), at, (7 * at % 40, 40))
            kinds |= {ESTIMATE, (name,)}
        if points := certified_points(cell):
            draw_corners(ax, np.array(points), fpr, at, power=power)
            kinds |= {CERTIFIED, (name,)}
    return kinds


def rates(fnr: Floats, *, power: bool) -> Floats:
    """Return false-negative rates, or else true-positive rates on a logarithmic axis (`power`)."""
    return np.maximum(1 - fnr, 1e-12) if power else fnr


def draw_corners(ax: Axes, points: Floats, fpr: Floats, at: int, *, power: bool) -> None:
    """Draw certified corners (FPR, FNR), shape [k, 2], and the line through them."""
    line = np.interp(fpr, points[:, 0], points[:, 1])
    drawing.draw_bound(ax, fpr, rates(line, power=power), at, zorder=3)
    x, y = points[(points > 0).all(axis=1)].T
    marks = {"marker": named(at).marker, "markersize": 3, "ls": "none", "zorder": 3.2}
    drawing.draw_bound(ax, x, rates(y, power=power), at, **marks)
