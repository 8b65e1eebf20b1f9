"""Bounds at the corner of a curve: by enumeration, so nothing here is a matter of chance."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats
from support.tiers import mostly_slow

from dpframe import Estimate, Estimator, Query, Share, epsilon_of
from dpframe.builtin import events as ladder, threshold as _limits
from dpframe.commands import audit
from dpframe.commands.calibrate import SETTINGS
from dpframe.interfaces import registry
from dpframe.spec.audit import RunSettings
from dpframe.stats import binomial as exact
from dpframe.testing.corner import Corner, at_corner
from dpframe.testing.experiment import CalibratedCell, experiments_of

RUN = RunSettings()
ERROR = 0.05


def corner(of: CalibratedCell, *size: Any) -> Corner:
    """The corner of an estimator that reports its shares of the error."""
    found = at_corner(of, RUN, *size)
    assert found is not None
    return found


def of_largest(found: Corner) -> tuple[float, float]:
    """The largest share of the error, and the probability that this event exceeds the truth."""
    return found.shares[found.largest[0]], found.of_share(found.largest[0])


def part(use: str, confidence: float = 1 - ERROR, **params: Any) -> CalibratedCell:
    """An estimator behind an attack whose scores it takes."""
    cls = registry.load([Split]).find("estimator", use).cls
    accepts = cls(**params).statistic().accepts
    attack = "identity" if "score" in accepts else "majority-vote"
    document = {
        "schema": 1,
        "audit": {"name": "t", "trials": 100, "confidence": confidence},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "gaussian", "params": {"sigma": 1.0}}],
        "attack": [{"use": attack}],
        "estimator": [{"use": use, "params": params}],
    }
    found = experiments_of([audit.make_plan(audit.load(document, SETTINGS, None, None, [Split]))])
    ((of, _),) = found.certifying()
    return of


class Split(Estimator, name="split"):
    """Two limits at whatever shares of the error it likes, on decisions."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    spends: tuple[float, ...] = ()
    tells: tuple[float, ...] = ()

    def statistic(self) -> Any:
        from dpframe import DecisionCounts

        return DecisionCounts()

    def estimate(self, layout: Any, counts: Any, query: Query) -> Estimate:
        said = [self._bound(counts, (1 - query.confidence) * share) for share in self.spends]
        shares = tuple(Share(*pair) for pair in zip(self.tells, said, strict=bool(self.tells)))
        return Estimate(1.0, epsilon_lower=max(said), shares=shares)

    def _bound(self, counts: Any, error: float) -> float:
        fpr, fnr = (
            stats.beta.isf(error / 2, k + 1, n - k) if k < n else 1.0
            for k, n in ((counts[0, 1], counts[0].sum()), (counts[1, 0], counts[1].sum()))
        )
        return epsilon_of(np.array([[fpr, fnr]]), 0.0)

    def extreme(self, layout: Any, trials: Any) -> Any:
        return np.array([[trials[0], 0], [0, trials[1]]])


def naive(of: CalibratedCell, trials: int, errors: float, pick: Any) -> float:
    """Pr[pick(estimate) > ε], summed over every pair of counts; counts made from the outputs.

    Without pairs that are evidence for the reverse, which a corner leaves out.
    """
    rate, at_truth = errors / trials, corner(of, trials, errors)
    truth, table = at_truth._most, at_truth._table
    statistic = of.cell.estimator.value.statistic()
    pmf = stats.binom.pmf(np.arange(trials + 1), trials, rate)
    total = 0.0
    for k in range(trials + 1):
        for u in range(trials + 1 - k):
            if "score" in statistic.accepts:
                edges = np.asarray(table.layout["edges"])
                outputs = (np.arange(trials) < k, np.arange(trials) >= u)
                bins = [np.searchsorted(edges, each, side="right") + 1 for each in outputs]
                counts = np.stack([np.bincount(each, minlength=len(edges) + 2) for each in bins])
            else:
                counts = np.array([[trials - k, k], [u, trials - u]])
            query = of.query._replace(trials=(trials, trials), delta=0.0)
            found = of.cell.estimator.value.estimate(table.layout, counts, query)
            total += pmf[k] * pmf[u] * (pick(found) > truth)
    return total


@pytest.mark.parametrize("use", mostly_slow(["precision", "threshold", "order-statistics"], [0, 1]))
def test_agrees_with_the_sum_over_all_counts(use: str) -> None:
    of, trials, errors = part(use, 0.7), 12, 3.0
    found = corner(of, trials, errors)
    share = of_largest(found)[1]

    def largest(estimate: Estimate) -> float:
        return max(estimate.shares, key=lambda share: share.error).epsilon_lower

    bound = naive(of, trials, errors, lambda estimate: estimate.epsilon_lower)
    assert found.exceedance == pytest.approx(bound, rel=1e-9)
    assert share == pytest.approx(naive(of, trials, errors, largest), rel=1e-9)
    assert 0.01 < share <= found.exceedance < 0.3


CERTIFYING: list[Any] = [
    pytest.param("order-statistics", {}, marks=pytest.mark.slow),
    pytest.param("order-statistics", {"direction": "down"}, marks=pytest.mark.slow),
    ("threshold", {}),
    ("threshold", {"threshold": 0.5}),
    ("histogram-split", {}),
    ("gdp", {}),
    ("precision", {}),
]


@pytest.mark.parametrize("confidence", [pytest.param(0.8, marks=pytest.mark.slow), 0.999])
@pytest.mark.parametrize(("use", "params"), CERTIFYING, ids=str)
def test_built_in_estimators_use_what_they_pay_for_and_no_more(
    use: str, params: dict[str, Any], confidence: float
) -> None:
    found = corner(part(use, confidence, **params))
    assert found.mistakes() == []
    assert found.spent == pytest.approx(1.0)
    if params != {"direction": "down"}:
        share, probability = of_largest(found)
        assert probability > 0.55 * share * (1 - confidence)


def doubled(function: Any, at: int) -> Any:
    def twice(*args: Any) -> Any:
        changed = list(args)
        changed[at] = np.minimum(2 * np.asarray(args[at]), 1.0)
        return function(*changed)

    return twice


@pytest.mark.parametrize("confidence", [pytest.param(0.8, marks=pytest.mark.slow), 0.999])
@pytest.mark.parametrize(
    "use", mostly_slow(["order-statistics", "histogram-split", "threshold", "gdp"], [2, 3])
)
def test_twice_the_error_is_a_mistake(
    use: str, confidence: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "joint_staircases", doubled(ladder.joint_staircases, 5))
    lower, upper = _limits.LIMITS["clopper-pearson"]
    monkeypatch.setitem(_limits.LIMITS, "clopper-pearson", (lower, doubled(upper, 2)))
    found = corner(part(use, confidence))
    assert "exceeds the truth with probability" in found.mistakes()[0]


def test_an_event_is_held_to_its_own_share() -> None:
    """Half of the error goes to waste, and hides that the other half is spent twice."""
    assert corner(part("split", spends=(0.5, 1e-9), tells=(0.5, 0.5))).mistakes() == []
    wrong = corner(part("split", spends=(1.0, 1e-9), tells=(0.5, 0.5)))
    assert wrong.exceedance < ERROR
    (mistake,) = wrong.mistakes()
    assert mistake.startswith("the event with 0.5 of the error, 0.025, exceeds the truth")


def test_shares_must_not_sum_to_more_than_the_error() -> None:
    found = corner(part("split", spends=(0.5, 0.6), tells=(0.5, 0.6)))
    assert found.mistakes() == ["the shares of the error sum to 1.1"]


def test_an_estimator_that_does_not_tell_is_not_tested() -> None:
    assert at_corner(part("split", spends=(1.0,)), RUN) is None
    assert at_corner(part("histogram"), RUN) is None


def test_what_is_not_as_expected_is_looked_at_before_anything_is_said() -> None:
    """A strange estimator whose bound is high along an edge and not below it: rarely."""
    mean = 40

    def on_the_edge(k: int, u: int) -> bool:
        return k + u == 2 * mean

    edge = exact._edge(on_the_edge, 0, 80)
    assert len(edge) == 81
    true = stats.binom.pmf(2 * mean, 4000, 0.02)
    assert exact.probability_of(on_the_edge, 2000, 0.02, 0.1) == pytest.approx(true, rel=1e-3)
    below = exact.probability_of(lambda k, u: k + u <= 2 * mean, 2000, 0.02, 0.1)
    assert below == pytest.approx(stats.binom.cdf(2 * mean, 4000, 0.02), rel=1e-3)
