"""Whole audits of cells with exactly right p-values."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import special

from dpframe.calibration.exact import PLUGINS
from dpframe.engine.estimate import estimate_cell
from dpframe.engine.ledger import Ledger
from dpframe.engine.plan import plan
from dpframe.engine.rounds import Tally
from dpframe.interfaces import registry
from dpframe.results.verdict import judged
from dpframe.sampling.address import Stream, generator_name, host_generator
from dpframe.spec import audit_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpframe.engine.estimate import Extremes
    from dpframe.engine.plan import Pass, Place
    from dpframe.results.model import CellRecord
    from dpframe.spec.audit import Cell


# An audit of exact cells whose counts are told instead of drawn; the rest is the engine's.


class Numbers(NamedTuple):
    """How many bounds of each kind an audit has; they come in this order."""

    false: int = 0
    """Claims that any counts refute."""
    true: int = 0
    unclaimed: int = 0


class Whole:
    """One audit, to be repeated with other counts.

    Args:
        rate: FPR and FNR of every cell.
        trials: per dataset.
        confidence: of the audit.
        numbers: of cells.
        precision: of the sampler that did not draw.
        folder: where the looks of earlier audits at the same draws are written down.
    """

    def __init__(
        self,
        rate: float,
        trials: int,
        confidence: float,
        numbers: Numbers,
        precision: str = "float64",
        folder: Path | None = None,
    ) -> None:
        self.trials, self.truth = trials, math.log((1 - rate) / rate)
        document = {
            "schema": 1,
            "audit": {"name": "together", "trials": trials, "confidence": confidence},
            "pair": {"use": "zeros-ones"},
            "mechanism": _mechanisms(self.truth, numbers),
            "attack": [{"use": "side"}],
            "estimator": [{"use": "one-limit", "params": {"rate": rate}}],
            "run": {"precision": precision},
        }
        loaded = audit_from_dict(
            document, overrides=(), trials=None, seed=None, registry=registry.load(PLUGINS)
        )
        self.plan = plan(loaded, generator_name(loaded.run.prng))
        self.ledger = Ledger([folder] if folder else [])
        places = {
            cell.id: (cell, place, the_pass)
            for the_pass in self.plan.passes
            for cell, place in the_pass.cells
        }
        self.places = [places[cell.id] for cell in loaded.cells]
        self._made: dict[tuple[str, int], CellRecord] = {}
        self._extremes: Extremes = {}

    def judged(self, counts: Iterable[int]) -> list[CellRecord]:
        """The cells of the record, in order.

        Args:
            counts: false positives, one number per cell.
        """
        cells = [self._cell(*of, int(k)) for of, k in zip(self.places, counts, strict=True)]
        return judged(cells, self.plan.m, self.plan.audit.multiplicity)

    def exceeds(self, cell: CellRecord) -> bool:
        """Whether a bound lies above the truth."""
        return cell.estimate is None or (cell.estimate.epsilon_lower or 0.0) > self.truth

    def _cell(self, cell: Cell, place: Place, the_pass: Pass, false: int) -> CellRecord:
        """The record of a cell; of two that claim the same and count the same it is the same."""
        key = (repr(cell.claim), false)
        if key not in self._made:
            told: Any = _Told(the_pass, self.trials, place, false)
            self._made[key] = estimate_cell(
                cell, place, told, self.plan, self.ledger, 0.0, self._extremes
            )
        return self._made[key]


class _Told:
    """What is asked of a pass at work, for counts that nobody counted."""

    notes = ()
    layouts = ((),)
    watches = None

    def __init__(self, the_pass: Pass, trials: int, place: Place, false: int) -> None:
        self.the_pass = the_pass
        counts = np.zeros((place.lane + 1, 1, 2, 2), np.int64)
        counts[place.lane, 0] = [[trials - false, false], [0, trials]]
        self.tally = Tally((counts,), (1, 1), trials)


def _mechanisms(truth: float, numbers: Numbers) -> list[dict[str, Any]]:
    claims = [truth / 10] * numbers.false + [truth] * numbers.true
    params: list[dict[str, float]] = [{"epsilon": truth, "claimed": claim} for claim in claims]
    params += [{"epsilon": truth}] * numbers.unclaimed
    return [
        {"use": "coin", "label": f"coin {number}", "params": own}
        for number, own in enumerate(params, start=1)
    ]


# Audits as a whole: what the engine makes of p-values and bounds that are exactly right.
#
# An estimator is calibrated by itself; here is the rest: the error shared among all bounds of an
# audit, the step-down test of its claims, the price of looking again, and the slack for float32.
# The counts of exact cells (`dpframe.calibration.exact`) are made up and handed to the engine's
# own
# estimate, ledger and verdict. How often something goes wrong is known to the last digit, so that
# both too much and too little is noticed.


AUDITS = 3000
"""So many show a mistake that changes the rate of errors by half."""

CLAIMS, UNCLAIMED = 4, 16
"""True claims, as many false ones before them, and bounds without a claim."""


class Together(NamedTuple):
    """How often something happened to audits that are right."""

    what: str
    audits: int
    happened: int
    expected: float
    """How often it should, exactly: probability for one audit."""
    promised: float
    """How often it may."""


def together(confidence: float, audits: int, seed: int) -> Iterator[Together]:
    """Tries the engine on audits of exact cells.

    Args:
        confidence: of each audit.
        audits: how many.
        seed: of the counts.
    """
    error = 1 - confidence
    yield from _one_audit(error, audits, seed)
    yield _looks(error, audits, seed)
    yield _slack(error, min(audits, FEW), seed)


def _one_audit(error: float, audits: int, seed: int) -> Iterator[Together]:
    """Bounds and verdicts of an audit with true claims, false ones and none."""
    n, rate = 4000, 0.02
    whole = Whole(rate, n, 1 - error, Numbers(CLAIMS, CLAIMS, UNCLAIMED))
    bounds = 2 * CLAIMS + UNCLAIMED
    counts = _generator(seed, "audit").binomial(n, rate, (audits, bounds))
    above = wrong = 0
    for row in counts:
        cells = whole.judged(row)
        above += any(whole.exceeds(cell) for cell in cells)
        verdicts = [cell.verdict for cell in cells if cell.claim is not None]
        # A false claim is refuted by any counts; one that is not found is as wrong.
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


LOOKS, GROWTH = 5, 1.6


def _looks(error: float, audits: int, seed: int) -> Together:
    """One true claim, looked at again and again while the trials grow."""
    rate = 0.02
    trials = [round(5000 * GROWTH**look) for look in range(LOOKS)]
    steps = np.diff([0, *trials])
    counts = _generator(seed, "looks").binomial(steps, rate, (audits, LOOKS)).cumsum(axis=1)
    wrong = np.zeros(audits, bool)
    with tempfile.TemporaryDirectory() as folder:
        for look, n in enumerate(trials):
            whole = Whole(rate, n, 1 - error, Numbers(true=1), folder=Path(folder))
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


FEW = 200
"""Enough audits where a mistake would show in all of them."""


def _slack(error: float, audits: int, seed: int) -> Together:
    """A sampler in float32 whose rare events are a millionth rarer than they should be."""
    n, rate, slack = 10**9, 1e-5, 1e-6
    whole = Whole(rate, n, 1 - error, Numbers(true=1), "float32")
    counts = _generator(seed, "slack").binomial(n, rate - slack, (audits, 1))
    wrong = sum(whole.judged(row)[0].verdict == "violated" for row in counts)
    # Both rates raised, the curve 1 − e^ε x is met at this false-positive rate.
    met = (1 - rate - slack) * rate / (1 - rate) - slack
    return Together(
        "a wrong verdict where a float32 sampler is off by its resolution",
        audits,
        wrong,
        _below(n, rate - slack, error, limit=met),
        error,
    )


def _generator(seed: int, what: str) -> np.random.Generator:
    return host_generator(Stream(seed, "together", 0, what))


def _largest(n: int, limit: float, error: float) -> int:
    """The largest count whose upper limit, at this error, lies below a given one; −1 for none."""
    low, high = -1, math.ceil(n * limit)
    while low < high:
        middle = (low + high + 1) // 2
        if special.bdtr(middle, n, limit) < error:
            low = middle
        else:
            high = middle - 1
    return low


def _below(n: int, rate: float, error: float, limit: float | None = None) -> float:
    """Probability of a count whose upper limit lies below a given one; default: below the rate."""
    largest = _largest(n, rate if limit is None else limit, error)
    return float(special.bdtr(largest, n, rate)) if largest >= 0 else 0.0


def _any(probability: float, number: int) -> float:
    """Probability that at least one of some independent things happens."""
    return -math.expm1(number * math.log1p(-probability))


def _any_look(trials: list[int], rate: float, error: float) -> float:
    """Probability that a count, as it grows, lies below its limit at one look or more."""
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
