"""Compare runs on neighbouring datasets, with the same noised values [Cebere2026]."""

from __future__ import annotations

import copy
import inspect
import linecache
import math
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe import records_params
from dpframe.plugins import DpframeError, Floats, GaussianDP, find_plugin
from dpframe_trace import primitives
from dpframe_trace.noise import Call, Key, Tape, Use, is_noise, plain

TOLERANCE = 1e-6
"""Relative excess over a claim or a sensitivity that counts as rounding."""
MOST_LEAVES = 10_000
"""Parts of an output that are compared."""
OTHERS = 8
"""Runs with other noise, after a difference was seen, if all noise is followed."""
MOST_OTHERS = 500
"""The same if some is not."""
OTHER_NOISE = 1 << 20
"""The first of their seeds."""
ENDLESS = ("not-a-number", "scale", "declared")
"""Findings that make the loss infinite."""


class Finding(NamedTuple):
    """An observation that violates the claim, or probably does."""

    kind: str
    """`output`, `path`, `scale`, `not-a-number`, `reused`, `declared`, `budget` or `seed`."""
    text: str
    file: str
    line: int
    """0 if the finding belongs to no line."""
    pair: str
    """The first pair that shows it."""

    def __str__(self) -> str:
        place = f"{Path(self.file).name}:{self.line}: " if self.line else ""
        return f"{place}{self.text}"


@dataclass
class Line:
    """All noise of one line of code, over all pairs."""

    file: str
    line: int
    name: str
    """The primitive, such as `laplace`."""
    draws: int = 0
    """Most numbers drawn in one run."""
    scales: tuple[float, float] = (math.inf, 0.0)
    """Smallest and largest scale that the noise had when it was added; NaN if unknown."""
    sensitivity: float = 0.0
    """Largest change of what the noise was added to; l1, l2 for normal noise, l∞ for others."""
    epsilon: float = 0.0
    """Largest loss of these draws on one pair. NaN if unknown; for normal noise, at `delta`."""
    followed: bool = True
    """False if the noise was used in a way that the trace does not follow."""

    @property
    def code(self) -> str:
        """The line itself."""
        return linecache.getline(self.file, self.line).strip()


@dataclass
class Trace:
    """The observations on the given pairs. They say nothing about other pairs."""

    pairs: int
    runs: int
    claim: tuple[float | None, float]
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Differences that the trace cannot judge, with the reason."""
    epsilon: float = 0.0
    """Largest loss of one pair if all noised values are released: losses of all calls, composed.
    NaN if the loss of a call is unknown."""

    @property
    def exit_code(self) -> int:
        """1 if there are findings, 3 if something could not be judged, else 0."""
        return 1 if self.findings else 3 if self.unknown else 0

    def __str__(self) -> str:
        return "\n".join(_report(self))


class _Run(NamedTuple):
    tape: Tape
    leaves: dict[str, Any]


class _Pair(NamedTuple):
    d0: Any
    d1: Any
    words: str


def trace(
    function: Callable[..., Any],
    d0: Any,
    d1: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    runs: int = 3,
) -> Trace:
    """Trace a function on two neighbouring datasets.

    The function runs on D with recorded noise, then on D′ with the same noised values.

    Args:
        function: called as `function(data)`, or as `function(rng, data)`.
        d0: D, any Python value.
        d1: D′.
        epsilon: the claimed ε, compared with the composed loss; None for no claim.
        delta: the δ of the claim.
        runs: number of noise seeds to try.

    Returns:
        The observations on this pair. No findings does not mean that the function is private.

    Raises:
        DpframeError: the function cannot be called with one dataset.
    """
    return _trace(function, [_Pair(d0, d1, "")], (epsilon, delta), runs)


def trace_table(
    function: Callable[..., Any],
    table: Any,
    *,
    adjacency: Any,
    schema: Sequence[Mapping[str, Any]] = (),
    epsilon: float | None = None,
    delta: float = 0.0,
    pairs: int = 36,
    runs: int = 3,
    **more: Any,
) -> Trace:
    """Trace a function on a table and neighbours that often break libraries.

    Args:
        function: as for `trace`.
        table: a table, as `dpframe.search_violation` takes it.
        adjacency: "replace", "add-remove" or "either", as the claim says.
        schema: a dict for each column, with name, low, high, integer, categories.
        epsilon: the claimed ε; None for no claim.
        delta: the δ of the claim.
        pairs: number of pairs.
        runs: number of noise seeds to try on each pair.
        more: further parameters of the neighbourhood `records`, such as `beyond`.

    Raises:
        DpframeError: the table cannot be used.
    """
    try:
        params = records_params(table, adjacency=adjacency, schema=schema, **more)
        edits: Any = find_plugin("neighbourhood", "records")
        proposed = edits.from_params({**params, "batch": min(max(pairs, 1), 1000)}).propose(
            np.random.default_rng(0), ()
        )
    except (TypeError, ValueError) as error:
        raise DpframeError(f"table: {error}") from None
    found = [_Pair(pair.d0, pair.d1, pair.description) for pair in proposed[:pairs]]
    return _trace(function, found, (epsilon, delta), runs)


def _trace(
    function: Callable[..., Any],
    pairs: Sequence[_Pair],
    claim: tuple[float | None, float],
    runs: int,
) -> Trace:
    epsilon, delta = claim
    if epsilon is not None and not 0 <= epsilon < math.inf:
        raise DpframeError(f"epsilon: {epsilon!r} is not a number of at least 0")
    if not 0 <= delta < 1:
        raise DpframeError(f"delta: {delta!r} is not between 0 and 1")
    if runs < 1:
        raise DpframeError(f"runs: {runs!r} is below 1")
    call = _caller(function)
    found = Trace(len(pairs), runs, claim)
    seen: dict[tuple[str, int, str], Line] = {}
    with primitives.replaced(function):
        for pair in pairs:
            _one_pair(call, pair, found, seen)
    found.lines = sorted(seen.values(), key=lambda line: (line.file, line.line, line.name))
    if not found.lines and not found.findings:
        found.unknown.append(
            "no noise was seen; the trace follows NumPy, random, secrets, diffprivlib and OpenDP"
        )
    return found


def _caller(function: Callable[..., Any]) -> Callable[[Any], Any]:
    if not callable(function):
        raise DpframeError(f"{function!r} is not a function")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    needed = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(needed) > 2:
        names = ", ".join(p.name for p in needed[1:])
        raise DpframeError(f"bind {names} with functools.partial: a trace passes only the data")
    if len(needed) == 2:
        return lambda data: function(primitives.generator_for_argument(), data)
    return function


# One pair.


def _one_pair(
    call: Callable[[Any], Any],
    pair: _Pair,
    found: Trace,
    seen: dict[tuple[str, int, str], Line],
) -> None:
    strange = False
    pure, squares, unknown, released = 0.0, 0.0, False, True
    for seed in range(found.runs):
        first = _run(call, pair.d0, Tape(seed))
        second = _run(call, pair.d1, Tape(seed, first.tape))
        if seed == 0:
            again = _run(call, pair.d0, Tape(seed, first.tape))
            strange = bool(_differing(first.leaves, again.leaves))
        losses = _Losses((first, second), pair, found, seen)
        released = released and losses.released
        unknown = unknown or math.isnan(losses.pure + losses.squares)
        pure, squares = np.fmax(pure, losses.pure), np.fmax(squares, losses.squares)
        _differences(call, first, second, losses.covering, pair, found, strange)
        raised = first.leaves.get("output")
        if isinstance(raised, _Raised) and first.leaves == second.leaves:
            _say(found.unknown, f"{raised} on D and on D′, so nothing was compared")
        for file, line, fixed in sorted(first.tape.seeds | second.tape.seeds):
            one = seeded(file, line, fixed, pair.words)
            _find(found, one.kind, one.text, (file, line), pair)
    if strange:
        _say(
            found.unknown,
            "two runs on D with the same noise differ: the function uses randomness that "
            "the trace does not record, so different outputs are not judged",
        )
    total = float(pure) + _normal_epsilon(float(squares), found.claim[1])
    found.epsilon = math.nan if unknown else float(np.maximum(found.epsilon, total))
    claimed = found.claim[0]
    explained = math.isinf(total) and any(f.kind in ENDLESS for f in found.findings)
    if claimed is not None and total > claimed * (1 + TOLERANCE) and not explained:
        at = f" at δ = {found.claim[1]:g}" if found.claim[1] else ""
        text = f"the noise composes to ε = {total:.4g}{at}, more than the claimed {claimed:g}"
        if released and not (pure and squares):
            _find(found, "budget", f"{text}, and all noised values are released", ("", 0), pair)
        else:
            _say(
                found.unknown,
                f"{text}, but this is an upper bound: not all noised values are "
                "released unchanged, or a library reports only a bound",
            )


def _run(call: Callable[[Any], Any], data: Any, tape: Tape) -> _Run:
    data = copy.deepcopy(data)
    with warnings.catch_warnings(), primitives.recording(tape):
        warnings.simplefilter("ignore")
        try:
            answer: Any = call(data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            name = Path(place.filename).name
            answer = _Raised(f"raises {type(error).__name__} at {name}:{place.lineno}")
    leaves: dict[str, Any] = {}
    for path, leaf in _leaves(answer, "output", 0):
        leaves[path] = leaf
        if len(leaves) == MOST_LEAVES:
            break
    return _Run(tape, leaves)


class _Raised(str):
    """An exception, in words."""


def _leaves(  # noqa: PLR0912  # one for each kind of value
    value: Any, path: str, depth: int
) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an output, each a number, a text or the name of a type."""
    if is_noise(value):
        value = plain(value)
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        yield path, value
    elif isinstance(value, np.generic):
        yield path, value.item()
    elif depth > 8:
        yield path, type(value).__name__
    elif isinstance(value, dict):
        yield f"keys of {path}", repr(list(value))
        for key, each in value.items():
            yield from _leaves(each, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        yield f"length of {path}", len(value)
        for at, each in enumerate(value):
            yield from _leaves(each, f"{path}[{at}]", depth + 1)
    elif isinstance(value, np.ndarray):
        yield f"shape of {path}", value.shape
        for at, each in enumerate(value.ravel().tolist()[:MOST_LEAVES]):
            yield f"{path}[{at}]", each
    elif hasattr(value, "to_dict") and hasattr(value, "columns"):
        for name in value.columns:
            yield from _leaves(np.asarray(value[name]), f"{path}[{name!r}]", depth + 1)
    else:
        yield f"type of {path}", type(value).__name__
        public = {n: v for n, v in getattr(value, "__dict__", {}).items() if not n.startswith("_")}
        for name, each in public.items():
            if not callable(each):
                yield from _leaves(each, f"{path}.{name}", depth + 1)


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the paths at which two outputs differ, those of both first."""
    shared = [p for p in one if p in other and not _equal(one[p], other[p])]
    return shared or [p for p in (*one, *other) if (p in one) != (p in other)]


def _equal(one: Any, other: Any) -> bool:
    if type(one) is type(other) is float and math.isnan(one) and math.isnan(other):
        return True
    return type(one) is type(other) and bool(one == other)


# The loss.


class _Losses:
    """Losses of all noise calls of two runs with equal noised values."""

    def __init__(
        self,
        runs: tuple[_Run, _Run],
        pair: _Pair,
        found: Trace,
        seen: dict[tuple[str, int, str], Line],
    ) -> None:
        first, second = (run.tape for run in runs)
        self.first, self.second, self.pair, self.found = first, second, pair, found
        self.released = True
        """True if the output contains every noised value that has a loss, unchanged."""
        self._output = {repr(leaf) for leaf in runs[0].leaves.values()}
        self.pure, self.squares = 0.0, 0.0
        self.covering: set[Key] = set()
        """Calls whose noise hides a change, and whose results were not compared with anything."""
        self._moves: dict[int, float] = {}
        """For each draw, the change that it hides, in units of its scale."""
        self._lines: dict[tuple[str, int, str], _Sums] = {}
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
            line = seen.setdefault(site, Line(*site))
            amount = max(_amounts(tape).get(site, 0) for tape in (first, second))
            line.draws = max(line.draws, amount)
            sums = self._lines.get(site)
            line.followed = sums is not None or (line.followed and line.sensitivity > 0)
            if sums is not None:
                sums.add_to(line, found.claim[1])

    def _call(self, call: Call, other: Call) -> None:
        if call.family == "choice":
            one, two = call.law[0], other.law[0]
            alike = one.shape == two.shape and call.law[1] == other.law[1]
            self._lose(call, _log_ratio(one, two) if alike else math.nan, result=call.released)
        elif call.declared:
            self._declared(call, other)
        elif call.family != "other" and call.loc.shape == other.loc.shape:
            scales = call.scale, other.scale
            if np.any(call.loc != other.loc):
                self._added(call, (call.loc, other.loc), scales, call.result)

    def _use(self, use: Use, mate: Use) -> None:
        call = self.first.calls_of(use.draws)[0]
        if not use.compared:
            fresh = ~np.isin(use.draws, list(self._moves))
            scales = use.scale, mate.scale
            self._added(call, (use.value, mate.value), scales, use.result, fresh, use.calls)
            self._reused(use, mate, call)
        elif call.family == "uniform" and self._compared[call.key] > 1:
            self._lose(call, math.nan)  # such as a search in cumulative probabilities
        elif call.family == "uniform":
            with np.errstate(divide="ignore", invalid="ignore"):
                one, two = (np.ravel(np.clip(u.value / u.scale, 0, 1)) for u in (use, mate))
            if not np.isnan(one + two).any():
                self._lose(call, max(_log_ratio(one, two), _log_ratio(1 - one, 1 - two)))

    def _lose(self, call: Call, loss: float, square: float = 0.0, result: Any = None) -> None:
        """Add a loss: ε, or μ² of normal noise; `result` is the noised value, if it is exact."""
        if loss == 0 and square == 0:
            return
        values = np.ravel(np.asarray(result, object)).tolist()
        self.released = (
            self.released
            and result is not None
            and all(
                repr(v.item() if isinstance(v, np.generic) else v) in self._output for v in values
            )
        )
        if not call.compared and call.family != "uniform":
            self.covering.add(call.key)
        self.pure, self.squares = self.pure + loss, self.squares + square
        sums = self._sums(call)
        sums.pure, sums.square = sums.pure + loss, sums.square + square

    def _sums(self, call: Call) -> _Sums:
        return self._lines.setdefault(call.key.site, _Sums())

    def _find(self, kind: str, text: str, call: Call) -> None:
        _find(self.found, kind, text, call.key[:2], self.pair)

    def _depends(self, text: str, call: Call) -> None:
        """Report parameters that depend on the data, unless noise that is not followed may."""
        if any(_silent(self.first, call) for call in self.first.calls.values()):
            text = f"{Path(call.key.file).name}:{call.key.line}: {text}, perhaps hidden by "
            _say(self.found.unknown, f"{text}noise that the trace does not follow")
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
        if call.family == "uniform":
            return
        sums = self._sums(call)
        same = (value == other) | (np.isnan(value) & np.isnan(other))
        with np.errstate(invalid="ignore"):
            change = np.ravel(np.where(same, 0.0, np.abs(value - other)))
        if scale.shape != value.shape and scale.size == 1:
            scale, other_scale = (np.broadcast_to(s, value.shape) for s in (scale, other_scale))
        if scale.shape == other_scale.shape == value.shape:
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
        for draw, move in zip(np.ravel(use.draws).tolist(), moves.tolist(), strict=True):
            if not math.isfinite(move):
                continue
            before = self._moves.setdefault(draw, move)
            if not math.isclose(before, move, rel_tol=1e-9, abs_tol=1e-12):
                self._find(
                    "reused",
                    f"the same noise of {call.key.name} is added to values that "
                    "change by different amounts: their difference has no noise",
                    call,
                )

    def _declared(self, call: Call, other: Call) -> None:
        """Judge a library's mechanism by the parameters that it was given."""
        said, sums = call.declared, self._sums(call)
        change = _distance(call.law, other.law, 2 if call.family == "normal" else 1)
        sums.moved(math.inf if math.isnan(change) else change, 1)
        if call.family == "opendp":
            self._lose(call, _opendp_loss(call, change))
            return
        if said != other.declared:
            name = next((n for n in said if said[n] != other.declared.get(n)), "a parameter")
            both = said.get(name, math.nan), other.declared.get(name, math.nan)
            self._depends(
                f"{name} of {call.key.name} depends on the data: {both[0]:.6g} on "
                f"D, {both[1]:.6g} on D′",
                call,
            )
            self._lose(call, math.inf)
            return
        most = said.get("sensitivity", math.inf)
        if not change <= most * (1 + TOLERANCE):
            self._find(
                "declared",
                f"the input of {call.key.name} changes by {change:.6g}, but its "
                f"noise is scaled for {most:g}",
                call,
            )
        if "scale" in said:
            sums.scales.append(said["scale"])
        if math.isnan(change):
            self._lose(call, math.inf)
        elif said.get("scale", 0.0) > 0:
            ratio = change / said["scale"]
            normal = call.family == "normal"
            square = ratio**2 if normal else 0.0
            self._lose(call, 0.0 if normal else ratio, square, call.result)
        elif change:
            share = change / most if 0 < most < math.inf else 1.0
            self._lose(call, said.get("epsilon", math.nan) * share)


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
        loss = self.pure + _normal_epsilon(self.square, delta)
        line.epsilon = float(np.maximum(line.epsilon, loss))


def _normal_epsilon(square: float, delta: float) -> float:
    """Return ε at δ of normal noise, from μ² [Dong2022, corollary 2.13]."""
    if square == 0 or math.isnan(square):
        return square
    return GaussianDP(math.sqrt(square)).epsilon_at(delta) if math.isfinite(square) else math.inf


def _log_ratio(one: Floats, two: Floats) -> float:
    """Return the largest ratio of two lists of probabilities, in logarithms."""
    both = (one > 0) | (two > 0)
    with np.errstate(divide="ignore"):
        found = np.abs(np.log(one[both]) - np.log(two[both]))
    return float(found.max(initial=0.0))


def _opendp_loss(call: Call, change: float) -> float:
    """Return the loss that OpenDP's own privacy map gives for the distance of two inputs."""
    if change == 0:
        return 0.0
    measurement: Any = call.declared["map"]
    for distance in (change, math.ceil(change)) if math.isfinite(change) else ():
        try:
            loss = measurement.map(distance)
        except Exception:  # another type of distance
            continue
        return float(loss) if isinstance(loss, int | float) else math.nan
    return math.nan


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


# Differences that no noise covers.


def _differences(
    call: Callable[[Any], Any],
    first: _Run,
    second: _Run,
    covering: set[Key],
    pair: _Pair,
    found: Trace,
    strange: bool,
) -> None:
    """Judge differences between runs whose noised values are equal.

    A difference that stays the same with other noise is not hidden by that noise.
    """
    amounts = _amounts(first.tape), _amounts(second.tape)
    sites = [s for s in {**amounts[0], **amounts[1]} if amounts[0].get(s) != amounts[1].get(s)]
    paths = [] if strange else _differing(first.leaves, second.leaves)[:3]
    if not sites and not paths:
        return
    keys = {*first.tape.calls, *second.tape.calls}
    loose = frozenset(keys - covering)
    number = _others((first.tape, second.tape), loose, found.claim[0])
    others = [
        tuple(
            _run(call, data, Tape(OTHER_NOISE + at, first.tape, loose, flip=at == 0))
            for data in (pair.d0, pair.d1)
        )
        for at in range(number)
    ]
    moved = not loose or (
        bool(others)
        and all(
            any(_moves(run.tape, tape.calls[key]) for both in others for run in both)
            for tape in (first.tape, second.tape)
            for key in loose & tape.calls.keys()
        )
    )
    words = f"also in {number} repeats with other noise" if loose else "with equal noised values"
    for site in sites:
        drawn = [amount.get(site, 0) for amount in amounts]
        text = f"{site[2]} draws {drawn[0]} numbers on D and {drawn[1]} on D′"
        if moved and all(
            _amounts(run.tape).get(site, 0) == n
            for both in others
            for run, n in zip(both, drawn, strict=True)
        ):
            _find(found, "path", f"{text}, {words}", site[:2], pair)
        else:
            _say(
                found.unknown,
                f"{Path(site[0]).name}:{site[1]}: {text}, perhaps because of noise that the "
                "trace does not follow",
            )
    for path in paths:
        values = [run.leaves.get(path, "missing") for run in (first, second)]
        if moved and all(
            _equal(run.leaves.get(path, "missing"), value)
            for both in others
            for run, value in zip(both, values, strict=True)
        ):
            text = f"{path} is {_short(values[0])} on D and {_short(values[1])} on D′"
            _find(found, "output", f"{text}, {words}", ("", 0), pair)
        else:
            _say(
                found.unknown,
                f"{path} differs on D and D′ with the same noise, perhaps hidden by noise "
                "that the trace does not follow",
            )


def _others(tapes: tuple[Tape, Tape], loose: frozenset[Key], epsilon: float | None) -> int:
    """Return the number of runs with other noise; 0 if none would do.

    Let a run on D give some value with probability a. If the noise keeps ε, a run on D′ gives it
    with probability a·e^-ε at least. So, however both runs share their noise, they differ as they
    did with probability 1 - max(1 - a, a·e^-ε) ≤ 1 - e^-ε/2 at most, and in all runs with
    probability 1e-4 at most.
    """
    if not any(_silent(t, c) for t in tapes for c in t.calls.values() if c.key in loose):
        return OTHERS if loose else 0
    needed = 2 * math.log(1e4) * math.exp(min(1.0 if epsilon is None else epsilon, 700.0))
    return math.ceil(needed) if needed <= MOST_OTHERS else 0


def _silent(tape: Tape, call: Call) -> bool:
    """True if noise went into values without being seen there."""
    if call.family in ("uniform", "other"):
        return True
    return call.tracked and not any(call.key in use.calls for use in tape.uses.values())


def _moves(tape: Tape, call: Call) -> bool:
    """True if a call gives another result on a tape."""
    mate = tape.calls.get(call.key)
    return mate is not None and not np.array_equal(_array(mate.result), _array(call.result))


def _array(value: Any) -> Any:
    return (
        np.asarray(value) if np.ndim(value) or isinstance(value, float) else np.array(repr(value))
    )


def _amounts(tape: Tape) -> dict[tuple[str, int, str], int]:
    found: dict[tuple[str, int, str], int] = {}
    for key, call in tape.calls.items():
        found[key.site] = found.get(key.site, 0) + int(np.prod(call.shape))
    return found


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _find(found: Trace, kind: str, text: str, site: tuple[str, int], pair: _Pair) -> None:
    """Add a finding, unless this place has one of the kind already."""
    known = {(f.kind, f.file, f.line) for f in found.findings}
    if (kind, *site) not in known:
        found.findings.append(Finding(kind, text, *site, pair.words))


def seeded(file: str, line: int, seed: str, pair: str) -> Finding:
    """Return the finding that a generator has a fixed seed."""
    text = f"a generator is seeded with {seed}: every run has the same noise"
    return Finding("seed", text, file, line, pair)


def _say(where: list[str], text: str) -> None:
    if text not in where:
        where.append(text)


# The report.


def _report(found: Trace) -> Iterator[str]:
    pairs = "1 pair" if found.pairs == 1 else f"{found.pairs} pairs"
    noise = "1 noise seed" if found.runs == 1 else f"{found.runs} noise seeds"
    yield f"{pairs} of datasets, {noise} each"
    for line in found.lines:
        yield ""
        yield f"{Path(line.file).name}:{line.line}  {line.name}, {line.draws} drawn"
        if line.code:
            yield f"    {line.code}"
        yield f"    {_about(line)}"
    yield ""
    for one in found.findings:
        yield f"FOUND {one.kind}: {one}"
        if one.pair:
            yield f"    first seen on the pair: {one.pair}"
    for text in found.unknown:
        yield f"CANNOT TELL: {text}"
    claimed, delta = found.claim
    if found.lines:
        total = "unknown" if math.isnan(found.epsilon) else f"{found.epsilon:.4g}"
        at = f" at δ = {delta:g}" if delta else ""
        beside = "" if claimed is None else f"; claimed: {claimed:g}"
        yield f"ε of all observed noise, composed: {total}{at}{beside}"
    if found.findings:
        yield (
            "A trace compares runs; it proves nothing. Confirm with dpframe.assert_dp on this pair."
        )
    elif not found.unknown:
        yield "No findings on these pairs. This says nothing about other data, other noise, "
        yield "or the distribution of the noise itself, and certifies nothing."


def _about(line: Line) -> str:
    low, high = line.scales
    if math.isinf(low) and high == 0:
        what = "not seen to be added to a number" if not line.followed else ""
        eps = "" if line.epsilon == 0 else f"ε = {line.epsilon:.4g}"
        seen = f"observed sensitivity {line.sensitivity:.6g}" if line.sensitivity else ""
        return (
            ", ".join(part for part in (what, seen, eps) if part) or "same distribution on D and D′"
        )
    scale = "unknown" if math.isnan(low) else f"{low:.6g}"
    scale += f" to {high:.6g}" if high > low * (1 + TOLERANCE) else ""
    eps = "unknown" if math.isnan(line.epsilon) else f"{line.epsilon:.4g}"
    return f"scale {scale}, observed sensitivity {line.sensitivity:.6g}, ε = {eps}"
