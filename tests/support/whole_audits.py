"""Test the corrections of whole audits on cells with exact p-values.

The corrections are the division of the error among all bounds of an audit, the step-down test of
its claims, the price of further looks, and the allowance for float32. The counts are simulated and
passed to the engine's own estimate, ledger and verdict. The probability of each error is known
exactly, so both a larger and a smaller error rate is a mistake.

The mechanism is a coin that says D′ with probability c on D and 1 − c on D′. The estimator knows
the latter probability, so the claim ε = ln((1 − c)/c) is a test of one binomial number, whose
probability of rejection at any level is a sum of binomial probabilities.
"""

import bisect
import math
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from annotated_types import Gt
from scipy import special

from dpframe.claims import PureDP
from dpframe.common.arrays import jax
from dpframe.common.types import Array, Floats, Ints, Key, Tree
from dpframe.count import rounds
from dpframe.count.plan import Pass, PassPosition, plan
from dpframe.draw.streams import Stream, generator_name, host_generator
from dpframe.engine import ledger
from dpframe.engine.estimate import estimate_cell
from dpframe.interfaces import registry
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.estimator import Estimate, Estimator, Query, estimate_from_boxes
from dpframe.interfaces.mechanism import Mechanism
from dpframe.interfaces.pair import Pair
from dpframe.interfaces.statistic import DecisionCounts, Statistic
from dpframe.results.model import CellRecord
from dpframe.results.verdict import judged
from dpframe.spec import load_audit
from dpframe.spec.audit import Cell
from dpframe.stats.binomial import clopper_pearson_upper, exceedance

AUDITS = 3000  # enough to detect a rate of errors that is wrong by half
FEW = 200  # audits of a test in which a mistake would show in every audit

CLAIMS, UNCLAIMED = 4, 16  # true claims (and as many false ones), and bounds without a claim
FALSE = 0.1  # such a multiple of the truth is a claim that any counts refute
LOOKS, GROWTH = 5, 1.6

# Probability that any result of `promises_of` is called broken although nothing is.
ACCUSED = 1e-6


class Coin(Mechanism, name="coin"):
    """A coin whose counts are simulated, so no draw is made."""

    epsilon: Annotated[float, Gt(0)]
    """The truth."""
    claimed: float | None = None
    """The claim; default: none."""

    def claim(self, pair: Pair) -> PureDP | None:
        return None if self.claimed is None else PureDP(self.claimed)

    def truth(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        drawn: Array = jax.random.uniform(key, (n, *data.shape), data.dtype)
        return drawn


class Side(Attack, name="side"):
    """The side that the coin shows."""

    gives: ClassVar[Literal["decision", "score"]] = "decision"

    def score(self, state: Tree, outputs: Array) -> Array:
        return outputs[:, 0] > 0.5


class OneLimit(Estimator, name="one-limit"):
    """Bounds the false positives; the false negatives are known."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "the false-negative rate is known"

    rate: Annotated[float, Gt(0)]
    """The false-negative rate."""

    def statistic(self) -> Statistic:
        return DecisionCounts()

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        said, trials = int(counts[0, 1]), int(counts[0].sum())

        def boxes(error: float) -> Floats:
            limit = float(clopper_pearson_upper(said, trials, error))
            return np.array([[limit, self.rate]])

        point = math.log((1 - self.rate) * trials / max(said, 1))
        return estimate_from_boxes(boxes, query, epsilon=max(0.0, point))

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return np.array([[trials[0], 0], [0, trials[1]]], np.int64)


PLUGINS: list[Any] = [Coin, Side, OneLimit]


class Whole:
    """One audit that is judged repeatedly with different counts.

    `claims` has a cell for each claim, as a multiple of the truth; None claims nothing. `rate` is
    FPR and FNR of every cell; `precision` is the assumed precision of the sampler. The ledger in
    `folder` counts earlier audits of the same draws.
    """

    def __init__(
        self,
        rate: float,
        trials: int,
        confidence: float,
        claims: Iterable[float | None],
        precision: str = "float64",
        folder: Path | None = None,
    ) -> None:
        self.trials, self.truth = trials, math.log((1 - rate) / rate)
        mechanisms = []
        for number, claim in enumerate(claims, start=1):
            claimed = {} if claim is None else {"claimed": claim * self.truth}
            params = {"epsilon": self.truth, **claimed}
            mechanisms.append({"use": "coin", "label": f"coin {number}", "params": params})
        document = {
            "schema": 1,
            "audit": {"name": "together", "trials": trials, "confidence": confidence},
            "pair": {"use": "zeros-ones"},
            "mechanism": mechanisms,
            "attack": [{"use": "side"}],
            "estimator": [{"use": "one-limit", "params": {"rate": rate}}],
            "run": {"precision": precision},
        }
        loaded = load_audit(document, registry=registry.load(PLUGINS))
        self.plan = plan(loaded, generator_name(loaded.run.prng))
        self.ledger = ledger.Ledger(folder)
        places = {
            cell.id: (cell, place, the_pass)
            for the_pass in self.plan.passes
            for cell, place in the_pass.cells
        }
        self.places = [places[cell.id] for cell in loaded.cells]
        self._made: dict[tuple[str, int], CellRecord] = {}

    def judged(self, counts: Iterable[int]) -> list[CellRecord]:
        """Return the cells of the record, given the number of false positives of each."""
        cells = [self._cell(*of, int(k)) for of, k in zip(self.places, counts, strict=True)]
        return judged(cells, self.plan.m, self.plan.audit.multiplicity)

    def exceeds(self, cell: CellRecord) -> bool:
        """True if a bound lies above the truth."""
        return cell.estimate is None or (cell.estimate.epsilon_lower or 0.0) > self.truth

    def _cell(self, cell: Cell, place: PassPosition, the_pass: Pass, false: int) -> CellRecord:
        """Return the record of a cell, made once for equal claims and counts."""
        key = (repr(cell.claim), false)
        if key not in self._made:
            counted: Any = CountedPass(the_pass, self.trials, place, false)
            self._made[key] = estimate_cell(cell, place, counted, self.plan, self.ledger, 0.0)
        return self._made[key]


class CountedPass:
    """Stands in for a pass at work, with simulated counts."""

    notes = ()
    layouts = ((),)
    anytime = None

    def __init__(self, the_pass: Pass, trials: int, place: PassPosition, false: int) -> None:
        self.the_pass = the_pass
        counts = np.zeros((place.variant + 1, 1, 2, 2), np.int64)
        counts[place.variant, 0] = [[trials - false, false], [0, trials]]
        self.tally = rounds.PrefixCounts((counts,), (1, 1), trials)

    def exceptions_of(self, variant: int) -> None:
        """Return None: no draw raised."""

    def untested(self, cell: Cell, variant: int) -> None:
        """Return None: there are no answers."""

    def gives_equal_scores(self, cell: Cell, place: PassPosition) -> bool:
        """Return False: there are no outputs."""
        return False


class Together(NamedTuple):
    """The frequency of one kind of error in audits by a correct engine."""

    what: str
    audits: int
    happened: int
    expected: float  # exact probability for one audit
    promised: float  # largest probability allowed


def together(confidence: float, audits: int, seed: int) -> Iterator[Together]:
    """Run the engine on a number of audits of exact cells, at a confidence each."""
    error = 1 - confidence
    yield from _one_audit(error, audits, seed)
    yield _looks(error, audits, seed)
    yield _slack(error, min(audits, FEW), seed)


def promises_of(results: list[Together]) -> list[tuple[str, float]]:
    """Compare observed with expected rates; return "kept" or "broken", and the interval's width."""
    found = []
    for one in results:
        rate = exceedance(one.happened, one.audits, one.promised, ACCUSED / len(results))
        right = rate.low <= one.expected <= rate.high
        found.append(("kept" if right else "broken", rate.high - rate.low))
    return found


def _one_audit(error: float, audits: int, seed: int) -> Iterator[Together]:
    """Test bounds and verdicts of an audit with true claims, false ones and none."""
    n, rate = 4000, 0.02
    claims = [*[FALSE] * CLAIMS, *[1.0] * CLAIMS, *[None] * UNCLAIMED]
    whole = Whole(rate, n, 1 - error, claims)
    bounds = 2 * CLAIMS + UNCLAIMED
    counts = _generator(seed, "audit").binomial(n, rate, (audits, bounds))
    above = wrong = 0
    for row in counts:
        cells = whole.judged(row)
        above += any(whole.exceeds(cell) for cell in cells)
        verdicts = [cell.verdict for cell in cells if cell.claim is not None]
        # Any counts refute a false claim, so a missed one is a mistake too.
        wrong += verdicts != ["violated"] * CLAIMS + ["consistent"] * CLAIMS
    yield Together(
        f"a bound above the truth, of {bounds} in an audit",
        audits,
        above,
        _any(_below(n, rate, error / bounds), bounds),
        error,
    )
    yield Together(
        f"a wrong verdict, of {CLAIMS} true and {CLAIMS} false claims in an audit",
        audits,
        wrong,
        _any(_below(n, rate, error / CLAIMS), CLAIMS),
        error,
    )


def _looks(error: float, audits: int, seed: int) -> Together:
    """Test one true claim again and again while the trials grow."""
    rate = 0.02
    trials = [round(5000 * GROWTH**look) for look in range(LOOKS)]
    steps = np.diff([0, *trials])
    counts = _generator(seed, "looks").binomial(steps, rate, (audits, LOOKS)).cumsum(axis=1)
    wrong = np.zeros(audits, bool)
    with tempfile.TemporaryDirectory() as folder:
        for look, n in enumerate(trials):
            whole = Whole(rate, n, 1 - error, [1.0], folder=Path(folder))
            cells = [whole.judged(row)[0] for row in counts[:, look : look + 1]]
            wrong |= [whole.exceeds(cell) or cell.verdict == "violated" for cell in cells]
            whole.ledger.write()
    return Together(
        f"a bound above the truth or a wrong verdict at one of {LOOKS} looks",
        audits,
        int(wrong.sum()),
        _any_look(trials, rate, error),
        1.5 * error,
    )


def _slack(error: float, audits: int, seed: int) -> Together:
    """Test a float32 sampler whose rare events are too rare by a probability of 10⁻⁶."""
    n, rate, slack = 10**9, 1e-5, 1e-6
    whole = Whole(rate, n, 1 - error, [1.0], "float32")
    counts = _generator(seed, "slack").binomial(n, rate - slack, (audits, 1))
    wrong = sum(whole.judged(row)[0].verdict == "violated" for row in counts)
    # At this rate of false positives both raised rates lie on the curve 1 − e^ε x.
    met = (1 - rate - slack) * rate / (1 - rate) - slack
    return Together(
        "a wrong verdict if a float32 sampler is off by its resolution",
        audits,
        wrong,
        _below(n, rate - slack, error, limit=met),
        error,
    )


def _generator(seed: int, what: str) -> np.random.Generator:
    return host_generator(Stream(seed, "together", 0, what))


def _largest(n: int, limit: float, error: float) -> int:
    """Return the largest count whose upper limit at this error lies below `limit`, else −1."""

    def below(count: int) -> float:
        return float(special.bdtr(count, n, limit))

    return bisect.bisect_left(range(math.ceil(n * limit) + 1), error, key=below) - 1


def _below(n: int, rate: float, error: float, limit: float | None = None) -> float:
    """Return the probability of a count whose upper limit lies below `limit`, or the rate."""
    largest = _largest(n, rate if limit is None else limit, error)
    return float(special.bdtr(largest, n, rate)) if largest >= 0 else 0.0


def _any(probability: float, number: int) -> float:
    """Return the probability that at least one of `number` independent events happens."""
    return -math.expm1(number * math.log1p(-probability))


def _any_look(trials: list[int], rate: float, error: float) -> float:
    """Return the probability that a growing count is below its limit at one look or more."""
    alive, before = np.ones(1), 0
    for number, n in enumerate(trials, start=1):
        new = n - before
        steps = np.arange(min(new, math.ceil(new * rate + 40 * math.sqrt(new * rate))) + 1)
        more = np.diff(special.bdtr(steps, new, rate), prepend=0.0)  # beyond lies nothing
        alive = np.convolve(alive, more)
        price = 1 if number == 1 else number * (number + 1)
        alive[: _largest(n, rate, error / price) + 1] = 0.0
        before = n
    return 1.0 - math.fsum(alive)
