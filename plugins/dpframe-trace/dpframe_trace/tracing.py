"""Compare runs on neighbouring datasets, with the same noised values [Cebere2026]."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpframe import records_params
from dpframe.plugins import DpframeError, Floats, find_plugin
from dpframe_trace import frameworks, primitives
from dpframe_trace.losses import Losses, laplace_uses, normal_epsilon
from dpframe_trace.noise import Key, Site, Tape
from dpframe_trace.report import TOLERANCE, Finding, Line, Trace, seeded
from dpframe_trace.runs import Raised, TracedPair, differing, judge_differences, lost, run
from dpframe_trace.sums import find_sums

ENDLESS = ("not-a-number", "scale", "declared")
"""Findings that make the loss infinite."""
MOST_LINES = 8
"""Most lines whose losses a finding lists."""
FIRST_NOISE = 1 << 22
"""Seed of the noise of the first call, which is not compared."""


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
    return _trace(function, [TracedPair(d0, d1, "")], (epsilon, delta), runs)


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
    derived = [TracedPair(pair.d0, pair.d1, pair.description) for pair in proposed[:pairs]]
    return _trace(function, derived, (epsilon, delta), runs)


def _trace(
    function: Callable[..., Any],
    pairs: Sequence[TracedPair],
    claim: tuple[float | None, float],
    runs: int,
) -> Trace:
    epsilon, delta = claim
    if epsilon is not None and not 0 <= epsilon < math.inf:
        raise DpframeError(f"epsilon: {epsilon!r} is not a number of at least 0")
    if not 0 <= delta < 1:
        raise DpframeError(f"delta: {delta!r} is not between 0 and 1")
    if runs < 1:
        raise DpframeError(f"runs must be at least 1, got {runs!r}")
    call = caller(function)
    trace = Trace(len(pairs), runs, claim)
    lines: dict[Site, Line] = {}
    seeds = Seeds()
    frameworks.start()
    # The first call may import modules, whose primitives are replaced afterwards.
    with primitives.replaced(function):
        for pair in pairs[:1]:
            seeds.add((pair.words, 0), run(call, pair.d0, Tape(FIRST_NOISE)).tape)
    with primitives.replaced(function):
        for pair in pairs:
            _one_pair(call, pair, trace, lines, seeds)
    for finding in seeds.findings():
        trace.find(finding)
    trace.lines = sorted(lines.values(), key=lambda line: (line.file, line.line, line.name))
    if not trace.lines and not trace.findings:
        trace.unknown.append(
            "no noise was seen; the trace follows NumPy, random, secrets, PyTorch, JAX, "
            "diffprivlib and OpenDP"
        )
    return trace


def caller(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a function of the data alone; raise DpframeError if it needs more."""
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
    if len(needed) == 2 and needed[0].name in ("key", "rng_key", "prng_key"):
        return lambda data: function(primitives.key_for_argument(), data)
    if len(needed) == 2:
        return lambda data: function(primitives.generator_for_argument(), data)
    return function


class Seeds:
    """The seeds that runs fix. One that differs between runs on the same data is not fixed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], dict[tuple[str, int], set[str]]] = {}

    def add(self, data: tuple[str, int], tape: Tape) -> None:
        """Add the seeds of a run on one dataset, given by its pair and its number."""
        for file, line, seed in tape.seeds:
            self._seen.setdefault((file, line), {}).setdefault(data, set()).add(seed)

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each line with a fixed seed."""
        for (file, line), by_data in sorted(self._seen.items()):
            if all(len(found) == 1 for found in by_data.values()):
                (words, _), (seed,) = next(iter(by_data.items()))
                yield seeded(file, line, seed, words)


def _one_pair(  # one for each reason not to judge
    call: Callable[[Any], Any],
    pair: TracedPair,
    trace: Trace,
    lines: dict[Site, Line],
    seeds: Seeds,
) -> None:
    unrecorded, unknown, released = False, False, True
    pure, squares, rounding = 0.0, 0.0, 0.0
    by_line: dict[Site, float] = {}
    laplace: dict[Key, tuple[Floats, Floats]] = {}
    for seed in range(trace.runs):
        first = run(call, pair.d0, Tape(seed))
        second = run(call, pair.d1, Tape(seed, first.tape))
        if max(len(first.tape.threads), len(second.tape.threads)) > 1:
            trace.cannot_tell(
                "several threads draw noise, in an order that may change, so runs are not compared"
            )
            trace.epsilon = math.nan
            return
        if seed == 0:
            again = run(call, pair.d0, Tape(seed, first.tape))
            unrecorded = bool(differing(first.leaves, again.leaves))
        unrecorded = unrecorded or first.tape.unseen or second.tape.unseen
        if seed == 0:
            laplace = laplace_uses(call, pair, (first, second))
        if not unrecorded:
            first, second = find_sums(call, pair, (first, second))
        losses = Losses((first, second), pair.words, trace, lines, laplace)
        released = released and losses.released
        unknown = unknown or math.isnan(losses.pure + losses.squares)
        pure, squares = np.fmax(pure, losses.pure), np.fmax(squares, losses.squares)
        rounding = max(rounding, losses.rounding)
        for site, loss in losses.by_line(trace.claim[1]).items():
            by_line[site] = max(by_line.get(site, 0.0), loss)
        both = first, second
        judge_differences(call, pair, both, losses.covering, trace, outputs=not unrecorded)
        lost_call = None if differing(first.leaves, second.leaves) else lost(first)
        if lost_call is not None:
            place = f"{Path(lost_call.key.file).name}:{lost_call.key.line}"
            trace.cannot_tell(
                f"{place}: the trace loses track of {lost_call.key.name}, on which the output may "
                "depend"
            )
        raised = first.leaves.get("output")
        if isinstance(raised, Raised) and first.leaves == second.leaves:
            trace.cannot_tell(f"{raised} on D and on D′, so nothing was compared")
        for file, line, name, earlier in sorted(first.tape.clashes | second.tape.clashes):
            trace.cannot_tell(
                f"{Path(file).name}:{line}: {name} has a key that line {earlier} used before, so "
                "their draws depend on each other"
            )
        for number, each in enumerate((first, second)):
            seeds.add((pair.words, number), each.tape)
    if unrecorded:
        trace.cannot_tell(
            "two runs on D with the same noise differ: the function uses randomness that "
            "the trace does not record, so different outputs are not judged"
        )
    total = float(pure) + normal_epsilon(float(squares), trace.claim[1])
    trace.epsilon = math.nan if unknown else float(np.maximum(trace.epsilon, total))
    if unknown and trace.claim[0] is not None:
        trace.cannot_tell("the loss of some noise is unknown, so the total may exceed the claim")
    exact = released and not (pure and squares)
    _judge_total((total, rounding), by_line, pair, trace, exact=exact)


def _judge_total(
    loss: tuple[float, float],
    by_line: Mapping[Site, float],
    pair: TracedPair,
    trace: Trace,
    *,
    exact: bool,
) -> None:
    """Compare the composed loss with the claim."""
    (total, rounding), (claimed, delta) = loss, trace.claim
    explained = math.isinf(total) and any(f.kind in ENDLESS for f in trace.findings)
    if claimed is None or not total > claimed * (1 + TOLERANCE + rounding) or explained:
        return
    at = f" at δ = {f'{delta:g}'.replace('e-0', 'e-')}" if delta else ""
    text = f"the noise composes to ε = {total:.4g}{at}, more than the claimed {claimed:g}"
    if exact:
        text += ", and all noised values are released"
        places = sorted(by_line)
        one = places[0][:2] if len(places) == 1 else ("", 0)
        if len(places) > 1:
            parts = (f"{Path(p[0]).name}:{p[1]} {by_line[p]:.4g}" for p in places[:MOST_LINES])
            text += f" (by line: {', '.join(parts)}{', …' if len(places) > MOST_LINES else ''})"
        trace.find(Finding("budget", text, *one, pair.words))
    else:
        trace.cannot_tell(
            f"{text}, but this is an upper bound: not all noised values are "
            "released unchanged, or a library reports only a bound"
        )
