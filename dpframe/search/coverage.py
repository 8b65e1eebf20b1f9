"""Describe what a search tried, why it ended, and the loss that it would have detected."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.common.text import shown
from dpframe.common.types import Floats, Ints
from dpframe.errors import CellError
from dpframe.interfaces.mechanism import DEFAULTS, settings
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.results.model import CoverageRecord
from dpframe.results.strict_json import text
from dpframe.results.verdict import PARAMETER
from dpframe.search.wealth import CAUTION, LOSS_LIMIT, WAYS, Point
from dpframe.spec.sweep import GROUP
from dpframe.stats import betting
from dpframe.stats.betting import Bet, events
from dpframe.stats.output_bets import Supposed, bets_against_each

if TYPE_CHECKING:
    from dpframe.search.arms import Arm
    from dpframe.search.search import SearchOutcome, SearchRun

PROBABILITY = 0.8  # with which a loss that a search would have shown refutes the claim
SIMULATED_SHARE = 0.88
"""Share of the simulated audits that refute it. They choose between two outputs; a search chooses
among more events, and so with more errors."""
LEAST_EXCESS, LARGEST_LOSS = 1e-4, 60.0  # excess over the claim that is looked for
ROUGH_GRID, FINE_GRID = (24, 40), (8, 200)  # numbers of losses, and of simulated audits of each

Round = tuple[int, int, int]
"""Draws per dataset before a round; the last of these, which estimate its probabilities; its own"""


def coverage_of(search: SearchRun, outcome: SearchOutcome) -> CoverageRecord:
    """Return the coverage of a search that has bet."""
    arms = sorted(search.pairs, key=lambda arm: arm.trials)
    most_drawn, median_drawn = arms[-1], arms[(len(arms) - 1) // 2]
    limits = {"trials": search.cell.trials, "seconds": search.settings.run.seconds}
    limit = limits.get(search.ended_by)
    tried, untried = _features(search)
    return CoverageRecord(
        ended_by=search.ended_by,
        limit=None if limit is None else float(limit),
        proposed=len(search.proposals.drawable),
        drawn=len(arms),
        raised=len(search.proposals.raised),
        lost=len(search.proposals.lost) - (search.ended_by == "lost"),
        draws=[arms[0].trials, median_drawn.trials, most_drawn.trials],
        probability=PROBABILITY,
        detectable=None if outcome.refuted else _detectable_loss(search, outcome, most_drawn),
        detectable_median=None
        if outcome.refuted
        else _detectable_loss(search, outcome, median_drawn),
        tried=tried,
        untried=untried + ([] if outcome.refuted else _parameters(search)),
    )


def _features(search: SearchRun) -> tuple[list[str], list[str]]:
    """Return the features that a search tried, and the other ones that it could have tried."""
    neighbourhood = search.search.neighbourhood.value
    tried: dict[str, None] = {}
    for pair in {arm.pair: None for arm in search.arms}:
        features = call_plugin("features", functools.partial(neighbourhood.features, pair))
        tried.update(_texts("features", features))
    all_features = _texts("all_features", call_plugin("all_features", neighbourhood.all_features))
    listed = [one for one in search.search.parameters if one.ends is None]
    for one in listed:
        all_features.update({_named_value(one.key, value): None for value in one.values})
    for arm in search.arms:
        own = dict(arm.setting)
        for one in listed:
            tried[_named_value(one.key, own.get(one.key) or _unvaried(arm, one.key))] = None
    return list(tried), [one for one in all_features if one not in tried]


OF_CLAIM = {"epsilon", "eps", "delta", "rho", "mu"}  # parameters that a claim is about


def _parameters(search: SearchRun) -> list[str]:
    """Return the parameters of the mechanism of which one value was tried, as features."""
    mechanism = search.search.mechanism.value
    fields = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    names = [*settings(fields), *getattr(mechanism, DEFAULTS, ())]
    varied = {one.key.removeprefix(GROUP).partition(".")[0] for one in search.search.parameters}
    return [text(f"{PARAMETER}{name}") for name in names if name not in varied | OF_CLAIM]


def _texts(name: str, texts: Any) -> dict[str, None]:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise CellError(f"{name} returned {shown(texts)}, which is not a list of texts")
    return {text(str(one)): None for one in texts}


def _named_value(key: str, value: str) -> str:
    """Name a value of a varied parameter, given as JSON."""
    parsed = json.loads(value)
    number = isinstance(parsed, int | float) and not isinstance(parsed, bool)
    return text(f"{key.removeprefix(GROUP)} = {f'{parsed:g}' if number else parsed}")


def _unvaried(arm: Arm, key: str) -> str:
    """Return the value of a parameter that the search has left as it was."""
    value = arm.mechanism.params()
    for step in key.removeprefix(GROUP).split("."):
        value = value[step] if isinstance(value, dict) and step in value else None
    return json.dumps(value)


def _detectable_loss(search: SearchRun, outcome: SearchOutcome, arm: Arm) -> float | None:
    """Return the smallest loss that the draws of an arm would have shown; None if there is none."""
    if arm.claim is None or not arm.points or not arm.rounds or arm.known:
        return None
    delta, claimed = search.cell.delta, arm.claim.epsilon_at(search.cell.delta)
    claimed = claimed if math.isfinite(claimed) else 0.0
    others = functools.partial(outcome.wealth.supposing, search.arms.index(arm))

    def lead(excess: Floats, audits: int) -> Floats:
        """Return the logarithm of the wealth beyond what refutes the claim, if luck is bad."""
        rate = (1 - delta) / (1 + np.exp(claimed + excess))
        best = earned(arm.points, arm.rounds, rate, audits, arm.least_z, others)
        return np.quantile(best, 1 - SIMULATED_SHARE, axis=1) + math.log(search.error)

    excess = np.geomspace(LEAST_EXCESS, LARGEST_LOSS, ROUGH_GRID[0])
    shows = np.flatnonzero(lead(excess, ROUGH_GRID[1]) >= 0)
    if not len(shows):
        return None
    low, high = excess[max(0, shows[0] - 2)], excess[min(len(excess) - 1, shows[0] + 1)]
    excess = np.geomspace(low, high, FINE_GRID[0])
    leads = np.maximum.accumulate(lead(excess, FINE_GRID[1]))
    if leads[-1] < 0:
        return None
    return claimed + float(np.interp(0.0, leads, excess))


def earned(
    points: Sequence[Point],
    rounds: Sequence[Round],
    rate: Floats,
    audits: int,
    least: float,
    wealth: Callable[[Floats], Floats],
) -> Floats:
    """Simulate audits of randomised response by the bets of a search.

    Args:
        points: of the claim.
        rounds: of its pair.
        rate: error rates of randomised response, shape [rates].
        audits: number of audits for each rate.
        least: standard errors by which an event must lie outside the claim to be bet on.
        wealth: the logarithm of the wealth of all pairs, from what this pair has earned by each way
            to bet, shape [ways, ...].

    Returns:
        Largest logarithm of the wealth of each audit, shape [rates, audits].
    """
    rng, usable = np.random.default_rng(1), [p for p in points if p.epsilon <= LOSS_LIMIT]
    ends = sorted(
        {
            at
            for drawn, estimating, fresh in rounds
            for at in (drawn - estimating, drawn, drawn + fresh)
        }
    )
    sizes = np.diff(ends, prepend=0)
    shape = len(rate), audits, 2
    errors = np.cumsum([rng.binomial(size, rate[:, None, None], shape) for size in sizes], axis=0)
    until = dict(zip(ends, errors.reshape(len(ends), -1, 2), strict=True))
    own = np.zeros((WAYS, len(rate) * audits))
    best = np.full(own.shape[1], -np.inf)
    for drawn, estimating, fresh in rounds:
        before = until[drawn] - until[drawn - estimating]
        now = until[drawn + fresh] - until[drawn]
        own += _paid(usable, before, estimating, now, fresh, least)
        best = np.maximum(best, wealth(own))
    return best.reshape(len(rate), audits)


def _paid(
    points: Sequence[Point], before: Ints, estimating: int, now: Ints, fresh: int, least: float
) -> Floats:
    """Return `wealth.paid` for many audits with two outputs, shape [ways, audits].

    `before` and `now` are errors on D and on D′, shape [audits, 2], of `estimating` and `fresh`
    draws.
    """
    epsilon, delta = np.array(points, np.float64).T
    slope = np.exp(epsilon)
    sides = [_above(errors, trials) for errors, trials in ((before, estimating), (now, fresh))]
    guess = (sides[0] + 0.5) / (estimating + 1)
    q, p = guess[..., 0, None], guess[..., 1, None]
    z = (p - slope * q - delta) / np.sqrt(slope**2 * q * (1 - q) + p * (1 - p))
    flat = z.reshape(len(z), -1)
    chosen = np.argmax(flat, axis=1)
    event, point = np.divmod(chosen, len(points))
    each = np.arange(len(z))
    bet = Bet(event, guess[each, event, 0], guess[each, event, 1], flat[each, chosen])
    by_event = betting.earned(sides[1][each, event], fresh, bet, slope[point], delta[point])
    by_output = by_event[[0, *[1] * (len(CAUTION) - 1)]]  # with a smaller stake, about as well
    if len(points) == 1:
        counts = _outputs(before, estimating)
        share = (counts[:, 0] + 0.5) / (counts.sum(axis=1) + 1)
        supposed = Supposed(share, counts.sum(axis=1) / (2 * estimating))
        weights = bets_against_each(supposed, slope, delta, caution=CAUTION)[0][..., 0, :]
        by_output = np.einsum("wsag,asg->wa", weights, _outputs(now, fresh))
    is_bet = bet.z * math.sqrt(estimating) > least
    return np.where(is_bet, np.concatenate([by_event, by_output]), 0.0)


def _above(errors: Ints, trials: int) -> Ints:
    """Count every event, shape [audits, 4, 2]."""
    above = np.stack([errors[:, 0], trials - errors[:, 1]], axis=1)[..., None]
    return events(above, trials)


def _outputs(errors: Ints, trials: int) -> Ints:
    """Count the two outputs, by falling share of D, on D and on D′, shape [audits, 2, 2]."""
    on = [[trials - errors[:, 0], errors[:, 0]], [errors[:, 1], trials - errors[:, 1]]]
    return np.moveaxis(np.array(on), 2, 0)
