"""Compute the probability that a cell refutes its claim if the true loss is larger.

A true loss ε stands for one pair of distributions. For a claim at one δ it is randomised response
with (ε, δ), from whose outputs those of every such pair can be made [Kairouz2015, theorem 2.1]. For
a claim of Gaussian or Laplace noise it is the same noise with this ε at the cell's δ. The attack
is perfect: it decides with equal error rates, f(x) = x on the pair's curve.

The estimator itself turns counts into `p_resolved`. With a fixed number of trials, the numbers of
false positives and false negatives are binomial, and the pairs that refute the claim lie below an
edge. The edge is found at some numbers of false positives, more where it bends, and interpolated;
power is then a sum. Bets and canaries are simulated, audit by audit.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpframe.claims import GaussianDP, LaplaceDP
from dpframe.common import trees
from dpframe.common.arrays import jax, jnp
from dpframe.common.types import Tree
from dpframe.count import rounds
from dpframe.count.plan import Pass, Plan
from dpframe.draw import trace
from dpframe.engine import ledger
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimate, Estimator, Query
from dpframe.interfaces.plugin_calls import call_plugin, certifies
from dpframe.interfaces.statistic import Statistic
from dpframe.results.model import CellRecord, PowerRecord
from dpframe.results.verdict import CONSISTENT, FIRST_LOOK, Looks, judged
from dpframe.spec.audit import Cell
from dpframe.stats.gaussian import gaussian_mu_at
from dpframe.stats.roots import crossing

REACH = 4.5  # standard deviations around the mean within which counts are summed
STRAIGHT = 0.02  # standard deviations, or one count, by which the edge may bend between places
LARGEST_LOSS, MOST_DOUBLINGS = 60.0, 30.0
AUDITS, LEAST_AUDITS, ROUGH_AUDITS = (
    20_000,
    2500,
    200,
)  # simulated: usually, at least, and for a first guess
SEARCHES = 1600  # simulated; each takes hundredths of a second
MOST_DRAWS = 10_000_000  # trials or canaries of all simulated audits, beyond which they are fewer
AT_ONCE, MOST_COUNTS = 200, 2**24  # audits with canaries, and counts, that are held at once


class PowerQuestion(NamedTuple):
    """The part of a cell that determines its power."""

    estimator: Estimator
    query: Query
    level: float
    """Largest `p_resolved` that refutes the claim, as in the first step of Holm's correction."""
    scores: str = "bool"
    """Type of the scores; bool for decisions."""
    pilot: int = 0
    """Draws per dataset of the pilot."""
    rows: int = rounds.FIRST_ROUND
    """Rows of a chunk, by which rounds end. A search draws whole chunks."""
    canaries: int = 0
    search: Callable[[PowerQuestion, float, np.random.Generator], bool] | None = None
    """Simulates a search for a true loss; True if it refutes the claim. None for a cell."""

    @property
    def size(self) -> int:
        """Trials per dataset, or canaries."""
        return self.canaries or self.query.trials[0]

    def of(self, size: int) -> PowerQuestion:
        """Return the same question about another number of trials, or of canaries."""
        if self.canaries:
            return self._replace(canaries=size)
        return self._replace(query=self.query._replace(trials=(size, size)))

    @property
    def claimed(self) -> float:
        """The claimed ε at the cell's δ."""
        assert self.query.claim is not None
        return self.query.claim.epsilon_at(self.query.delta)

    @property
    def simulated(self) -> bool:
        """True if power is simulated and not computed."""
        return self.canaries > 0 or self.search is not None or type(self.estimator).anytime

    @property
    def model(self) -> str | None:
        """Name of the pair that stands for a true loss; None if there is none."""
        claim, delta = self.query.claim, self.query.delta
        if isinstance(claim, LaplaceDP):
            return "Laplace noise" if delta == 0 else None
        if claim is not None and len(claim.telling_deltas) == 1:
            return "randomised response"
        return "Gaussian noise" if isinstance(claim, GaussianDP) and delta > 0 else None

    def rate(self, loss: float) -> float:
        """Return FPR = FNR of the attack at a true loss."""
        if self.model == "Laplace noise":
            return math.exp(-loss / 2) / 2
        if self.model == "Gaussian noise":
            return float(special.ndtr(-float(gaussian_mu_at(loss, self.query.delta)) / 2))
        return (1 - self.query.delta) / (1 + math.exp(loss))


def question_of(
    cell: Cell, plan: Plan, the_pass: Pass, looks: Looks = FIRST_LOOK
) -> PowerQuestion | str:
    """Return the question about a cell, or the reason why its power is not computed."""
    estimator, gives = cell.estimator.value, cell.attack.value.gives
    if cell.claim is None or not certifies(estimator, cell.claim):
        return "no claim that the estimator can refute"
    run = trace.resolved(plan.audit.run, the_pass.mechanisms[0], cell.trials)
    factor = 1 if plan.audit.multiplicity == "none" else max(1, plan.m)
    question = PowerQuestion(
        estimator,
        ledger.query_of(cell, plan, (cell.trials, cell.trials), looks),
        (1 - cell.confidence) / factor / looks.price,
        "bool" if gives == "decision" else run.precision,
        min(run.pilot or 0, cell.trials) if estimator.statistic().needs_pilot() else 0,
        the_pass.rows if the_pass.anytime else rounds.FIRST_ROUND,
        the_pass.shape.dims[-1] if gives == "canaries" else 0,
    )
    try:
        hash(question)
    except TypeError:  # a plugin that cannot be hashed, so its power cannot be cached
        return "the parameters of the estimator cannot be compared"
    if question.model is None:
        return "no model of a loss for a claim with this curve"
    return question if 0 < question.claimed < LARGEST_LOSS else "the claimed ε is 0 or too large"


class TwoValued:
    """The estimates of an estimator for k false positives and u false negatives.

    A pilot has `pilot` draws per dataset, of which `errors` are wrong. `look_at` checks each
    estimate.
    """

    def __init__(
        self,
        estimator: Estimator,
        query: Query,
        dtype: Any,
        pilot: int,
        errors: int,
        look_at: Callable[[Estimate], Estimate] = lambda estimate: estimate,
    ) -> None:
        self.estimator, self.query, self.trials = estimator, query, query.trials[0]
        self._look_at = look_at
        self._made: dict[tuple[int, int], Estimate] = {}
        self._edges: dict[int, int] = {}
        statistic, self.layout = estimator.statistic(), ()
        if statistic.needs_pilot():
            scores = [(np.arange(pilot) < n).astype(dtype) for n in (errors, pilot - errors)]
            self.layout = call_plugin("bind", lambda: statistic.bind(*scores))

        def counts_of_one(dataset: int, value: int) -> Any:
            score, zero = jnp.array([value], dtype), statistic.zero(self.layout)
            own = self.layout, zero, jnp.int32(dataset), score, jnp.array([True])
            counts = call_plugin("update", statistic.update, *own)
            return trees.map(lambda leaf: np.asarray(leaf, np.int64), counts)

        self._ones = [counts_of_one(dataset, value) for dataset in (0, 1) for value in (0, 1)]
        self.size = sum(leaf.size for leaf in trees.leaves(self._ones[0]))

    def counts(self, k: Any, u: Any, trials: Any) -> Any:
        """Return the counts of k false positives and u false negatives; both may be arrays."""
        times = [np.asarray(n) for n in (trials - k, k, u, trials - u)]
        return trees.map(
            lambda *leaves: sum(
                np.multiply.outer(n, leaf) for n, leaf in zip(times, leaves, strict=True)
            ),
            *self._ones,
        )

    def estimate(self, k: int, u: int) -> Estimate:
        """Return the estimate, computed once."""
        if (k, u) not in self._made:
            own = self.layout, self.counts(k, u, self.trials), self.query
            self._made[k, u] = self._look_at(call_plugin("estimate", self.estimator.estimate, *own))
        return self._made[k, u]

    def edge(self, k: int, level: float) -> int:
        """Return the most false negatives that refute the claim beside k false positives, or −1."""
        if k in self._edges:
            return self._edges[k]
        low, high, step = -1, self.trials - k + 1, self.trials
        u = high // 2
        if self._edges:  # the sum of errors hardly changes from a neighbour's edge
            near = min(self._edges, key=lambda other: abs(other - k))
            u, step = self._edges[near] + near - k, 1 + abs(k - near) // 16
        while high - low > 1:
            u = min(max(u, low + 1), high - 1)
            p_resolved = self.estimate(k, u).p_resolved
            if p_resolved is not None and p_resolved <= level:
                low, u = u, u + step
            else:
                high, u = u, u - step
            step *= 2
            if not low < u < high:
                u = (low + high) // 2
        self._edges[k] = low
        return low


@functools.lru_cache(maxsize=64)
def _table(question: PowerQuestion) -> TwoValued:
    """Return the estimates of a question, with the pilot expected under the claim."""
    # The first round of bets is their pilot.
    pilot = rounds.FIRST_ROUND if question.simulated else question.pilot
    errors = round(question.rate(question.claimed) * pilot)
    dtype = np.dtype(question.scores)
    with jax.enable_x64(question.scores == "float64"):
        return TwoValued(question.estimator, question.query, dtype, pilot, errors)


def power(question: PowerQuestion, loss: float) -> float:
    """Return the probability that a claim is refuted at a true loss."""
    if question.simulated:
        return simulated_power(question, loss)
    n, rate, table = question.size, question.rate(loss), _table(question)
    deviation = max(1.0, math.sqrt(n * rate * (1 - rate)))
    low = max(0, math.floor(n * rate - REACH * deviation))
    high = min(n, math.ceil(n * rate + REACH * deviation))

    def edge(k: int) -> int:
        return min(max(table.edge(k, question.level), low - 1), high)

    def nodes(start: int, end: int) -> list[int]:
        """Return numbers from `start` to before `end` between which the edge is straight."""
        middle = (start + end) // 2
        bend = abs(edge(start) + edge(end) - 2 * edge(middle))
        if middle == start or bend <= max(1.0, STRAIGHT * deviation):
            return sorted({start, middle})
        return nodes(start, middle) + nodes(middle, end)

    # Steps are powers of two, so that rates near each other ask for the same edges. They are short,
    # and the edge is rounded to the nearest count, so that errors of interpolation cancel.
    step = 2 ** math.floor(math.log2(max(1.0, deviation / 2)))
    grid = [min(k, n) for k in range(low // step * step, high + step, step)]
    known_at = [k for pair in itertools.pairwise(grid) for k in nodes(*pair)] + grid[-1:]
    false_positives = np.arange(low, high + 1)
    edges = np.rint(np.interp(false_positives, known_at, list(map(edge, known_at))))
    mass = np.diff(special.bdtr(false_positives, n, rate), prepend=0.0)
    reached = np.where(edges >= 0, special.bdtr(np.maximum(edges, 0), n, rate), 0.0)
    return float(mass @ reached)


@functools.lru_cache(maxsize=256)
def simulated_power(question: PowerQuestion, loss: float, audits: int = AUDITS) -> float:
    """Return the share of simulated audits with bets or canaries that refute a claim.

    The share is the mean over strata of equal probability, by the total number of errors, which
    halves the variance. A share of .8 has a standard error of about .002, and of at most .01 if
    simulations are slow. For searches it is .01, and two of them are subtracted.
    """
    estimator, rng, rate = question.estimator, np.random.default_rng(1), question.rate(loss)
    query = question.query._replace(confidence=1 - question.level)
    if question.search is not None:
        audits = min(audits, SEARCHES)
        share = sum(question.search(question, loss, rng) for _ in range(audits)) / audits
        # The model is approximate, and a power that is too large would be worse.
        return max(0.0, share - 2 * math.sqrt(share * (1 - share) / audits))
    audits = min(audits, max(LEAST_AUDITS, MOST_DRAWS // question.size))
    parts, errors, each = [], [], AT_ONCE
    if not question.canaries:
        stops = rounds.ends(question.size, question.rows, whole=False)
        table, sizes = _table(question.of(rounds.FIRST_ROUND)), np.diff(stops, prepend=0)
        each = max(1, MOST_COUNTS // len(sizes) // table.size)
    for first in range(0, audits, each):
        if question.canaries:
            layout, counts, wrong = _guessed(question, rate, rng)
            errors.append(wrong)
            own: Any = layout, counts, query
        else:
            shape = min(each, audits - first), len(sizes), 2
            wrong = rng.binomial(sizes[:, None], rate, shape)
            counts = table.counts(wrong[..., 0], wrong[..., 1], sizes)
            own = table.layout, counts, query, sizes.tolist()
            errors.append(wrong.sum(axis=(1, 2)))
        parts.append(call_plugin("refuted", estimator.refuted, *own))
    detected, total = np.concatenate(parts), np.concatenate(errors)
    n = question.canaries * sum(query.trials) or 2 * question.size
    strata = max(1, len(total) // 100)
    # Uniform on [0, 1): the quantile of the number of errors, at random within that of one number.
    below = 1 - special.bdtrc(total - 1, n, rate)
    quantile = below + rng.random(len(total)) * (special.bdtr(total, n, rate) - below)
    place = np.clip((strata * quantile).astype(int), 0, strata - 1)
    of_each = np.bincount(place, minlength=strata)
    shares = np.bincount(place, detected, strata)[of_each > 0] / of_each[of_each > 0]
    return float(shares.mean())


def _guessed(
    question: PowerQuestion, rate: float, rng: np.random.Generator
) -> tuple[Tree, Any, Any]:
    """Return the layout, the counts and the errors of some simulated audits with canaries."""
    statistic, m = question.estimator.statistic(), question.canaries
    layout = call_plugin("lay_out", statistic.lay_out, (2, m))
    zero = call_plugin("zero", statistic.zero, layout)
    counts = trees.map(lambda leaf: np.zeros((AT_ONCE, *leaf.shape), leaf.dtype), zero)
    wrong = np.zeros(AT_ONCE, np.int64)
    for dataset, runs in enumerate(question.query.trials):
        member = rng.random((AT_ONCE, runs, m)) < 0.5
        right = rng.random((AT_ONCE, runs, m)) >= rate
        scores = np.stack([member == right, member], axis=2).astype(np.float32)
        own = layout, counts, jnp.int32(dataset), scores, np.ones(runs, bool)
        counts = call_plugin("update", _compiled(statistic), *own)
        wrong += (~right).sum(axis=(1, 2))
    return layout, trees.map(lambda leaf: np.asarray(leaf, np.int64), counts), wrong


@functools.lru_cache(maxsize=8)
def _compiled(statistic: Statistic) -> Any:
    return jax.jit(jax.vmap(statistic.update, (None, 0, None, 0, None)))


@functools.lru_cache(maxsize=1024)
def detectable(question: PowerQuestion, probability: float) -> float | None:
    """Return the smallest true loss detected with a probability; None if there is none.

    In simulations the probability has the standard error of `simulated_power`.
    """
    claimed, rise = question.claimed, _rise(question, probability)
    guess = min(1.0, math.sqrt(_effort(question, probability) / question.size))
    own = question.simulated, probability, guess, guess, LARGEST_LOSS, lambda x: rise / x
    excess = _root(lambda x: (question, claimed + x), *own)
    return claimed + excess if excess < LARGEST_LOSS else None


def trials_needed(question: PowerQuestion, loss: float, probability: float) -> int | None:
    """Return the trials per dataset, or canaries, that detect a true loss with a probability."""
    if loss <= question.claimed:
        return None
    guess = math.log2(1 + _effort(question, probability) / (loss - question.claimed) ** 2)
    # Φ⁻¹(power) grows with the square root of the number.
    rise = _rise(question, probability) * math.log(2) / 2
    own = question.simulated, probability, guess, 2.0, MOST_DOUBLINGS, lambda _: rise
    doublings = _root(lambda x: (question.of(max(1, round(2**x))), loss), *own)
    return math.ceil(2**doublings) if doublings < MOST_DOUBLINGS else None


def _rise(question: PowerQuestion, probability: float) -> float:
    """Return the rise of Φ⁻¹(power) from the level, at no excess loss, to a probability."""
    return float(special.ndtri(probability) - special.ndtri(question.level))


def _effort(question: PowerQuestion, probability: float) -> float:
    """Approximate trials × (excess of the loss)² as if counts were normal."""
    return 2 * _rise(question, probability) ** 2 / question.rate(question.claimed)


def _root(
    at: Callable[[float], tuple[PowerQuestion, float]],
    simulated: bool,
    probability: float,
    guess: float,
    spread: float,
    most: float,
    slope: Callable[[float], float],
) -> float:
    """Find the place, up to `most`, at which the power equals a probability.

    `at` returns question and true loss at a place; `spread` is the error of the guess. Simulations
    find an approximate place with few audits and correct it twice with many. The correction treats
    counts as normal, so Φ⁻¹(power) rises by `slope` there.
    """
    near: Any = {"guess": guess, "spread": spread / 8, "tolerance": 1e-3 * spread}
    if not simulated:
        return crossing(lambda x: power(*at(x)) - probability, most=most, **near)
    near["tolerance"] = 0.02 * spread
    place = crossing(
        lambda x: simulated_power(*at(x), ROUGH_AUDITS) - probability, most=most, **near
    )
    for _ in range(2 if place < most else 0):
        share = min(max(simulated_power(*at(place)), 0.01), 0.99)
        place += float(special.ndtri(probability) - special.ndtri(share)) / slope(place)
    return min(max(place, 0.0), most)


def with_power(plan: Plan, results: Mapping[str, CellRecord]) -> dict[str, CellRecord]:
    """Add to the consistent cells of a run the loss that they would have detected.

    Bets are left out. `run.power` is the probability of detection.
    """
    probability, detected = plan.audit.run.power or 0.0, {}
    together = judged(list(results.values()), plan.m, plan.audit.multiplicity)
    basis = {cell.id: cell.basis for cell in together if cell.verdict == CONSISTENT}
    for cell, the_pass in [(cell, each) for each in plan.passes for cell, _ in each.cells]:
        if (own := basis.get(cell.id)) is None:
            continue
        question = question_of(cell, plan, the_pass, Looks(number=own.look))
        if isinstance(question, str) or question.simulated:
            continue
        try:
            loss = detectable(question.of(min(results[cell.id].trials)), probability)
        except CellError:  # a plugin's estimator fails on counts that the run did not have
            continue
        if loss is not None:
            power_record = PowerRecord(
                probability=probability, epsilon=loss, model=question.model or ""
            )
            detected[cell.id] = results[cell.id].model_copy(update={"power": power_record})
    return detected
