"""The privacy losses of all noise in two runs with equal noised values."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpframe.plugins import Floats, GaussianDP
from dpframe_trace.noise import UNKNOWN, Call, Key, Site, Tape, Use, plain
from dpframe_trace.report import TOLERANCE, Finding, Line, Trace
from dpframe_trace.runs import Run, TracedPair, amounts, run, silent, texts

QUANTILE_RUNS = 16
"""Runs that show the shape of noise made of uniform numbers."""
QUANTILE_NOISE = 1 << 21
"""Seed of the first of them."""

ROUNDING = 16 * float(np.finfo(np.float32).eps)
"""Relative error of a sum that was computed in 32 bits."""

OPENDP_NOISE = ("make_laplace", "make_gaussian", "make_geometric")
"""Measurements of OpenDP that add noise, whose loss on a pair is known."""


class Losses:
    """The losses of all noise calls in two runs that release equal noised values."""

    def __init__(
        self,
        runs: tuple[Run, Run],
        words: str,
        trace: Trace,
        lines: dict[Site, Line],
        laplace: Mapping[Key, tuple[Floats, Floats]],
    ) -> None:
        """Judge each call of two runs, and add its findings to a trace and its loss to its line.

        Args:
            runs: the runs on D and on D′.
            words: the description of the pair.
            trace: the trace.
            lines: its lines, by site; new ones are added.
            laplace: sums with Laplace noise made of uniform numbers, and its scales on D and D′.
        """
        self._laplace = laplace
        first, second = (run.tape for run in runs)
        self.first, self.second, self._words, self.trace = first, second, words, trace
        self.released = True
        """True if the output contains every noised value that has a loss, unchanged."""
        self._output = {repr(leaf) for leaf in runs[0].leaves.values()}
        self.pure, self.squares = 0.0, 0.0
        self.rounding = 0.0
        """Relative error of a loss that rounding in 32 bits may explain."""
        self.covering: set[Key] = set()
        """Calls whose noise hides a change, and whose results were not compared with anything."""
        self._moves: dict[int, tuple[float, int]] = {}
        """For each draw, the change that it hides, in units of its scale, and the line of the
        sum."""
        self._lines: dict[Site, _Sums] = {}
        self._compared = Counter(
            key for use in first.uses.values() if use.compared for key in use.calls
        )
        for key, call in first.calls.items():
            other = second.calls.get(key)
            if other is not None:
                self._call(call, other)
        for name, use in first.uses.items():
            mate = second.uses.get(name)
            if mate is not None and mate.value.shape == use.value.shape:
                self._use(use, mate)
        for site in {key.site for tape in (first, second) for key in tape.calls}:
            line = lines.setdefault(site, Line(*site))
            line.draws = max(line.draws, *(amounts(tape)[site] for tape in (first, second)))
            sums = self._lines.get(site)
            line.followed = sums is not None or (line.followed and line.sensitivity > 0)
            if sums is not None:
                sums.add_to(line, trace.claim[1])

    def _call(self, call: Call, other: Call) -> None:
        if call.family == "choice":
            one, two = call.law[0], other.law[0]
            alike = one.shape == two.shape and call.law[1] == other.law[1]
            loss = _log_ratio(one, two) if alike else math.nan
            if 0 < loss < math.inf and np.any(_in_32_bits(one) | _in_32_bits(two)):
                self.rounding = max(self.rounding, ROUNDING / loss)
            self._lose(call, loss, result=call.released)
        elif call.declared:
            self._declared(call, other)
        elif call.family == "other":
            if call.odds != other.odds:  # such as weights computed from the data
                self._lose(call, math.nan)
        elif call.loc.shape == other.loc.shape:
            scales = call.scale, other.scale
            if np.any(call.loc != other.loc):
                self._added(call, (call.loc, other.loc), scales, call.result)

    def _use(self, use: Use, mate: Use) -> None:
        call = self.first.calls_of(use.draws)[0]
        if use.key in self._laplace:
            one, two = self._laplace[use.key]
            scales = one, np.where(np.isclose(one, two, rtol=1e-6), one, two)
            made = dataclasses.replace(call, family="laplace")
            self._added(made, (use.value, mate.value), scales, use.result)
        elif not use.compared:
            fresh = ~np.isin(use.draws, list(self._moves))
            scales = use.scale, mate.scale
            self._added(call, (use.value, mate.value), scales, use.result, fresh, use.calls)
            if call.family != "uniform":  # which is often turned into other noise, step by step
                self._reused(use, mate, call)
        elif call.family == "uniform" and not np.array_equal(use.value, mate.value, equal_nan=True):
            if self._compared[call.key] > 1:
                self._lose(call, math.nan)  # such as a search in cumulative probabilities
                return
            with np.errstate(divide="ignore", invalid="ignore"):
                low = np.broadcast_to(call.loc / call.scale, call.shape)
                low = np.ravel(low)[use.draws - call.first]
                one, two = (np.ravel(np.clip(u.value / u.scale - low, 0, 1)) for u in (use, mate))
            if np.isnan(one + two).any():
                self._lose(call, math.nan)
            else:
                self._lose(call, max(_log_ratio(one, two), _log_ratio(1 - one, 1 - two)))

    def _lose(self, call: Call, loss: float, square: float = 0.0, result: Any = None) -> None:
        """Add a loss: ε, or μ² of normal noise; `result` is the noised value, if it is exact."""
        if loss == 0 and square == 0:
            return
        known = result is not None and self._output.issuperset(texts(result))
        self.released = self.released and known
        if not call.compared and call.family not in ("uniform", "other"):
            self.covering.add(call.key)
        self.pure, self.squares = self.pure + loss, self.squares + square
        sums = self._sums(call)
        sums.pure, sums.square = sums.pure + loss, sums.square + square

    def by_line(self, delta: float) -> dict[Site, float]:
        """Return the loss of each line that has one."""
        losses = {site: s.pure + normal_epsilon(s.square, delta) for site, s in self._lines.items()}
        return {site: loss for site, loss in losses.items() if loss > 0}

    def _sums(self, call: Call) -> _Sums:
        return self._lines.setdefault(call.key.site, _Sums())

    def _find(self, kind: str, text: str, call: Call) -> None:
        self.trace.find(Finding(kind, text, *call.key[:2], self._words))

    def _depends(self, text: str, call: Call) -> None:
        """Report parameters that depend on the data, unless untraced noise may explain it."""
        if any(silent(self.first, call) for call in self.first.calls.values()):
            text = f"{Path(call.key.file).name}:{call.key.line}: {text}, perhaps hidden by "
            self.trace.cannot_tell(f"{text}noise that the trace does not follow")
        else:
            self._find("scale", text, call)

    def _added(
        self,
        call: Call,
        values: tuple[Floats, Floats],
        scales: tuple[Floats, Floats],
        result: Any,
        fresh: Any = True,
        calls: tuple[Key, ...] = (),
    ) -> None:
        """Judge noise that was added to a value, or drawn around it."""
        (value, other), (scale, other_scale) = values, scales
        sums = self._sums(call)
        same = (value == other) | (np.isnan(value) & np.isnan(other))
        with np.errstate(invalid="ignore"):
            change = np.ravel(np.where(same, 0.0, np.abs(value - other)))
        if scale.shape != value.shape and scale.size == 1:
            scale, other_scale = (np.broadcast_to(s, value.shape) for s in (scale, other_scale))
        if scale.shape == other_scale.shape == value.shape and call.family != "uniform":
            sums.scales += [float(s) for s in (scale.min(initial=math.inf), scale.max(initial=0))]
        if not np.all(np.isfinite(change)):
            at = int(np.flatnonzero(~np.isfinite(change))[0])
            self._find(
                "not-a-number",
                f"the noise of {call.key.name} is added to "
                f"{np.ravel(value)[at]:g} on D and to {np.ravel(other)[at]:g} on D′; "
                "no noise hides this",
                call,
            )
            sums.moved(math.inf, 1)
            self._lose(call, math.inf)
            return
        norm = {"laplace": 1, "normal": 2}.get(call.family, math.inf)
        sums.moved(float(np.linalg.norm(change, norm)) if change.size else 0.0, norm)
        if scale.shape != other_scale.shape:
            self._lose(call, math.inf)
            return
        uneven = np.ravel((scale != other_scale) & ~np.isnan(scale))
        if uneven.any():
            both = [np.ravel(s)[np.flatnonzero(uneven)[0]] for s in (scale, other_scale)]
            self._depends(
                f"the scale of {call.key.name} depends on the data: {both[0]:.6g} "
                f"on D, {both[1]:.6g} on D′",
                call,
            )
            self._lose(call, math.inf)
            return
        counted = change * np.ravel(np.broadcast_to(fresh, value.shape))
        moving = counted > 0
        if not moving.any():
            return
        noised = np.ravel(np.broadcast_to(np.asarray(result), value.shape))[moving]
        widths = np.ravel(np.broadcast_to(scale, value.shape))[moving]
        error = ROUNDING * np.fmax(np.abs(value), np.abs(other))
        error = np.where(_in_32_bits(value) & _in_32_bits(other), error, 0.0)
        self.rounding = max(self.rounding, float(np.max(np.ravel(error)[moving] / counted[moving])))
        with np.errstate(divide="ignore"):
            ratios = counted[moving] / widths
        if call.family == "normal":
            self._lose(call, 0.0, float(np.sum(ratios**2)), noised)
        else:
            loss = float(np.sum(ratios)) if call.family == "laplace" else math.nan
            self._lose(call, loss, result=noised)
        compared = {key for key in calls if self.first.calls[key].compared}
        self.covering |= set(calls) - compared

    def _reused(self, use: Use, mate: Use, call: Call) -> None:
        """Report draws added to two values that change by different amounts."""
        with np.errstate(invalid="ignore", divide="ignore"):
            moves = np.ravel((mate.value - use.value) / use.scale)
            size = np.fmax(np.abs(use.value), np.abs(mate.value)) / use.scale
        exact = ~(_in_32_bits(use.value) & _in_32_bits(mate.value))
        errors = np.ravel(np.where(exact, 1e-12, 2 * ROUNDING * size))
        draws = np.ravel(use.draws)
        for draw, move, error in zip(*(x.tolist() for x in (draws, moves, errors)), strict=True):
            if not math.isfinite(move):
                continue
            before, line = self._moves.setdefault(draw, (move, use.key.line))
            if not math.isclose(before, move, rel_tol=1e-9, abs_tol=error):
                twice = f", on lines {line} and {use.key.line}," if line != use.key.line else ""
                self._find(
                    "reused",
                    f"the same noise of {call.key.name} is added{twice} to values that "
                    "change by different amounts: their difference has no noise",
                    call,
                )

    def _declared(self, call: Call, other: Call) -> None:
        """Judge a library's mechanism by the parameters that it was given."""
        declared, sums = call.declared, self._sums(call)
        if call.family == "opendp":
            change = _opendp_distance(call, other)
            sums.moved(math.inf if math.isnan(change) else change, 1)
            loss, square = _opendp_loss(call, change)
            # For other measurements, OpenDP states the largest loss of all pairs at this distance.
            function = getattr(declared["map"], "__opendp_dict__", {}).get("__function__")
            self._lose(call, loss, square, call.result if function in OPENDP_NOISE else None)
            return
        change = _distance(call.law, other.law, 2 if call.family == "normal" else 1)
        sums.moved(math.inf if math.isnan(change) else change, 1)
        if declared != other.declared:
            name = next(
                (n for n in declared if declared[n] != other.declared.get(n)), "a parameter"
            )
            both = declared.get(name, math.nan), other.declared.get(name, math.nan)
            self._depends(
                f"{name} of {call.key.name} depends on the data: {both[0]:.6g} on "
                f"D, {both[1]:.6g} on D′",
                call,
            )
            self._lose(call, math.inf)
            return
        most = declared.get("sensitivity", math.inf)
        if not change <= most * (1 + TOLERANCE):
            self._find(
                "declared",
                f"the input of {call.key.name} changes by {change:.6g}, but its "
                f"noise is scaled for {most:g}",
                call,
            )
        if "scale" in declared:
            sums.scales.append(declared["scale"])
        if math.isnan(change):
            self._lose(call, math.inf)
        elif declared.get("scale", 0.0) > 0:
            ratio = change / declared["scale"]
            normal = call.family == "normal"
            square = ratio**2 if normal else 0.0
            self._lose(call, 0.0 if normal else ratio, square, call.result)
        elif change:
            share = change / most if 0 < most < math.inf else 1.0
            self._lose(call, declared.get("epsilon", math.nan) * share)


class _Sums:
    """Noise of one line in one run."""

    def __init__(self) -> None:
        self.pure, self.square = 0.0, 0.0
        self.scales: list[float] = []
        self._moved, self._norm = list[float](), 1.0

    def moved(self, distance: float, norm: float) -> None:
        self._moved.append(distance)
        self._norm = norm

    def add_to(self, line: Line, delta: float) -> None:
        if self.scales:
            low, high = line.scales
            line.scales = float(np.minimum(low, min(self.scales))), max(high, *self.scales)
        if self._moved:
            moved = float(np.linalg.norm(self._moved, self._norm))
            line.sensitivity = max(line.sensitivity, math.inf if math.isnan(moved) else moved)
        loss = self.pure + normal_epsilon(self.square, delta)
        line.epsilon = float(np.maximum(line.epsilon, loss))


def normal_epsilon(square: float, delta: float) -> float:
    """Return ε at δ of normal noise, from μ² [Dong2022, corollary 2.13]."""
    if square == 0 or math.isnan(square):
        return square
    return GaussianDP(math.sqrt(square)).epsilon_at(delta) if math.isfinite(square) else math.inf


def laplace_uses(
    call: Callable[[Any], Any], pair: TracedPair, runs: tuple[Run, Run]
) -> dict[Key, tuple[Floats, Floats]]:
    """Find sums with Laplace noise that is made of uniform numbers, and its scales on D and D′.

    More runs of the function on D and on D′ show the noise beside the uniform numbers. It must be
    their Laplace quantile function times the same scale in every run.
    """
    first, second = (run.tape.uses for run in runs)
    tape = runs[0].tape
    wanted = [
        key
        for key, use in first.items()
        if not use.compared
        and np.isnan(use.scale).any()
        and key in second
        and not np.array_equal(use.value, second[key].value, equal_nan=True)
        and [call.family for call in tape.calls_of(use.draws)] == ["uniform"]
    ]
    if not wanted:
        return {}
    tapes = [
        [run(call, data, Tape(QUANTILE_NOISE + at)).tape for at in range(QUANTILE_RUNS)]
        for data in (pair.d0, pair.d1)
    ]
    scales = {key: tuple(_laplace_scale(key, tapes_of) for tapes_of in tapes) for key in wanted}
    return {key: (one, two) for key, (one, two) in scales.items() if not np.isnan(one + two).any()}


def _laplace_scale(key: Key, tapes: Sequence[Tape]) -> Floats:
    """Return the scale of the noise that a use adds in all runs; NaN if it is no Laplace noise."""
    uses = [tape.uses[key] for tape in tapes if key in tape.uses]
    if len(uses) < len(tapes) or len({use.value.shape for use in uses}) > 1:
        return np.asarray(UNKNOWN)
    units, noises = [], []
    for tape, use in zip(tapes, uses, strict=True):
        made = tape.calls_of(use.draws)
        if [call.family for call in made] != ["uniform"]:
            return np.asarray(UNKNOWN)
        level = (np.asarray(made[0].result, float) - made[0].loc) / made[0].scale
        level = np.ravel(np.broadcast_to(level, made[0].shape))[use.draws - made[0].first]
        with np.errstate(divide="ignore", invalid="ignore"):
            units.append(-np.sign(level - 0.5) * np.log1p(-np.abs(2 * level - 1)))
            noises.append(np.asarray(use.own, float) - use.value)
    unit, noise = np.array(units), np.array(noises)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.median(noise / unit, axis=0)
        error = 1e-6 * np.abs(scale * unit) + 1e-9 * (1 + np.abs([use.value for use in uses]))
        same = np.abs(noise - scale * unit) <= error
    return np.where(same.all(axis=0) & (scale != 0), np.abs(scale), UNKNOWN)


def _in_32_bits(value: Floats) -> Any:
    """True for values that look computed in 32 bits: no integers, and exact as `float32`."""
    with np.errstate(over="ignore"):
        return (value == np.asarray(value, np.float32)) & (value != np.round(value))


def _log_ratio(one: Floats, two: Floats) -> float:
    """Return the largest ratio of two lists of probabilities, in logarithms."""
    both = (one > 0) | (two > 0)
    with np.errstate(divide="ignore"):
        ratios = np.abs(np.log(one[both]) - np.log(two[both]))
    return float(ratios.max(initial=0.0))


def _opendp_distance(call: Call, other: Call) -> float:
    """Return the distance of two inputs in the metric of an OpenDP measurement."""
    measurement: Any = call.declared["map"]
    metric, one, two = str(measurement.input_metric), call.law, other.law
    records = isinstance(one, list | tuple | np.ndarray)
    if records and metric.startswith(("SymmetricDistance", "InsertDeleteDistance")):
        lists = (Counter(map(repr, np.asarray(rows).tolist())) for rows in (one, two))
        before, after = lists
        return float(((before - after) + (after - before)).total())
    if records and metric.startswith(("HammingDistance", "ChangeOneDistance")):
        rows = np.asarray(one).tolist(), np.asarray(two).tolist()
        moved = sum(repr(a) != repr(b) for a, b in zip(*rows, strict=False))
        return float(moved) if len(rows[0]) == len(rows[1]) else math.inf
    return _distance(one, two, 2 if metric.startswith("L2") else 1)


def _opendp_loss(call: Call, change: float) -> tuple[float, float]:
    """Return the loss that OpenDP's privacy map gives for a distance: ε, and μ² of normal noise."""
    if change == 0:
        return 0.0, 0.0
    measurement: Any = call.declared["map"]
    for distance in (change, math.ceil(change)) if math.isfinite(change) else ():
        try:
            loss = measurement.map(distance)
        except Exception:  # another type of distance
            continue
        if not isinstance(loss, int | float):
            return math.nan, 0.0
        if str(measurement.output_measure).startswith("ZeroConcentratedDivergence"):
            return 0.0, 2.0 * loss  # ρ = μ²/2
        return float(loss), 0.0
    return math.nan, 0.0


def _distance(one: Any, other: Any, norm: int) -> float:
    """Return the distance of two inputs; of vectors of unequal length, how many entries differ."""
    try:
        a, b = np.asarray(plain(one), float), np.asarray(plain(other), float)
    except (TypeError, ValueError):
        return 0.0 if repr(one) == repr(other) else math.inf
    if a.shape != b.shape:
        lists = Counter(np.ravel(a).tolist()), Counter(np.ravel(b).tolist())
        return float(sum(((lists[0] - lists[1]) + (lists[1] - lists[0])).values()))
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.linalg.norm(np.ravel(a - b), norm))
