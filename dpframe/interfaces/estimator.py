"""The public interface of estimators: they turn counts into an estimate and a bound."""

import contextlib
import inspect
import math
import typing
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpframe.claims import Claim
from dpframe.common import trees
from dpframe.common.types import Floats, HostArray, Tree
from dpframe.interfaces.attack import KINDS_OF_SCORES, Attack
from dpframe.interfaces.plugin import Plugin, require
from dpframe.interfaces.statistic import BinCounts, Statistic, count_canaries, count_scores
from dpframe.stats.roots import crossing_between
from dpframe.stats.tradeoff import certified_profile

Settled = Literal["violated", "unreachable"]
"""The reason to stop a cell: its claim is refuted, or cannot be refuted by its statistic."""

UpperOf = Literal["every event", "every cut", "chosen thresholds"]


class Query(NamedTuple):
    """The question to an estimator."""

    trials: tuple[int, int]
    """Draws counted on D and on D′."""
    delta: float
    """δ at which ε is estimated."""
    confidence: float
    """Confidence of this bound; the engine has divided the error among the cells before."""
    claim: Claim | None
    """The claim, if any."""
    resolution: float = 0.0
    """Smaller probabilities are properties of the sampler, not of the mechanism (float32: 1e-6)."""
    only: Literal["bound", "p-values"] | None = None
    """The only part of the answer that is needed; the rest may be left out. None: all of it."""


class Contrast(NamedTuple):
    """A bound and the claimed ε at one δ."""

    delta: float
    lower: float
    claimed: float


class Share(NamedTuple):
    """The bound from one event alone, and the error spent on it."""

    error: float
    """The event's share of the error; the shares of an estimate sum to at most 1."""
    epsilon_lower: float
    """Lower bound of the loss at that share; `Estimate.epsilon_lower` is the largest of them."""


class Evidence(NamedTuple):
    """The numbers from which a theorem gives the bound and the p-value, for `dpframe certify`.

    The terms of each theorem, with a share s of the error a (those that decide are enough):
    "clopper-pearson" (k, n, k′, n′, s): false positives and false negatives, each limited at as/2;
    "unconditional" (the same, of one event, or of it and its reverse): all tested together at .99a
    by `dpframe.stats.exact_test`, and each limited as by "clopper-pearson" at .01as;
    "joint" (k, n, t, n′, w, s): false and true positives, the weight and the share of
    `dpframe.stats.joint`; with w = 0 a fixed event that `dpframe.stats.exact_test` tests at as, in
    one way, for either rate, with outcomes ordered at s(1 − confidence); "total-variation"
    (k, n, t, n′, b): an event of histograms with b bins, each histogram at a/2; "one-run"
    (m, r, v, h, s): canaries, guesses, right guesses, or the sum of their weights if they have
    ranks from 1 to h > 0; "betting" (against, way, round, k, k′, g, h): draws from D and D′ in bins
    with the weights g and h, in one of two ways to bet against the bound (0), the claim (1), or it
    with resolution (2).
    """

    theorem: str
    terms: tuple[tuple[float, ...], ...]
    design: tuple[tuple[float, ...], ...] = ()
    """All events that share the error of "joint", fixed before the draws: (r, n, n′, w, s), with
    the rank r beyond which an event begins (k is then r − 1), or 0 for a fixed threshold. The
    prices of "one-run": the place of a term, ε and λ (`dpframe.stats.guesses.priced_p_value`)."""


class Estimate(NamedTuple):
    """The result of an estimator. Bounds are None if it does not certify."""

    epsilon: float
    """Point value in nats; may be inf."""
    epsilon_lower: float | None = None
    """The loss is at least this, with probability at least `Query.confidence`; finite."""
    epsilon_upper: float | None = None
    """Upper limit of the loss that *this attack* can show, at the same confidence; never a bound on
    the mechanism. Inf if the counts set no limit."""
    epsilon_upper_of: UpperOf = "chosen thresholds"
    """The events that `epsilon_upper` limits: all that the attack's decisions make, all cuts of its
    scores, or only the thresholds that the spec or the pilot chose."""
    interval: tuple[float, float] | None = None
    """Approximate or Bayesian limits on ε, or ones with further assumptions; never a bound."""
    p_value: float | None = None
    """Smallest level at which the claim is rejected, by inverting the same bound."""
    p_resolved: float | None = None
    """The same with every error rate raised by `Query.resolution`."""
    contrast: Contrast | None = None
    """Bound and claim at the δ at which the bound exceeds the claim most."""
    tradeoff: tuple[tuple[float, float], ...] = ()
    """Certified points (FPR, FNR): the mechanism's trade-off curve runs below or through each."""
    profile: tuple[tuple[float, float], ...] = ()
    """Points (ε, δ) of the estimated privacy profile."""
    notes: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
    """The error spent on each event, in an order independent of counts; empty if limits hold for
    all events at once. `dpframe calibrate` tests each share by itself."""
    profile_lower: tuple[tuple[float, float], ...] = ()
    """Certified points (ε, δ), by ascending ε: lower bounds of δ(ε), valid for all ε together.
    `estimate_from_boxes` makes them from the boxes of the bound, so they hold together with it;
    those of an anytime estimator hold separately, at the same confidence."""
    wealth: tuple[tuple[int, float], ...] = ()
    """Points (draws on each side, ln of the wealth against the claim), if `anytime`."""
    evidence: Evidence | None = None
    """Inputs of the bound and the p-value; None if no theorem of `Evidence` gave them."""


class Estimator(Plugin, kind="estimator"):
    """Turns the counts of a statistic into an estimate.

    The class declares if it certifies (its bound is valid at finite samples), and under which
    assumption. `estimate_from_boxes` derives bound, p-value and trade-off points from one function,
    so that they cannot disagree.
    """

    certifies: ClassVar[bool]
    """True if the bound is valid at finite samples; see `certifies_against`."""
    assumption: ClassVar[str]
    """The assumption under which the bound is valid."""
    anytime: ClassVar[bool] = False
    """True if `observe` gets the counts round by round, and the bound is valid at all numbers of
    trials simultaneously. Choices in a round depend on earlier rounds only."""
    reference: ClassVar[str] = ""
    """The theorem, or another source, behind its numbers. Records and reports repeat it."""
    assumes: ClassVar[str] = ""
    """Name of an assumption about the scores that a user must accept, such as "independent"; empty
    if the bound needs only what every audit provides. `dpframe score --assume` takes the name."""

    @classmethod
    def check_definition(cls) -> None:
        missing = [part for part in ("certifies", "assumption") if not hasattr(cls, part)]
        require(cls, "anytime", bool)
        methods = {"statistic": Estimator.statistic, "estimate": Estimator.estimate}
        if cls.anytime:
            methods |= {"observe": Estimator.observe, "conclude": Estimator.conclude}
        missing += [part for part, own in methods.items() if getattr(cls, part) is own]
        if missing:
            raise TypeError(f"{cls.__name__}: an estimator must have {', '.join(missing)}")
        require(cls, "certifies", bool)
        require(cls, "assumption", str)
        require(cls, "reference", str)
        require(cls, "assumes", str)

    def certifies_against(self, claim: Claim | None) -> bool:
        """True if the bound is valid for these parameters and this claim."""
        return self.certifies

    def statistic(self) -> Statistic:
        """Return the statistic whose counts `estimate` reads."""
        raise NotImplementedError

    def estimate(self, layout: Tree, counts: Tree, query: Query) -> Estimate:
        """Estimate ε from counts; runs on the host, in float64.

        Args:
            layout: what the statistic's `bind` returned.
            counts: the statistic's counts, int64.
            query: δ, confidence, claim and trials.
        """
        raise NotImplementedError

    def observe(self, state: Any, layout: Tree, counts: Tree, query: Query) -> Any:
        """Process one round; called only if `anytime` is True. Runs on the host.

        The statistic is bound to the scores of the first round, so there must be no bet on that
        round. Bets on a later round may depend only on the rounds before it.

        Args:
            state: its result for the previous round; None for the first. Opaque to the engine.
            layout: what the statistic's `bind` returned.
            counts: the statistic's counts of this round alone, int64.
            query: δ, confidence, claim and trials of this round, as many on D as on D′.

        Returns:
            The new state. The old one must not change.
        """
        raise NotImplementedError

    def settled(self, state: Any, layout: Tree, query: Query) -> Settled | None:
        """Return the settled verdict, if any; called after each round under `stop = "decided"`.

        Args:
            state: of the last round.
            layout: what the statistic's `bind` returned.
            query: δ, confidence, claim and trials; its `trials` are those of all rounds so far.

        Returns:
            "violated" once the claim is refuted at the error 1 − `confidence`; "unreachable" once
            none of the statistic's events can refute it, at the same error; else None. The default
            asks `conclude`.
        """
        estimate = self.conclude(state, layout, query)
        if estimate.p_resolved is not None and estimate.p_resolved <= 1 - query.confidence:
            return "violated"
        limit, claim = estimate.epsilon_upper, query.claim
        if claim is None or limit is None:
            return None
        return "unreachable" if limit < claim.epsilon_at(query.delta) else None

    def conclude(self, state: Any, layout: Tree, query: Query) -> Estimate:
        """Estimate from all rounds so far; arguments as for `settled`."""
        raise NotImplementedError

    def refuted(
        self, layout: Tree, counts: Tree, query: Query, rounds: Sequence[int] = ()
    ) -> HostArray:
        """Return which of many simulated audits refute the claim, to compute power.

        The default calls `estimate`, or `observe` and `settled`, for each audit, which is slow.

        Args:
            layout: what the statistic's `bind` or `lay_out` returned.
            counts: of each audit, every leaf [audits, …], or [audits, rounds, …] if `anytime`.
            query: of one audit; a claim is refuted at the error 1 − `confidence`.
            rounds: draws of each round on each dataset, if `anytime`.

        Returns:
            Booleans, shape [audits].
        """
        leaves, structure = trees.flatten(counts)

        def refutes(audit: int) -> bool:
            if not rounds:
                own = trees.unflatten(structure, (leaf[audit] for leaf in leaves))
                p_value = self.estimate(layout, own, query).p_resolved
                return p_value is not None and p_value <= 1 - query.confidence
            state, drawn = None, 0
            for number, size in enumerate(map(int, rounds)):
                own = trees.unflatten(structure, (leaf[audit, number] for leaf in leaves))
                drawn += size
                state = self.observe(state, layout, own, query._replace(trials=(size, size)))
                question = query._replace(trials=(drawn, drawn))
                if self.settled(state, layout, question) == "violated":
                    return True
            return False

        return np.array([refutes(audit) for audit in range(len(leaves[0]))])

    def estimate_scores(
        self,
        scores: tuple[HostArray, HostArray],
        query: Query,
        rng: np.random.Generator,
    ) -> Estimate:
        """Estimate from scores made elsewhere; runs on the host.

        The default gives a random tenth of them to the statistic's pilot, if it has one, and counts
        the rest.

        Args:
            scores: on D and on D′, each of shape [n]: booleans or floats.
            query: δ, confidence, claim and trials; its `trials` are the lengths of the scores.
            rng: chooses the scores of the pilot.
        """
        layout, counts, trials = count_scores(self.statistic(), scores, rng)
        return self.estimate(layout, counts, query._replace(trials=trials))

    def estimate_canaries(
        self, scores: HostArray, members: HostArray, query: Query, rng: np.random.Generator
    ) -> Estimate:
        """Estimate from the canaries of one run, or several, made elsewhere; runs on the host.

        The default counts each run as one release, if the statistic takes canaries.

        Args:
            scores: larger means more like a member, shape [m], or [runs, m] of independent runs.
            members: True for the canaries that were in, by fair coins; of the same shape.
            query: δ, confidence, claim and trials.
            rng: for estimators that need it.
        """
        layout, counts = count_canaries(self.statistic(), scores, members)
        runs = len(np.atleast_2d(scores))
        return self.estimate(layout, counts, query._replace(trials=(runs, 0)))

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Tree:
        """Return the strongest possible counts against any claim at this number of trials.

        They decide between `consistent` and `inconclusive`. Required if `certifies` is True.
        """
        raise NotImplementedError


def exchange(cls: type[Plugin]) -> dict[str, Any]:
    """Return the interface of an attack or estimator class as JSON values; {} for other kinds.

    An attack: `gives`, "decision", "score" or "canaries". An estimator: `takes`, those of them that
    its statistic accepts; `bins`, True if it counts scores in bins, False for thresholds;
    `raw_scores`, True if it reads scores made elsewhere as they are; `certifies`, `assumption` and
    `reference`. Values that depend on parameters are None.
    """
    if issubclass(cls, Attack):
        return {"gives": cls.gives}
    if not issubclass(cls, Estimator):
        return {}
    statistic = _statistic(cls)
    accepts = getattr(statistic, "accepts", None)
    return {
        "takes": None if accepts is None else [kind for kind in KINDS_OF_SCORES if kind in accepts],
        "bins": None if statistic is None else issubclass(statistic, BinCounts),
        "raw_scores": cls.estimate_scores is not Estimator.estimate_scores,
        "certifies": cls.certifies,
        "assumption": cls.assumption,
        "reference": cls.reference or None,
    }


def _statistic(cls: type[Estimator]) -> type[Statistic] | None:
    """Return the class of the statistic with default parameters, else the annotated one."""
    # Plugin code may need parameters without a default, or fail; neither is reported here.
    with contextlib.suppress(Exception, SystemExit):
        return type(cls().statistic())
    with contextlib.suppress(Exception):
        statistic = typing.get_type_hints(cls.statistic).get("return")
        if (
            inspect.isclass(statistic)
            and issubclass(statistic, Statistic)
            and statistic is not Statistic
        ):
            return statistic
    return None


# Bounds on ε, p-values and trade-off points from joint limits on both error rates. A box is a pair
# (FPR_up, FNR_up) of upper limits for one way of deciding between D and D′. A staircase is a union
# of boxes; the error rates lie in one of them. If a set of them holds simultaneously with
# probability 1 − a, everything derived from it here does.


SMALLEST_P = 1e-300  # p-values are floored here, never 0
TOLERANCE = 1e-13  # of ln(p), relative to 1 + ln(p / smallest p)


def estimate_from_boxes(
    boxes: Callable[[float], Floats],
    query: Query,
    *,
    epsilon: float,
    epsilon_upper: float | None = None,
    epsilon_upper_of: UpperOf = "chosen thresholds",
    profile: tuple[tuple[float, float], ...] = (),
    notes: tuple[str, ...] = (),
    shares: Sequence[float] = (),
    evidence: Evidence | None = None,
) -> Estimate:
    """Build a certified estimate.

    Args:
        boxes: maps an error level a in (0, 1] to upper limits (FPR, FNR), shape [k, 2] for k boxes
            or [k, corners, 2] for k staircases, that hold together with probability at least 1 − a,
            including all choices that depend on the counts. Must shrink as a grows.
        query: δ, confidence, claim and trials.
        epsilon: the point value.
        epsilon_upper: limit of the loss that this attack can show, at the same confidence.
        epsilon_upper_of: the events that it limits.
        profile: points (ε, δ) of the estimated privacy profile.
        notes: remarks for the record.
        shares: of the error, one per box or staircase, if each alone fails with no more than its
            share of it; sum to at most 1.
        evidence: the inputs of the boxes.
    """
    at_level = boxes(1 - query.confidence)
    claim = query.claim
    p_value = p_resolved = contrast = None
    if claim is not None:
        p_value = _smallest_level(boxes, claim, 0.0)
        p_resolved = (
            _smallest_level(boxes, claim, query.resolution, least=p_value)
            if query.resolution
            else p_value
        )
        # Compared at the δ at which the bound exceeds the claim most.
        contrasts = [
            Contrast(delta, epsilon_of(at_level, delta), claim.epsilon_at(delta))
            for delta in claim.telling_deltas
        ]
        contrast = max(contrasts, key=lambda one: one.lower - one.claimed)
    return Estimate(
        epsilon=epsilon,
        epsilon_lower=epsilon_of(at_level, query.delta),
        epsilon_upper=epsilon_upper,
        epsilon_upper_of=epsilon_upper_of,
        p_value=p_value,
        p_resolved=p_resolved,
        contrast=contrast,
        tradeoff=tuple((float(x), float(y)) for x, y in _staircases(at_level).max(axis=1)),
        profile=profile,
        profile_lower=certified_profile(at_level),
        notes=notes,
        shares=tuple(
            Share(share, epsilon_of(box[None], query.delta))
            for share, box in zip(shares, at_level, strict=bool(shares))
        ),
        evidence=evidence,
    )


def epsilon_of(boxes: Floats, delta: float) -> float:
    """Return the largest ε ≥ 0 that the boxes rule out at δ: sup {ε : some box lies below f_{ε,δ}}.

    max over boxes (x, y) of ln((1 − δ − y)/x) and ln((1 − δ − x)/y) [Kairouz2015, theorem 2.1]
    [Koskela2024, equation 6.2]; of a staircase, the least over its corners. Boxes have shape [k, 2]
    or [k, corners, 2].
    """
    corners = _staircases(boxes)
    if not corners.size:
        return 0.0
    both = np.stack([corners, corners[..., ::-1]])
    heights = 1 - delta - both[..., 1]
    useful = heights > 0
    with np.errstate(divide="ignore"):  # a limit that is rounded to 0
        ratios = np.where(useful, heights, 0.0) / np.where(useful, both[..., 0], 1.0)
    # The better direction for each corner, the worst corner of each staircase, the best staircase.
    worst = ratios.max(axis=0).min(axis=1)
    best = float(worst[np.isfinite(worst)].max(initial=0.0))  # an infinite one shows nothing
    return math.log(best) if best > 1 else 0.0


def _depth(boxes: Floats, claim: Claim) -> float:
    """Return how far the lowest box or staircase lies below the claim; not above 0 if none does."""
    if not boxes.size:
        return -math.inf
    corners = np.minimum(np.maximum(_staircases(boxes), 0.0), 1.0)  # faster than np.clip
    below = claim.tradeoff(corners[..., 0]) - corners[..., 1]
    return float(below.min(axis=1).max())


def _staircases(boxes: Floats) -> Floats:
    """Return boxes as staircases with one corner, and staircases as they are."""
    return boxes[:, None, :] if boxes.ndim == 2 else boxes


def _smallest_level(
    boxes: Callable[[float], Floats], claim: Claim, slack: float, least: float = SMALLEST_P
) -> float:
    """Find the least a ≥ `least` at which `boxes(a) + slack` rejects the claim."""
    origin = math.log(least)

    def depth(log_ratio: float) -> float:
        return _depth(boxes(min(1.0, math.exp(origin + log_ratio))) + slack, claim)

    low, high = (0.0, depth(0.0)), (-origin, depth(-origin))
    if not high[1] > 0:
        return 1.0
    if low[1] > 0:
        return least
    crossing = crossing_between(depth, high, low, tolerance=TOLERANCE)
    return math.exp(origin + crossing[1])
