"""Choose the events to test from the counts of a pilot; limit what the cuts of a score can show."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from dpframe.builtin.events import CAUTION, Bins, Events, Family, Shown, loss_of
from dpframe.plugins import Claim, Floats, HostArray, Ints, Query
from dpframe.stats import binomial, joint
from dpframe.stats.exact_test import EventCounts, loss_shown

BESIDE = 4.0
"""Ratio of the ranks tried together: the chosen one, a rarer one and a more frequent one."""

SHARES = (0.2, 0.6, 0.2)

CLAIM_SHARE = 0.3
"""Share of the error for an event against the claim, if the claim is about more than one δ."""

EXACT_SHARE = 0.98
"""Share of the error of an exactly tested event. Its p-values far below the error are weak, so the
event at the best rank keeps the rest: p-values are at most about 50 times its own."""

FEWEST_SEEN = 3
"""Errors of each kind in the pilot for an exact test. The rate of a rarer event is too uncertain
to fix a threshold; the rate beyond a rank does not depend on the pilot."""

TYPICAL = special.ndtri((np.arange(5) + 0.5) / 5)  # standard errors at which counts are predicted


class ChosenEvent(NamedTuple):
    """An event that is chosen before the draws on which it is tested."""

    family: Family
    cut: int  # its number of bins
    rank: int
    """Rank of the false score beyond which the event begins; 0: the event is the fixed cut."""
    weight: float
    """0: tested exactly, see `Events`."""
    share: float

    def events(self, counts: Ints) -> Events:
        """Return the event with its counts, given those of all bins, shape [2, bins]."""
        ladder = self.family.bins(counts)
        if self.rank:
            ranks = np.array([min(self.rank, ladder.trials_false)])
            false, true = ranks - 1, ladder.at_rank(ranks)
        else:
            false, true = ladder.false[[self.cut]], ladder.true[[self.cut]]
        trials = np.array([[ladder.trials_false], [ladder.trials_true]])
        return Events(
            false,
            trials[0],
            true,
            trials[1],
            np.array([self.weight]),
            np.array([self.share]),
            np.array([bool(self.rank)]),
        )


def choose(
    pilot: Ints, families: Sequence[Family], query: Query, share: float, *, exact: bool = False
) -> list[ChosenEvent]:
    """Choose events for a bound at the query's δ, and one against its claim, by the pilot's counts.

    A claim about more than one δ may be refuted best by another event, so only such a claim gets
    an event of its own. The events divide `share` of the error among them. If `exact`, most of it
    goes to one fixed event that is tested exactly, unless the pilot saw too little of it.
    """
    views = [_View(family, family.bins(pilot), query) for family in families]
    best = max(views, key=lambda view: float(view.promise.max()))
    at = int(best.promise.argmax())
    claim, kept = query.claim, 1.0
    if claim is not None and claim.telling_deltas != (query.delta,):
        kept -= CLAIM_SHARE
    chosen = best.around(at, kept * share)
    if exact:
        own = EXACT_SHARE * kept * share
        # The complement of an event begins at the other end, and the test looks at both rates.
        tested = [view.exactly(own) for view in views if view.family.top]
        seen, event = max(tested, key=lambda found: found[0])[1:]
        if seen >= FEWEST_SEEN:
            chosen = [event, best.event(at, 1.0, kept * share - own)]
    if claim is None or kept == 1:
        return chosen
    strengths = [view.against(claim) for view in views]
    strongest = int(np.argmax([strength.max() for strength in strengths]))
    cut = int(strengths[strongest].argmax())
    return [*chosen, views[strongest].event(cut, 1.0, CLAIM_SHARE * share)]


class _View:
    """One family of events as the pilot saw it."""

    def __init__(self, family: Family, ladder: Bins, query: Query) -> None:
        self.family, self.ladder = family, ladder
        self.trials = (query.trials[1 - family.says], query.trials[family.says])
        self.error, self.delta = 1 - query.confidence, query.delta
        false, true = ladder.false.astype(np.float64), ladder.true.astype(np.float64)
        self.fpr = np.maximum(false, 1) / ladder.trials_false
        self.tpr = true / ladder.trials_true
        self.cautious_fpr = _upper(np.maximum(false, 1), CAUTION) / ladder.trials_false
        self.cautious_tpr = _lower(true, ladder.trials_true, CAUTION) / ladder.trials_true

    @property
    def promise(self) -> Floats:
        """Predict the bound on ε of every cut, shape [bins + 1]; −inf for none."""
        fpr, tpr = self.cautious_fpr, self.cautious_tpr
        n, n_true = self.trials
        weight = self.weights(fpr, tpr)
        z = -special.ndtri((1 - 2 * joint.CAP) * self.error)
        low = _lower(n_true * tpr, n_true, z * np.sqrt(1 - weight**2)) / n_true - self.delta
        high = _upper(np.maximum(n * fpr, 1), z * weight) / n
        return np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -np.inf)

    def exactly(self, share: float) -> tuple[float, int, ChosenEvent]:
        """Return the best event for an exact test, which orders outcomes by a limit of the loss.

        The result is the mean of this limit, the errors of the rarer kind that the pilot saw, and
        the event.
        """
        n, n_true = self.trials
        # A complement that the pilot never missed may be missed later.
        tpr = np.minimum(self.cautious_tpr, 1 - _upper(1.0, CAUTION) / self.ladder.trials_true)
        outcomes = EventCounts(
            _typical(n, self.cautious_fpr)[:, :, None], n, _typical(n_true, tpr)[:, None], n_true
        )
        level = share * self.error
        shown = loss_shown(outcomes, self.delta, either_rate=True, level=level)
        means = np.maximum(shown, 0).mean(axis=(1, 2))
        cut = int(means.argmax())
        seen = min(self.ladder.false[cut], self.ladder.trials_true - self.ladder.true[cut])
        return float(means[cut]), int(seen), ChosenEvent(self.family, cut, 0, 0.0, share)

    def weights(self, fpr: Floats, tpr: Floats) -> Floats:
        """Return the share of the false positives in the standard error of ln((TPR − δ)/FPR)."""
        n, n_true = self.trials
        false = 1 / np.maximum(n * fpr, 1)
        above = np.maximum(tpr - self.delta, 1e-9)
        true = np.maximum(tpr * (1 - tpr), 1 / n_true) / n_true / above**2
        return np.asarray(np.clip(np.sqrt(false / (false + true)), 0.5, 0.995), np.float64)

    def against(self, claim: Claim) -> Floats:
        """Predict by how many standard errors every cut lies below the claimed curve."""
        x, y = self.cautious_fpr, 1 - self.cautious_tpr
        inside = np.clip(x, 0, 1)
        step = 1e-4 * np.minimum(inside, 1 - inside) + 1e-12
        f = claim.tradeoff(inside)
        slope = (claim.tradeoff(np.clip(inside + step, 0, 1)) - f) / step
        n, n_true = self.trials
        noise = np.sqrt(
            slope**2 * np.maximum(inside * (1 - inside), 1 / n) / n
            + np.maximum(y * (1 - y), 1 / n_true) / n_true
        )
        return np.asarray((f - y) / noise, np.float64)

    def around(self, cut: int, share: float) -> list[ChosenEvent]:
        """Return the event at a cut, and a rarer and a more frequent one."""
        factors = (1 / BESIDE, 1.0, BESIDE)
        chosen: dict[tuple[int, int], ChosenEvent] = {}
        for factor, part in zip(factors, SHARES, strict=True):
            event = self.event(cut, factor, share * part)
            key = (event.cut if event.rank == 0 else -1, event.rank)
            if key in chosen:  # the same event again gets the share of both
                event = event._replace(share=event.share + chosen[key].share)
            chosen[key] = event
        return list(chosen.values())

    def event(self, cut: int, factor: float, share: float) -> ChosenEvent:
        """Return an event with `factor` times as many false positives as a cut."""
        ladder, (n, _) = self.ladder, self.trials
        wanted = self.fpr[cut] * factor
        if factor != 1:
            last = len(ladder.false) - 1
            cut = int(np.clip(np.searchsorted(self.fpr, wanted, side="right") - 1, 0, last))
        # Ties show in the steps with false scores on both sides of the cut.
        filled = np.unique(ladder.false)
        at = int(np.searchsorted(filled, ladder.false[cut]))
        steps = np.diff(filled[max(at - 1, 0) : at + 2])
        tie = n * steps.max(initial=0) / ladder.trials_false
        # The limit beyond a rank counts all ties as beyond it; the limit at a fixed cut does not.
        fixed = tie > 1
        rank = 0 if fixed else int(np.clip(round(n * wanted), 1, max(1, n // 2)))
        weight = self.weights(self.fpr[[cut]], self.tpr[[cut]])[0]
        return ChosenEvent(self.family, cut, rank, float(weight), share)


def _typical(trials: int, rate: Floats) -> Ints:
    """Return quantiles of binomial counts at rates, shape [rates, quantiles]."""
    rarer = np.clip(np.minimum(rate, 1 - rate), 1e-9, 0.5)[:, None]
    counts = _upper(trials * rarer, TYPICAL * np.sqrt(1 - rarer))
    counts = np.round(np.clip(counts, 0, trials / 2)).astype(np.int64)
    return np.where(rate[:, None] > 0.5, trials - counts, counts)


def _upper(count: Floats | float, z: Floats | float) -> Floats:
    """Return the upper limit of a Poisson mean, z standard errors up [Wilson1931]."""
    return np.asarray(count * (1 - 1 / (9 * count) + z / (3 * np.sqrt(count))) ** 3, np.float64)


def _lower(count: Floats, trials: int, z: Floats | float) -> Floats:
    """Approximate the lower limit of a binomial mean, z standard errors down; 0 for none."""
    some = np.maximum(count, 1e-3)
    spread = z * np.sqrt(np.maximum(1 - some / trials, 0)) / (3 * np.sqrt(some))
    return np.asarray(
        np.where(count > 0, some * np.maximum(1 - 1 / (9 * some) - spread, 0) ** 3, 0.0),
        np.float64,
    )


# Upper limits of the loss that the cuts of an attack's score can show.
#
# A cut is {score ≥ t} or {score > t} for any t, or its complement. A cut between two edges has at
# most the probability of the lower edge's cut and at least that of the upper one's, so limits at
# the edges limit all cuts. All cuts together need no more error than one: the largest limit is
# too small only if the limit of the best cut is, and the best cut does not depend on the counts.
# Each cut has two limits, one for each dataset, at half of the error each.


TELLING = 1.0
"""Largest accepted excess of the limit for all cuts over that for the chosen thresholds. A larger
excess reflects how few rare scores were counted, not what the attack shows."""


def largest_shown(
    chosen: Sequence[ChosenEvent], counts: Ints, query: Query, edges: HostArray | None = None
) -> Shown:
    """Limit the loss of every cut of the score, or of the cuts that a pilot chose.

    All cuts are limited only if the trials suffice for any counts; each limit then gets half of the
    error. Both limits hold together, so the counts may decide which one is reported. `edges` is
    None if the bins are not in the order of the score.
    """
    error = 1 - query.confidence
    half = error / 2
    if edges is None or not possible(query.trials, query.delta, half):
        return Shown(_of_chosen(chosen, counts, query.delta, error), "chosen thresholds")
    some = _of_chosen(chosen, counts, query.delta, half)
    every = every_cut_shows(counts, edges, query.delta, half)
    if every <= some + TELLING:
        return Shown(every, "every cut")
    return Shown(some, "chosen thresholds")


def _of_chosen(chosen: Sequence[ChosenEvent], counts: Ints, delta: float, error: float) -> float:
    """Return an upper limit of the loss that the chosen cuts show, for either dataset."""
    each = error / 2  # see above
    losses = [0.0]
    for one in chosen:
        ladder = one.family.bins(counts)
        false, true = ladder.false[one.cut], ladder.true[one.cut]
        n, n_true = ladder.trials_false, ladder.trials_true
        lows = binomial.clopper_pearson_lower([false, true], [n, n_true], each).tolist()
        highs = binomial.clopper_pearson_upper([false, true], [n, n_true], each).tolist()
        losses += [loss_of(lows[0], highs[1], delta), loss_of(lows[1], highs[0], delta)]
    return max(losses)


class _Limits(NamedTuple):
    """Limits of the probabilities of events on D and on D′, each of shape [2, cuts]."""

    low: Floats
    high: Floats


def possible(trials: tuple[int, int], delta: float, error: float) -> bool:
    """True if this number of trials can limit every cut, whatever the counts are.

    An event that never happened may still have a probability of about 1/n. Events beyond the
    outermost edges are harmless only if that is below δ.
    """
    if not all(trials):
        return False
    never = binomial.clopper_pearson_upper([0, 0], list(trials), error / 2)
    return bool((never <= delta).all())


def every_cut_shows(counts: Ints, edges: HostArray, delta: float, error: float) -> float:
    """Limit the loss of every cut of the score, in both directions, from above; inf for none.

    `counts` are those of `BinCounts`, shape [2, edges + 2]; `edges` ascend, in the dtype of scores.
    """
    tops, bottoms = _limits(counts, error / 2)
    exact = np.arange(1, counts.shape[1])
    inner = np.flatnonzero(~_atoms(edges))
    shown = [0.0]
    for lower, upper in ((exact, exact), (inner, inner + 1)):
        for says in (0, 1):
            shown.append(_loss(tops.high[says][lower], tops.low[1 - says][upper], delta))
            shown.append(_loss(bottoms.high[says][upper], bottoms.low[1 - says][lower], delta))
    return max(shown)


def _atoms(edges: HostArray) -> HostArray:
    """Mark the bins that hold one value only, so that no cut divides them, shape [edges + 2]."""
    infinite = np.array([np.inf], edges.dtype)
    first, last = np.concatenate([-infinite, edges]), np.concatenate([edges, infinite])
    with np.errstate(over="ignore"):
        several = np.nextafter(first, infinite) < last
    # The last bin ends with infinity itself.
    several[-1] = edges[-1] < np.inf
    return np.concatenate([[True], ~several])


def _limits(counts: Ints, each: float) -> tuple[_Limits, _Limits]:
    """Limit Pr[score in a bin or later] and Pr[before it]; the last cut is after all bins."""
    trials = counts.sum(axis=1)
    below = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
    rarer = np.minimum(below, trials[:, None] - below)
    low, high = np.zeros(below.shape), np.zeros(below.shape)
    for dataset, n in enumerate(trials):
        seen, where = np.unique(rarer[dataset], return_inverse=True)
        low[dataset] = binomial.clopper_pearson_lower(seen, n, each)[where]
        high[dataset] = binomial.clopper_pearson_upper(seen, n, each)[where]
    high[:, [0, -1]] = 0  # nothing is before the first bin or after the last; this is exact
    # The limits of the complement, from the rarer side, where they have all their digits.
    rare = below <= trials[:, None] - below
    bottoms = _Limits(np.where(rare, low, 1 - high), np.where(rare, high, 1 - low))
    tops = _Limits(np.where(rare, 1 - high, low), np.where(rare, 1 - low, high))
    return tops, bottoms


def _loss(true: Floats, false: Floats, delta: float) -> float:
    """Return the largest ln((Pr[true] − δ)/Pr[false]); −inf if no event has more than δ."""
    above = true - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(np.where(above > 0, above, 0) / false)
    return float(np.where(above > 0, ratios, -np.inf).max(initial=-np.inf))
