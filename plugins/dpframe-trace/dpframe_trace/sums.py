"""Sums of a value and noise that the trace lost, such as `float(noise)` or geometric noise.

More runs with other noise show how the output depends on it. If each number of the output is a
constant plus fixed multiples of the draws in every run, the constant is the noised value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpframe_trace.noise import Call, Key, Tape, Use
from dpframe_trace.runs import Run, TracedPair, amounts, differing, run, silent

SUM_NOISE = 1 << 23
"""Seed of the first run that shows sums."""
MOST_DRAWS = 24
"""Most lost draws in a run for which sums are looked for."""


_ROUNDINGS: tuple[Callable[[Any], Any], ...] = (np.positive, np.rint, np.floor, np.ceil)
"""Functions of the noise that move with a whole number added to it."""


class _Sum(NamedTuple):
    value: float
    terms: dict[int, float]
    """The factor of each draw, by its number."""


class _AddedNoise(NamedTuple):
    key: Key
    family: str
    scale: float


def find_sums(
    call: Callable[[Any], Any], pair: TracedPair, runs: tuple[Run, Run]
) -> tuple[Run, Run]:
    """Return the runs with their lost noise as noise added to released numbers.

    The runs are unchanged if some lost noise is used in any other way.
    """
    first, second = runs
    # Noise that was added to 0 before, as libraries do, may be added to a value afterwards.
    differ = bool(differing(first.leaves, second.leaves))
    lost = list(first.tape.calls.values()) if differ else _lost(first.tape)
    mates = [second.tape.calls.get(c.key) for c in lost]
    width = sum(np.size(c.result) for c in lost)
    if (
        not 0 < width <= MOST_DRAWS
        or amounts(first.tape) != amounts(second.tape)
        or any(m is None or not _alike(c, m) for c, m in zip(lost, mates, strict=True))
    ):
        return runs
    repeats = [_repeats(call, data, first.tape, lost) for data in (pair.d0, pair.d1)]
    for rounding in _ROUNDINGS:
        one, two = (_sums(each, lost, rounding) for each in repeats)
        if one is None or two is None or not _same_form(runs, one, two):
            continue
        noises = [_noise(lost, each.terms) for each in one.values()]
        used = sorted(at for terms in {tuple(each.terms) for each in one.values()} for at in terms)
        known = [noise for noise in noises if noise is not None]
        if used != list(range(width)) or len(known) < len(noises):
            continue
        if rounding is np.positive or all(map(_whole, known, one.values(), two.values())):
            answers = {path: first.leaves[path] for path in one}
            before, after = (
                _rewritten(of, lost, sums, known, answers)
                for of, sums in zip(runs, (one, two), strict=True)
            )
            return before, after
    return runs


def _lost(tape: Tape) -> list[Call]:
    """Return the calls whose noise is not followed, or was added with an unknown scale."""
    unknown = {
        key
        for use in tape.uses.values()
        if np.isnan(use.scale).any()
        for key in use.calls
        if not tape.calls[key].compared
    }
    return [
        c
        for c in tape.calls.values()
        if c.key in unknown or c.family == "exponential" or silent(tape, c)
    ]


def _same_form(runs: tuple[Run, Run], one: dict[str, _Sum], two: dict[str, _Sum]) -> bool:
    """True if two outputs are equal, but for the values of their sums."""
    leaves, others = (of.leaves for of in runs)
    return (
        leaves.keys() == others.keys()
        and one.keys() == two.keys()
        and all(repr(leaves[path]) == repr(others[path]) for path in leaves.keys() - one.keys())
        and all(_close(one[path].terms, two[path].terms) for path in one)
    )


def _close(one: dict[int, float], two: dict[int, float]) -> bool:
    return one.keys() == two.keys() and all(math.isclose(one[at], two[at]) for at in one)


def _whole(noise: _AddedNoise, one: _Sum, two: _Sum) -> bool:
    """True if rounding the noise of two sums is the same as rounding the sums."""
    factors = all(abs(factor) == 1 for factor in one.terms.values())
    return noise.family == "laplace" and factors and (one.value - two.value).is_integer()


def _alike(call: Call, mate: Call) -> bool:
    """True if two calls draw from the same known distribution."""
    shapes = np.shape(call.result) == np.shape(mate.result)
    if call.family == "other":
        return shapes and call.chance is not None and call.chance == mate.chance
    known = call.family in ("laplace", "normal", "exponential")
    return shapes and known and bool(np.array_equal(call.scale, mate.scale))


def _repeats(call: Callable[[Any], Any], data: Any, tape: Tape, lost: list[Call]) -> list[Run]:
    loose = frozenset(c.key for c in lost)
    number = 2 * sum(np.size(c.result) for c in lost) + 12
    return [run(call, data, Tape(SUM_NOISE + at, tape, loose)) for at in range(number)]


def _sums(
    repeats: list[Run], lost: list[Call], rounding: Callable[[Any], Any]
) -> dict[str, _Sum] | None:
    """Return each changing number of the output as a sum; None if one is no sum."""
    width = sum(np.size(c.result) for c in lost)
    drawn = []
    for each in repeats:
        calls = [each.tape.calls[c.key] for c in lost if c.key in each.tape.calls]
        row = [rounding(np.ravel(np.asarray(c.result, float))) for c in calls]
        if sum(map(len, row)) != width or each.leaves.keys() != repeats[0].leaves.keys():
            return None
        drawn.append(np.concatenate(row))
    design = np.column_stack([np.ones(len(drawn)), np.array(drawn)])
    if np.linalg.matrix_rank(design) <= width:
        return None
    by_path = {}
    for path in repeats[0].leaves:
        answers = [each.leaves[path] for each in repeats]
        if len(set(map(repr, answers))) == 1:
            continue
        if not all(type(answer) in (int, float) for answer in answers):
            return None
        numbers = np.array(answers, float)
        if not np.all(np.isfinite(numbers)):
            return None
        fit, *_ = np.linalg.lstsq(design, numbers, rcond=None)
        size = 1 + np.abs(numbers).max()
        fit = np.where(np.abs(fit - np.round(fit)) <= 1e-9 * size, np.round(fit), fit)
        if np.abs(design @ fit - numbers).max() > 1e-8 * size:
            return None
        terms = {at: float(factor) for at, factor in enumerate(fit[1:]) if factor != 0}
        by_path[path] = _Sum(float(fit[0]), terms)
    return by_path


def _noise(lost: list[Call], terms: dict[int, float]) -> _AddedNoise | None:
    """Return the noise that draws with these factors make; None if its distribution is unknown."""
    owners = [(c, at) for c in lost for at in range(np.size(c.result))]
    calls = [owners[at] for at in terms]
    factors = list(terms.values())
    families = [c.family for c, _ in calls]
    key = calls[0][0].key
    scales = [
        abs(factor) * float(np.ravel(np.broadcast_to(c.scale, np.shape(c.result)))[at])
        for factor, (c, at) in zip(factors, calls, strict=True)
    ]
    if families in (["laplace"], ["normal"]):
        return _AddedNoise(key, families[0], scales[0])
    opposite = len(factors) == 2 and factors[0] * factors[1] < 0
    if families == ["exponential"] * 2 and opposite and math.isclose(*scales):
        return _AddedNoise(key, "laplace", scales[0])
    chance = calls[0][0].chance
    alike = families == ["other"] * 2 and chance == calls[1][0].chance
    if alike and opposite and set(map(abs, factors)) == {1.0} and chance and chance < 1:
        return _AddedNoise(key, "laplace", -1 / math.log1p(-chance))  # two-sided geometric noise
    return None


def _rewritten(
    of: Run,
    lost: list[Call],
    sums: dict[str, _Sum],
    noises: list[_AddedNoise],
    answers: dict[str, Any],
) -> Run:
    """Return a run in which the noise of each sum is one call, added to the value of the sum."""
    tape, removed = of.tape, {c.key for c in lost}
    for c in lost:
        del tape.calls[c.key]
    for name in [name for name, use in tape.uses.items() if removed.intersection(use.calls)]:
        del tape.uses[name]
    made: dict[tuple[int, ...], tuple[Key, Any]] = {}
    for nth, (path, noise) in enumerate(zip(sums, noises, strict=True)):
        scale, terms = np.asarray(noise.scale), sums[path].terms
        if tuple(terms) not in made:
            key = noise.key._replace(nth=noise.key.nth if noise.key not in tape.calls else -1 - nth)
            draws = tape.released(Call(key, noise.family, scale=scale, tracked=True))
            made[tuple(terms)] = key, draws
        key, draws = made[tuple(terms)]
        use = key._replace(name=f"added to {path}")
        sign = math.copysign(1.0, terms[min(terms)])  # of the first draw, if it is used twice
        value, answer = np.asarray(sign * sums[path].value), answers[path]
        tape.uses[use] = Use(use, (key,), draws, value, scale, answer, answer)
    return Run(tape, {**of.leaves, **answers})


__all__ = ["find_sums"]
