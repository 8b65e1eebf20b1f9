"""Figures of trade-off curves and privacy profiles."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy import special

from dpframe.common.types import Floats
from dpframe.report.figures import drawing, scales
from dpframe.report.figures.drawing import CLAIMED, COUNTED, FAINT, TRUTH, Picture, Sign, named
from dpframe.report.figures.points import by_setting, one_release
from dpframe.report.number_format import number, percent, quantity
from dpframe.report.scores import bound_of, canaries, certified_rows
from dpframe.results.model import CellRecord, ClaimRecord, Record, TruthRecord
from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.tradeoff import (
    LARGEST_EPSILON,
    certified_delta,
    matching_mu,
    tradeoff_hull,
    tradeoff_of_profile,
)

Curve = Callable[[Floats], Floats]  # false-negative rates, or δ at each ε
Corners = list[tuple[float, float]]

MOST_LINES = 8
MOST_PROFILES, MOST_TRADEOFFS, MOST_SCORES = 6, 4, 4  # panels, settings, estimators
LEAST_RATE = 1e-6  # smallest δ or rate on logarithmic axes, unless no rate is so small
NEAREST = 1e-15  # rates differ from 0 and 1 by at least this
EVERY = 0.15  # distance of the signs on a curve, as a share of the panel's diagonal
GAUSSIAN = ("gdp", "gdp-fit")  # estimators that assume a Gaussian mechanism


class Subject(NamedTuple):
    """A mechanism with its parameters, behind one attack.

    It has one cell for each estimator, the one with the largest bound if δ or a parameter is swept.
    If nothing is certified, it has one for each swept value of the estimator's parameters.
    """

    title: str
    cells: tuple[CellRecord, ...]
    names: tuple[str, ...]  # estimators, each with its swept value if there is one

    @property
    def share(self) -> float:
        """The largest certified ÷ claimed ε."""
        shares = [
            (cell.estimate.epsilon_lower or 0.0) / cell.claim.epsilon
            for cell in self.cells
            if cell.estimate is not None and cell.claim is not None and cell.claim.epsilon > 0
        ]
        return max(shares, default=0.0)


def subjects(record: Record) -> list[Subject]:
    """List the settings with an estimate of one release, in the order of the record."""
    best: dict[tuple[str, ...], dict[str, CellRecord]] = {}
    every: dict[tuple[str, ...], dict[str, CellRecord]] = {}
    titles = {}
    for place in by_setting(record, ("audit.", "estimator.")):
        cells = [c for c in place.spot.done if c.estimate is not None and one_release(c)]
        if not cells:
            continue
        titles[place.key] = place.title
        label, kept = place.group.names[2], best.setdefault(place.key, {})
        kept[label] = max([*([kept[label]] if label in kept else []), *cells], key=_strength)
        own = [key for key in place.rest if key.startswith("estimator.")]
        name = " · ".join([label, *place.spot.texts(own, own)]).replace("_", " ")
        every.setdefault(place.key, {}).setdefault(name, cells[0])
    listed = []
    for key, cells_by_name in every.items():
        certified = any(c.estimate and c.estimate.certified for c in cells_by_name.values())
        shown = best[key] if certified or len(cells_by_name) > MOST_LINES else cells_by_name
        listed.append(Subject(titles[key], tuple(shown.values()), tuple(shown)))
    return listed


def _strength(cell: CellRecord) -> tuple[float, int]:
    estimate = cell.estimate
    return (estimate.epsilon_lower or 0.0, len(estimate.tradeoff)) if estimate else (0.0, 0)


def find_curves(record: Record) -> list[Subject] | str:
    """Return the settings that have curves, or the reason for none."""
    found = subjects(record)
    if not found:
        return "none of its cells has an estimate of one release"
    for cell in (cell for subject in found for cell in subject.cells):
        estimate = cell.estimate
        listed = estimate is not None and (estimate.profile or len(estimate.tradeoff) > 1)
        if listed or certified_points(cell) or gaussian_mu(cell) is not None:
            return found
    return "no estimate of it has a curve or certified points"


def _foremost(picture: Picture, found: list[Subject], most: int) -> list[Subject]:
    """Choose the subjects with the largest shares, in the order of the record.

    Mechanisms take turns, because one of them may lead in all of its settings.
    """
    picture.leave_out(len(found) - most, "setting")
    turns: Counter[str] = Counter()
    ranked = []
    for index in sorted(range(len(found)), key=lambda index: -found[index].share):
        mechanism = found[index].cells[0].mechanism.label
        ranked.append((turns[mechanism], index))
        turns[mechanism] += 1
    chosen = sorted(ranked, key=lambda place: place[0])[:most]
    return [found[index] for index in sorted(index for _, index in chosen)]


# Curves and profiles of claims and truths.


class Reference(NamedTuple):
    """A claimed or exact curve; None for a profile that is unknown."""

    tradeoff: Curve  # from false-positive to false-negative rates
    profile: Curve | None  # from ε to δ


def references(cell: CellRecord) -> dict[Sign, Reference]:
    """Return the claimed curve and the exact one, if it is known and not the claimed one."""
    claim, truth = cell.claim, cell.truth
    found: dict[Sign, Reference] = {}
    if claim is not None:
        own = numbers_in(claim.parameters, "epsilon", "delta")  # its δ need not be the cell's
        found[CLAIMED] = _recorded(claim, *(own or (claim.epsilon, claim.delta)))
    if truth is not None:
        pure = truth.kind == "pure-dp" and (claim is None or claim.epsilon != truth.epsilon)
        if truth.tradeoff or pure:
            found[TRUTH] = _recorded(truth, truth.epsilon, 0.0)
    return found


def _recorded(of: ClaimRecord | TruthRecord, epsilon: float, delta: float) -> Reference:
    """Return the recorded curve, or that of (ε, δ) if there is none."""
    if not of.tradeoff:
        return pair_curve(epsilon, delta)
    return Reference(_through(of.tradeoff), _between(of.profile) if of.profile else None)


def pair_curve(epsilon: float, delta: float) -> Reference:
    """Return the curve of (ε, δ)-DP [Dong2022, proposition 2.5] and the profile of its corner."""
    finite = min(epsilon, LARGEST_EPSILON)
    corner = (1 - delta) / (1 + math.exp(finite))
    return Reference(
        lambda fpr: tradeoff_of_profile(fpr, [finite], [delta]),
        lambda epsilons: np.maximum(1 - (1 + np.exp(epsilons)) * corner, delta),
    )


def numbers_in(parameters: Mapping[str, Any], *names: str) -> tuple[float, ...]:
    """Return some parameters of a claim; () if one is missing or not a number."""
    try:
        return tuple(float(parameters[name]) for name in names)
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()


def _through(points: Iterable[Sequence[float]]) -> Curve:
    """Return the curve through recorded points (FPR, FNR), ends included.

    It is interpolated in the normal quantiles of both rates: points may lie decades apart.
    """
    xs, ys = np.array(sorted((x, y) for x, y in points if math.isfinite(x + y)), float).T
    inner = (xs > 0) & (xs < 1) & (ys > 0) & (ys < 1)
    if not inner.any():
        return lambda fpr: np.asarray(np.interp(fpr, xs, ys))
    zx, zy = special.ndtri(xs[inner]), special.ndtri(ys[inner])

    def at(fpr: Floats) -> Floats:
        z = special.ndtri(np.clip(fpr, NEAREST, 1 - NEAREST))
        # Beyond the inner points the distance from guessing is kept: a Gaussian curve is exact.
        beyond = z - np.clip(z, zx[0], zx[-1])
        curve = special.ndtr(np.interp(z, zx, zy) - beyond)
        return np.asarray(np.minimum(curve, np.interp(fpr, xs, ys)))  # convex: no chord is below it

    return at


def _between(profile: Iterable[Sequence[float]]) -> Curve:
    """Return ln δ interpolated linearly between recorded points; NaN beyond the last."""
    places, deltas = np.array(profile, float).T
    logs = np.log(np.maximum(deltas, 1e-300))
    return lambda e: np.where(e <= places[-1], np.exp(np.interp(e, places, logs)), np.nan)


# Curves and profiles of estimates.


def corners(listed: Iterable[Sequence[float]]) -> Corners:
    """Return the lower convex hull of points better than guessing, by ascending FPR, or []."""
    points = [(x, y) for x, y in listed if math.isfinite(x + y) and x + y < 1]
    return tradeoff_hull(points) if points else []


def certified_points(cell: CellRecord) -> Corners:
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
    if profile := _finite(estimate.profile):
        epsilons, deltas = np.array(profile).T
        return tradeoff_of_profile(fpr, epsilons, np.clip(deltas, 0, 1))
    if not estimate.certified and len(points := _finite(estimate.tradeoff)) > 1:
        return np.asarray(np.interp(fpr, *np.array(points).T))
    return None


def _estimated_profile(cell: CellRecord, epsilons: Floats) -> list[tuple[float, float]]:
    """Return points (ε, δ) of an estimate, by ascending ε."""
    if (mu := gaussian_mu(cell)) is not None:
        below = np.exp(epsilons + special.log_ndtr(-mu / 2 - epsilons / mu))
        deltas = special.ndtr(mu / 2 - epsilons / mu) - below
        return list(zip(epsilons.tolist(), deltas.tolist(), strict=True))
    return _finite(cell.estimate.profile) if cell.estimate is not None else []


def _finite(points: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
    return sorted((x, y) for x, y in points if math.isfinite(x + y) and x >= 0)


# The figures.


def draw_profile(picture: Picture, found: list[Subject]) -> None:
    """Draw a privacy profile, δ against ε, in a panel for each mechanism."""
    shown = _foremost(picture, found, MOST_PROFILES)
    axes = picture.grid([s.title for s in shown], "ε", "δ", height=2.1, shared=False)
    places = _places(shown)
    for ax, subject in zip(axes, shown, strict=True):
        epsilons = np.linspace(0, _largest_epsilon(subject), 240)
        for sign, reference in references(subject.cells[0]).items():
            if reference.profile is not None:
                picture.add(sign, ax.plot, epsilons, _in_sight(reference.profile(epsilons)))
        bounds = [certified_profile(cell, epsilons) for cell in subject.cells]
        if known := [bound for bound in bounds if bound is not None]:
            best = _in_sight(np.maximum.reduce(known))
            ax.fill_between(epsilons, LEAST_RATE / 2, best, color=FAINT, alpha=0.55, lw=0, zorder=1)
        for name, cell, bound in zip(subject.names, subject.cells, bounds, strict=True):
            if len(profile := _estimated_profile(cell, epsilons)) > 1:
                xs, deltas = np.array(profile).T
                _draw_estimate(picture, ax, xs, _in_sight(deltas), name, places[name])
            if bound is not None:
                marks = {"marker": named(places[name]).marker, "markevery": EVERY}
                _draw_bound(picture, ax, epsilons, _in_sight(bound), name, places[name], **marks)
        ax.set(yscale="log", ylim=(LEAST_RATE, 1.3), xlim=(0, epsilons[-1]))
        scales.fix_ticks(ax.yaxis, [10.0**p for p in range(round(math.log10(LEAST_RATE)), 1)])


def _places(shown: list[Subject]) -> dict[str, int]:
    """Return the index of each estimator, which gives it its look."""
    names = dict.fromkeys(name for subject in shown for name in subject.names)
    return {name: place for place, name in enumerate(names)}


def _in_sight(deltas: Floats) -> Floats:
    """Lift what is 0, which has no place on a logarithmic axis, to just below its end."""
    return np.maximum(deltas, LEAST_RATE / 10)


def _draw_estimate(picture: Picture, ax: Axes, x: Floats, y: Floats, name: str, at: int) -> None:
    """Draw the estimate of an estimator: dotted, with empty signs."""
    start = EVERY / 2 + EVERY / 5 * (at % 3)  # so that signs of near lines stand apart
    ax.plot(x, y, lw=0.9, markevery=(start, EVERY), **named(at).estimate)
    picture.name(name, **named(at).sign)
    picture.name(drawing.ESTIMATE)


def _draw_bound(
    picture: Picture, ax: Axes, x: Floats, y: Floats, name: str, at: int, **marks: Any
) -> None:
    """Draw a certified curve: a line, and full signs if `marks` say so."""
    ax.plot(x, y, color=named(at).color, **{"lw": 1.1, "zorder": 3.1, **marks})
    picture.name(name, **named(at).sign)
    picture.name(drawing.AT_LEAST)


def _largest_epsilon(subject: Subject) -> float:
    ends = [1e-3]
    for cell in subject.cells:
        if (estimate := cell.estimate) is not None:
            ends += [e for e, _ in estimate.profile_lower[-1:]]
            ends += [e for e, delta in estimate.profile if delta > LEAST_RATE]
            ends.append(estimate.epsilon_lower or 0.0)
        ends += [v.epsilon for v in (cell.claim, cell.truth) if v is not None]
    return 1.1 * max(end for end in ends if math.isfinite(end))


def draw_tradeoff(picture: Picture, found: list[Subject]) -> None:
    """Draw two panels for each mechanism: linear axes, and logarithmic axes for rare errors."""
    shown = _foremost(picture, found, MOST_TRADEOFFS)
    places = _places(shown)
    titles = [title for subject in shown for title in (subject.title, "")]
    # A single pair of panels is as wide as the page; several pairs stand two in a row.
    across, height = (2, 2.7) if len(shown) == 1 else (4, 2.1)
    axes = picture.grid(titles, across=across, height=height, shared=False)
    for subject, *pair in zip(shown, axes[::2], axes[1::2], strict=True):
        points = [certified_points(cell) for cell in subject.cells]
        fpr = _set_rates(pair, [x for certified in points for x, _ in certified], most=4)
        for sign, reference in references(subject.cells[0]).items():
            for ax, x, y in _both_ways(pair, fpr, reference.tradeoff(fpr)):
                picture.add(sign, ax.plot, x, y)
        for name, cell, certified in zip(subject.names, subject.cells, points, strict=True):
            if (estimated := estimated_curve(cell, fpr)) is not None:
                for ax, x, y in _both_ways(pair, fpr, estimated):
                    _draw_estimate(picture, ax, x, y, name, places[name])
            _draw_corners(picture, pair, certified, fpr, name, places[name])


def _set_rates(pair: Sequence[Axes], known: Iterable[float], most: int) -> Floats:
    """Set linear and logarithmic axes, draw the lines of guessing, and return rates to draw at.

    The logarithmic axes begin at a power of ten below the `known` rates; `most` labels fit.
    """
    left, right = pair
    left.plot([0, 1], [1, 0], color=FAINT, lw=0.6, zorder=0.5)
    left.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="false-negative rate")
    lowest = min((rate for rate in known if rate > 0), default=1e-3)
    decades = math.ceil(-math.log10(min(max(lowest, LEAST_RATE), 1e-2)))
    least = 10.0**-decades
    right.plot([least, 1], [least, 1], color=FAINT, lw=0.6, zorder=0.5)
    right.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.15))
    right.set(xlabel="false-positive rate", ylabel="true-positive rate")
    step = math.ceil((decades + 1) / most)
    for axis in (right.xaxis, right.yaxis):
        scales.fix_ticks(axis, [10.0**-p for p in range(0, decades + 1, step)][::-1])
    rare, common = np.geomspace(least / 10, 0.02, 200), np.linspace(0.02, 1, 200)
    return np.concatenate([[0.0], rare, common[1:]])


def _both_ways(
    pair: Sequence[Axes], fpr: Floats, fnr: Floats
) -> tuple[tuple[Axes, Floats, Floats], ...]:
    """Return false negatives for linear axes, and true positives for logarithmic ones."""
    return (pair[0], fpr, fnr), (pair[1], fpr, np.maximum(1 - fnr, 1e-12))


def _draw_corners(
    picture: Picture, pair: Sequence[Axes], certified: Corners, fpr: Floats, name: str, at: int
) -> None:
    """Draw certified corners (FPR, FNR), and the line through them."""
    if not certified:
        return
    points = np.array(certified)
    for ax, x, y in _both_ways(pair, fpr, np.interp(fpr, *points.T)):
        _draw_bound(picture, ax, x, y, name, at, lw=1.0, zorder=3)
    marks = {"marker": named(at).marker, "markersize": 3, "ls": "none", "zorder": 3.2}
    for ax, x, y in _both_ways(pair, *points[(points > 0).all(axis=1)].T):
        _draw_bound(picture, ax, x, y, name, at, **marks)


def draw_scores(picture: Picture, found: Mapping[str, Any]) -> None:
    """Draw trade-off and ROC from the answer of `dpframe.score` or `dpframe.score_one_run`.

    Bounds of canaries at a δ above 0 are drawn over δ, in a third panel.
    """
    rows = sorted(certified_rows(found), key=bound_of, reverse=True)
    certified = [(r["estimator"]["label"], corners(r["estimate"]["tradeoff"])) for r in rows]
    certified = [(name, points) for name, points in certified if points][:MOST_SCORES]
    counted = np.array(found["scores"]["roc"], float).reshape(-1, 2)
    bounds = delta_bounds(found)
    axes = picture.grid(["", *["", ""][: 2 if bounds else 1]], height=2.4, shared=False)
    pair = axes[:2]
    known = [*counted[:, 0], *(x for _, points in certified for x, _ in points)]
    fpr = _set_rates(pair, known, most=9)
    if (claim := found["claim"]) is not None:
        given = claim["parameters"]
        if claim["kind"] in ("pure-dp", "approx-dp"):
            curve = pair_curve(given["epsilon"], given.get("delta", 0.0)).tradeoff
        else:
            curve = _through(claim["tradeoff"])
        for ax, x, y in _both_ways(pair, fpr, curve(fpr)):
            picture.add(CLAIMED, ax.plot, x, y)
    for ax, x, y in _both_ways(pair, counted[:, 0], 1 - counted[:, 1]):
        picture.add(COUNTED, ax.step, x, y, where="post", zorder=1.5)
    for at, (name, points) in enumerate(certified):
        _draw_corners(picture, pair, points, fpr, name, at)
    if bounds:
        _draw_over_delta(picture, axes[2], found, bounds)
    what, *rest = _sentences(found, bool(certified))
    picture.finish(what, OVER_DELTA if bounds else "", *rest)


def delta_bounds(found: Mapping[str, Any]) -> dict[str, Corners]:
    """Return bounds (δ, ε) of canaries at each δ above 0, by ascending δ, for each estimator."""
    listed = {}
    for row in certified_rows(found)[:MOST_SCORES]:
        bounds = ((b["delta"], number(b["epsilon_lower"]) or 0.0) for b in row.get("bounds", ()))
        if points := sorted((d, e) for d, e in bounds if d > 0 and math.isfinite(e)):
            listed[row["estimator"]["label"]] = points
    return listed


def _draw_over_delta(
    picture: Picture, ax: Axes, found: Mapping[str, Any], bounds: Mapping[str, Corners]
) -> None:
    """Draw bounds on ε over δ, and those of a Gaussian mechanism if scores are independent."""
    known = [delta for points in bounds.values() for delta, _ in points]
    least, most = min(known) / 30, min(30 * max(known), 0.5)
    deltas = np.geomspace(least, most, 100)
    any_mechanism = "" if found["audit"].get("assume") else ": any mechanism, any dependence"
    for at, (name, points) in enumerate(bounds.items()):
        xs, ys = np.array(points).T
        heights = np.maximum.accumulate(ys[::-1])[::-1]  # a bound at δ holds at each smaller δ
        ax.step([least, *xs], [heights[0], *heights], color=named(at).color)
        marks = {"marker": named(at).marker, "ls": "none"}
        _draw_bound(picture, ax, xs, ys, name + any_mechanism, at, **marks)
    if (own := found.get("independent")) and own["mu_lower"]:
        epsilons = [gaussian_epsilon(delta, own["mu_lower"]) for delta in deltas]
        label = "Gaussian mechanism, independent scores"
        if own["supported"] is False:
            label += " (not supported)"
        look = named(MOST_SCORES)
        picture.add(label, ax.plot, deltas, epsilons, color=look.color, ls=look.dashes, lw=1.3)
    if (claim := found["claim"]) is not None:
        given = claim["parameters"]
        stated = numbers_in(given, "epsilon", "delta") or numbers_in(claim, "epsilon", "delta")
        epsilon, delta = stated or (math.inf, 0.0)
        if mu := numbers_in(given, "mu"):
            picture.add(CLAIMED, ax.plot, deltas, [gaussian_epsilon(d, *mu) for d in deltas])
        elif delta > 0 and math.isfinite(epsilon):
            ax.plot([delta], [epsilon], **drawing.CLAIMED_ONCE.look)
            picture.name("claimed ε at its δ", **drawing.CLAIMED_ONCE.look)
    ax.set(xscale="log", xlim=(least, most), xlabel="δ", ylabel="bound on ε")
    ax.set_ylim(bottom=0)
    decades = scales.decades(least, most)
    scales.fix_ticks(ax.xaxis, decades[:: 1 + len(decades) // 4])


OVER_DELTA = (
    "Third panel: bounds on ε over δ; a bound at one δ holds at every smaller one. That of a "
    "Gaussian mechanism with independent scores has a confidence of its own."
)


def _sentences(found: Mapping[str, Any], certified: bool) -> list[str]:
    """Return the caption of a figure of scores."""
    scores = found["scores"]
    if "in" in scores:
        inside, outside = scores["in"], scores["out"]
        names = inside["name"].removesuffix(", in")
        if names != outside["name"].removesuffix(", out"):
            names = f"{inside['name']} and {outside['name']}"
        sizes = (
            f"{quantity(inside['scores'])} scores with the record, "
            f"{quantity(outside['scores'])} without"
        )
    else:
        names = scores["name"]
        sizes = f"{canaries(scores)}, {quantity(scores['members'])} of them in"
    bound = "Estimates only: nothing here is certified."
    if certified:
        bound = (
            "The mechanism's curve runs through each certified point or below it, on the right "
            "above it, for each estimator alone with "
            f"{percent(found['audit']['confidence'])} confidence."
        )
    elif certified_rows(found):
        bound = "No point of the curve is certified, only ε at this δ."
    return [
        f"{drawing.shorten(names, 80)}: {sizes}. False-negative rate against false-positive rate; "
        "beside it, true-positive rate on logarithmic axes.",
        "The thin grey line shows the rates of thresholds on these scores; it is not a bound.",
        bound,
        drawing.NO_PROOF if found["refuted"] is False else "Other scores may show more.",
    ]
