"""Power: the probability that a cell refutes its claim, against sums and simulated audits.

Simulated shares differ from what they estimate by chance; a correct power fails a comparison with
probability below 1e-6, at fixed seeds, beside the .003 that interpolation and the usual pilot may
cost.
"""

from __future__ import annotations

import io
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from support import small_audits
from support.regions import rejects
from support.tiers import mostly_slow

import dpframe
from dpframe import ApproxDP, Claim, GaussianDP, Mechanism, Pair, PureDP
from dpframe.claims import LaplaceDP, RenyiDP
from dpframe.commands.audit import make_plan
from dpframe.commands.plan import outlook
from dpframe.count.rounds import ends
from dpframe.engine import power as powers
from dpframe.engine.power import (
    PowerQuestion,
    detectable,
    power,
    question_of,
    simulated_power,
    trials_needed,
)
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces import estimator as estimators, registry
from dpframe.interfaces.estimator import Query
from dpframe.report.terminal.plan import render_plan
from dpframe.results.verdict import Looks
from dpframe.stats.guesses import guess_p_value, rank_cuts, rank_p_value

REGISTRY = registry.load()


def question(
    use: str, claim: Claim, n: int, delta: float = 0.0, m: int = 1, pilot: int = 0, **params: Any
) -> PowerQuestion:
    """A question about n trials, or about n canaries of one run."""
    estimator: Any = REGISTRY.find("estimator", use).cls(**params)
    error, canaries = 0.05 / m, n if "run" in use else 0
    query = Query((0, 1) if canaries else (n, n), delta, 1 - error, claim, 1e-6)
    scores = "float32" if pilot else "bool"
    return PowerQuestion(estimator, query, error, scores, pilot, canaries=canaries)


def refuted_by(asked: PowerQuestion, layout: Any, counts: Any) -> bool:
    found = asked.estimator.estimate(layout, counts, asked.query).p_resolved
    return found is not None and found <= asked.level


def decide_at(level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let p-values only tell whether they are at most a level: if its region rejects the claim.

    Their search evaluates some thirty regions.
    """

    def found(boxes: Any, claim: Claim, slack: float, least: float = 1e-300) -> float:
        return least if rejects(boxes(level) + slack, claim) else 1.0

    monkeypatch.setattr(estimators, "_smallest_level", found)


def in_bins(edges: Any, k: int, u: int, n: int) -> Any:
    """Counts of the scores 0 and 1 on a grid: NaN first, then below, between and above edges."""
    places = np.searchsorted(np.asarray(edges), [0.0, 1.0], side="right") + 1
    counts = np.zeros((2, len(edges) + 2), np.int64)
    for row, ones in enumerate((k, n - u)):
        np.add.at(counts[row], places, [n - ones, ones])
    return counts


def share_of_simulated(asked: PowerQuestion, loss: float, audits: int) -> float:
    """Simulate audits from the outputs of the pair, each with a pilot of its own."""
    rng, n = np.random.default_rng(7), asked.size
    rate, known = naive_rate(asked, loss), {}
    for _ in range(audits):
        k, u = rng.binomial(n, rate, 2).tolist()
        layout: Any = ()
        counts: Any = np.array([[n - k, k], [u, n - u]])
        key = (k, u)
        if asked.pilot:
            a, b = rng.binomial(asked.pilot, rate, 2)
            pilot = [np.arange(asked.pilot) < ones for ones in (a, asked.pilot - b)]
            statistic = asked.estimator.statistic()
            layout = statistic.bind(*(each.astype(np.float32) for each in pilot))
            if isinstance(layout, dict) and "edges" in layout:
                counts = in_bins(layout["edges"], k, u, n)
            key += tuple(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(layout))
        known.setdefault(key, [0, lambda a=layout, c=counts: refuted_by(asked, a, c)])[0] += 1
    return sum(number for number, refuted in known.values() if refuted()) / audits


def naive_rate(asked: PowerQuestion, loss: float) -> float:
    """Error rate of the most telling decision about the pair, by the pair itself."""
    claim, delta = asked.query.claim, asked.query.delta
    if isinstance(claim, GaussianDP):
        for_mu = np.linspace(0.01, 20, 200_000)
        found = stats.norm.cdf(for_mu / 2 - loss / for_mu)
        found -= math.exp(loss) * stats.norm.cdf(-for_mu / 2 - loss / for_mu)
        return float(stats.norm.cdf(-np.interp(delta, found, for_mu) / 2))
    if isinstance(claim, LaplaceDP):
        return float(stats.laplace.sf(loss / 2))
    return (1 - delta) / (1 + math.exp(loss))


@pytest.mark.parametrize(
    ("use", "claim", "delta", "loss"),
    [
        ("precision", PureDP(0.5), 0.0, 2.0),
        pytest.param("precision", ApproxDP(0.5, 0.1), 0.1, 2.5, marks=pytest.mark.slow),
        pytest.param("precision", GaussianDP(0.5), 0.01, 5.0, marks=pytest.mark.slow),
    ],
)
def test_power_is_the_sum_over_all_counts(
    use: str, claim: Claim, delta: float, loss: float
) -> None:
    n = 14
    asked = question(use, claim, n, delta)
    rate = naive_rate(asked, loss)
    mass = stats.binom.pmf(np.arange(n + 1), n, rate)
    found = sum(
        mass[k] * mass[u]
        for k in range(n + 1)
        for u in range(n + 1 - k)
        if refuted_by(asked, (), np.array([[n - k, k], [u, n - u]]))
    )
    assert 0.1 < found < 0.99
    # Beyond REACH standard deviations nothing is summed.
    assert power(asked, loss) == pytest.approx(found, abs=1e-4)


SETTINGS: list[tuple[str, Claim, int, float, int, int]] = [
    ("precision", PureDP(1.0), 300, 0.0, 1, 0),
    ("threshold", ApproxDP(1.0, 0.05), 400, 0.05, 10, 200),
    ("precision", PureDP(0.1), 2000, 0.0, 252, 0),
    ("precision", PureDP(4.0), 500, 0.0, 1, 0),
    ("precision", ApproxDP(0.5, 1e-5), 1000, 1e-5, 5, 0),
    ("precision", GaussianDP(1.0), 500, 1e-5, 1, 0),
    ("precision", LaplaceDP(1.0), 500, 0.0, 3, 0),
    ("precision", PureDP(2.0), 20_000, 0.0, 18, 0),
    ("threshold", PureDP(1.0), 100, 0.0, 1, 100),
    ("threshold", PureDP(2.0), 1000, 0.0, 4, 1000),
    ("threshold", GaussianDP(0.5), 1000, 1e-3, 1, 200),
    ("threshold", ApproxDP(1.0, 0.2), 1000, 0.2, 1, 100),
    ("order-statistics", PureDP(1.0), 400, 0.0, 1, 200),
    ("order-statistics", ApproxDP(1.0, 1e-2), 800, 1e-2, 6, 200),
    ("histogram", PureDP(0.5), 2000, 0.0, 1, 500),
    ("threshold", PureDP(0.2), 5000, 0.0, 1, 2000),
]
SETTINGS_SIMULATED: list[tuple[str, Claim, int, float, int]] = [
    ("betting", PureDP(1.0), 300, 0.0, 1),
    ("betting", ApproxDP(1.0, 0.05), 300, 0.05, 4),
    ("one-run", PureDP(1.0), 400, 0.0, 1),
    ("one-run", ApproxDP(1.0, 1e-5), 1000, 1e-5, 2),
]


def power_of_every_count(asked: PowerQuestion, loss: float) -> float:
    """The sum that `power` computes, with the edge of every number of false positives."""
    n, rate, table = asked.size, asked.rate(loss), powers._table(asked)
    first, last = stats.binom.ppf([1e-9, 1 - 1e-9], n, rate).astype(int)
    every = np.arange(first, last + 1)
    edges = np.array([table.edge(int(k), asked.level) for k in every])
    return float(stats.binom.pmf(every, n, rate) @ stats.binom.cdf(edges, n, rate))


@pytest.mark.parametrize(
    "setting",
    [pytest.param(s, marks=pytest.mark.slow) for s in SETTINGS],
)
def test_interpolation_costs_power_less_than_a_500th(setting: Any) -> None:
    use, claim, n, delta, m, pilot = setting
    asked = question(use, claim, n, delta, m, pilot)
    loss = detectable(asked, 0.8)
    assert loss is not None
    # The power is .8 up to the tolerance of the search and the jump of a discrete estimator.
    assert power(asked, loss) == pytest.approx(0.8, abs=2e-3)
    assert power(asked, loss) == pytest.approx(power_of_every_count(asked, loss), abs=2e-3)


def audits_of(setting: Any) -> int:
    """Return a number of audits whose estimates take some seconds.

    Without a pilot, audits of equal counts are estimated once.
    """
    use, *_, pilot = setting
    if not pilot:
        return 10_000
    return 2000 if use == "order-statistics" else 4000


@pytest.mark.parametrize(
    ("setting", "audits"),
    [
        (SETTINGS[0], 400),
        *(pytest.param(s, audits_of(s), marks=pytest.mark.slow) for s in SETTINGS),
    ],
)
def test_a_loss_is_shown_in_as_many_simulated_audits_as_promised(
    setting: Any, audits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use, claim, n, delta, m, pilot = setting
    asked = question(use, claim, n, delta, m, pilot)
    loss = detectable(asked, 0.8)
    assert loss is not None
    noise = 4.9 * math.sqrt(0.16 / audits)  # .02 with 10,000 audits
    # Pilots are random here; `power` takes one as the claim lets expect.
    expected = pytest.approx(power(asked, loss), abs=0.003 + noise)
    if audits > 400:  # p-values themselves decide by default
        decide_at(asked.level, monkeypatch)
    assert share_of_simulated(asked, loss, audits) == expected
    assert share_of_simulated(asked, asked.claimed, 200) <= asked.level + 4.9 * 0.016


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS_SIMULATED)
def test_bets_and_canaries_show_a_loss_as_often_as_promised(setting: Any) -> None:
    use, claim, n, delta, m = setting
    asked = question(use, claim, n, delta, m)
    loss = detectable(asked, 0.8)
    assert loss is not None
    shown, audits = (shown_by_bets, 10_000) if use == "betting" else (shown_by_guesses, 100_000)
    share = shown(asked, loss, audits).mean()
    expected = simulated_power(asked, loss)
    # The search for the loss and the power use the same random numbers.
    assert expected == pytest.approx(0.8, abs=0.005)
    # Strata leave less than .09 of the variance of .16. The tolerance is .012 to .022.
    simulated = min(powers.AUDITS, powers.MOST_DRAWS // n)
    noise = 4.9 * math.sqrt(0.16 / audits + 0.09 / simulated)
    assert share == pytest.approx(expected, abs=noise)
    # A true claim is refuted as seldom as promised.
    noise = 4.9 * math.sqrt(0.05 / simulated)
    assert simulated_power(asked, asked.claimed) <= asked.level + noise


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS_SIMULATED[::2])
def test_strata_halve_the_variance_and_keep_the_mean(
    setting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use, claim, n, delta, m = setting
    asked, audits, seeds = question(use, claim, n, delta, m), 1000, 40
    generator, found = np.random.default_rng, []
    for seed in range(seeds):
        monkeypatch.setattr(np.random, "default_rng", lambda _, seed=seed: generator(seed))
        found.append(simulated_power.__wrapped__(asked, 1.42, audits))
    monkeypatch.undo()
    variance = 0.09 / audits
    # The variance of 40 normal numbers exceeds 2.5 times the true one with probability < 1e-6.
    assert np.var(found, ddof=1) < 2.5 * variance
    expected = simulated_power(asked, 1.42)
    noise = 4.9 * math.sqrt(variance / seeds + 0.09 / powers.AUDITS)
    assert np.mean(found) == pytest.approx(expected, abs=noise)


def shown_by_bets(asked: PowerQuestion, loss: float, audits: int) -> Any:
    """Simulate audits of answers; the estimator is asked what each answer of a round would earn.

    Earnings depend on the counts before the round, so audits with equal counts share them.
    """
    estimator: Any = asked.estimator
    rng, rate, wanted = np.random.default_rng(11), naive_rate(asked, loss), -math.log(asked.level)
    stops = ends(asked.size, asked.rows, whole=False)
    sizes = np.diff(stops, prepend=0)
    wrong = rng.binomial(sizes[:, None, None], rate, (len(sizes), audits, 2))
    earned, best = np.zeros((audits, 2, 2)), np.zeros((audits, 2))  # by way to bet, by resolution
    for number in range(1, len(sizes)):
        size, drawn = sizes[number], stops[number - 1]
        left = np.flatnonzero(best.min(axis=1) < wanted)
        before = wrong[:number, left].sum(axis=0)
        distinct, same = np.unique(before, axis=0, return_inverse=True)
        of_answers = np.zeros((len(distinct), 4, 2, 2))
        for place, (k, u) in enumerate(distinct.tolist()):
            query, counts = asked.query, np.array([[drawn - k, k], [u, drawn - u]])
            state = estimator.observe(None, (), counts, query._replace(trials=(drawn, drawn)))
            for answer, one in enumerate(np.eye(4, dtype=np.int64).reshape(4, 2, 2)):
                after = estimator.observe(state, (), one, query._replace(trials=(1, 1)))
                of_answers[place, answer] = after.book.log_wealth
        k, u = wrong[number, left].T
        answers = np.stack([size - k, k, u, size - u], axis=1)
        earned[left] += np.einsum("ac,acwp->awp", answers, of_answers[same.ravel()])
        wealth = np.logaddexp(earned[left, 0], earned[left, 1]) - math.log(2)
        best[left] = np.maximum(best[left], wealth)
    return best.min(axis=1) >= wanted


def shown_by_guesses(asked: PowerQuestion, loss: float, audits: int) -> Any:
    """Simulate runs with canaries, whose rules are written out."""
    m, rng, rate = asked.canaries, np.random.default_rng(11), naive_rate(asked, loss)
    both, one = min(round(7 * math.sqrt(m)) // 2, m // 2), min(round(7 * math.sqrt(m)), m // 2)
    rules: list[tuple[Any, Any, float]] = [
        (rank_cuts(both), rank_cuts(both), 0.65),
        ([-(-(m // 2) // 2)], [m // 2 // 2], 0.1),
        ([-(-m // 2)], [m // 2], 0.1),
        ([0], [m // 4], 0.1),
        (rank_cuts(one), [0] * 16, 0.05),
    ]
    delta = asked.query.delta + asked.query.resolution * (1 + math.exp(asked.claimed))
    refuted = []
    for inside, outside, share in rules:
        cuts = np.add(inside, outside).tolist()
        p_values = [
            rank_p_value(m, cuts, t, asked.claimed, delta)
            if len(cuts) > 1
            else guess_p_value(m, cuts[0], t, asked.claimed, delta)
            for t in range(sum(cuts) + 1)
        ]
        refuted.append(np.array(p_values) <= asked.level * share)
    parts = []
    for _ in range(0, audits, 1000):
        member = rng.random((1000, m)) < 0.5
        guess = member ^ (rng.random((1000, m)) < rate)
        sure = np.argsort(~guess, axis=1, kind="stable")
        member = np.take_along_axis(member, sure, axis=1)
        among = [np.zeros((1000, m + 1), np.int64) for _ in range(2)]
        np.cumsum(member, axis=1, out=among[0][:, 1:])
        np.cumsum(~member[:, ::-1], axis=1, out=among[1][:, 1:])
        found = [
            table[among[0][:, inside].sum(axis=1) + among[1][:, outside].sum(axis=1)]
            for table, (inside, outside, _) in zip(refuted, rules, strict=True)
        ]
        parts.append(np.any(found, axis=0))
    return np.concatenate(parts)


class Answers(Mechanism, name="answers", api=1):
    """Randomised response: the answer differs from the record with probability 1/(1 + e^loss)."""

    loss: float = 2.0

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(1.0)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        lies = jax.random.uniform(key, (n, 1)) < 1 / (1 + jnp.exp(self.loss))
        return jnp.where(lies, 1 - data[:1], data[:1])


@pytest.mark.slow
def test_as_many_audits_are_violated_as_promised() -> None:
    repeats, trials = 1000, 32
    spec = small_audits.document(
        audit={"trials": trials, "repeats": repeats, "multiplicity": "none"},
        mechanism=[{"use": "answers"}],
        pair={"use": "zeros-ones", "params": {"dim": 1}},
        run={"chunk": trials},
    )
    plugins = [*small_audits.PLUGINS, Answers]
    plan = make_plan(small_audits.load(spec, plugins))
    asked = question_of(plan.passes[0].cells[0][0], plan, plan.passes[0])
    assert not isinstance(asked, str)
    record = dpframe.audit(spec, plugins=plugins)
    assert all(cell.status == "ok" for cell in record.cells)
    share = sum(cell.verdict == "violated" for cell in record.cells) / repeats
    expected = power(asked, 2.0)
    assert 0.3 < expected < 0.97
    assert share == pytest.approx(expected, abs=0.01 + 4.9 * math.sqrt(0.25 / repeats))


@pytest.mark.slow
def test_more_trials_and_larger_losses_are_shown_more_often() -> None:
    asked = question("precision", PureDP(1.0), 200)
    losses = [power(asked, loss) for loss in (1.0, 1.7, 2.5)]
    sizes = [power(asked.of(n), 1.7) for n in (10, 200)]
    for shares in (losses, sizes):
        assert shares == sorted(shares)
        assert shares[-1] - shares[0] > 0.5
    assert losses[0] < 0.05  # of a true claim: a false alarm


@pytest.mark.slow
def test_trials_needed_are_enough_and_hardly_more() -> None:
    asked = question("precision", PureDP(1.0), 500)
    needed = trials_needed(asked, 2.0, 0.8)
    assert needed is not None
    assert power(asked.of(needed), 2.0) == pytest.approx(0.8, abs=0.03)
    assert power(asked.of(needed // 2), 2.0) < 0.7
    assert trials_needed(asked, 1.0, 0.8) is None  # the claim is true


def test_too_few_trials_show_no_loss() -> None:
    assert detectable(question("precision", PureDP(1.0), 3), 0.8) is None
    # All guesses about 8 canaries are right, which does not suffice.
    assert simulated_power(question("one-run", PureDP(5.0), 8), 30.0, 1) == 0


@pytest.mark.parametrize(
    ("claim", "delta", "model"),
    [
        (None, 0.0, None),
        (PureDP(1.0), 0.0, "randomised response"),
        (ApproxDP(1.0, 1e-5), 1e-5, "randomised response"),
        (GaussianDP(1.0), 1e-5, "Gaussian noise"),
        (GaussianDP(1.0), 0.0, None),
        (LaplaceDP(1.0), 0.0, "Laplace noise"),
        (LaplaceDP(1.0), 0.1, None),
        (RenyiDP(2.0, 1.0), 1e-5, None),
    ],
)
def test_a_claim_without_a_model_of_a_loss_has_no_power(
    claim: Claim | None, delta: float, model: str | None
) -> None:
    asked = question("precision", PureDP(1.0), 10)
    query = asked.query._replace(claim=claim, delta=delta)
    assert asked._replace(query=query).model == model


def test_equal_error_rates_lie_on_the_curve_of_the_loss() -> None:
    for claim, delta in ((ApproxDP(1.0, 0.1), 0.1), (GaussianDP(1.0), 0.01), (LaplaceDP(1.0), 0.0)):
        asked = question("precision", claim, 10, delta)
        rate = asked.rate(asked.claimed)
        assert float(claim.tradeoff(rate)) == pytest.approx(rate, rel=1e-6)
        assert rate == pytest.approx(naive_rate(asked, asked.claimed), rel=1e-4)


@pytest.mark.parametrize("options", [{"probability": 1.5}, {"against": 2.0}])
def test_numbers_that_make_no_sense_are_refused(options: Any) -> None:
    loaded = small_audits.load(small_audits.document())
    with pytest.raises(DpframeError, match=r"--power|--against"):
        outlook(loaded, **options)


@pytest.mark.parametrize(
    ("use", "claim", "delta", "scores", "excess"),
    mostly_slow(
        [
            ("betting", PureDP(0.5), 0.0, "bool", 1.0),
            ("betting", ApproxDP(0.5, 0.05), 0.05, "float32", 1.0),
            ("betting", GaussianDP(0.5), 1e-3, "bool", 3.0),
            ("one-run", PureDP(0.5), 0.0, "float32", 1.0),
            ("one-run", GaussianDP(0.5), 1e-3, "float32", 6.0),
        ],
        (0, 3),
    ),
)
def test_simulated_audits_refute_together_as_they_do_one_by_one(
    use: str,
    claim: Claim,
    delta: float,
    scores: str,
    excess: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, found = question(use, claim, 40, delta)._replace(scores=scores), []
    asked = asked._replace(level=0.2)
    monkeypatch.setattr(powers, "AT_ONCE", 20)
    plain = type(asked.estimator).refuted

    def compared(estimator: Any, *given: Any) -> Any:
        found.append((plain(estimator, *given), dpframe.Estimator.refuted(estimator, *given)))
        return found[-1][0]

    monkeypatch.setattr(type(asked.estimator), "refuted", compared)
    simulated_power.__wrapped__(asked, asked.claimed + excess, 20)
    ((together, one_by_one),) = found
    assert together.tolist() == one_by_one.tolist()
    assert 0 < together.sum() < 20


@pytest.mark.parametrize(("multiplicity", "parts"), [("holm", 6), ("none", 1)])
def test_a_claim_is_tested_at_its_share_of_the_error(multiplicity: str, parts: int) -> None:
    """As Holm's first claim of the audit, and at the price of the look."""
    spec = small_audits.document(
        audit={"multiplicity": multiplicity}, sweep={"mechanism.epsilon": [0.5, 1.0, 2.0]}
    )
    spec["sweep"]["pair.dim"] = [1, 2]
    plan = make_plan(small_audits.load(spec))
    (cell, *_), *_ = plan.passes[0].cells
    first, second = (question_of(cell, plan, plan.passes[0], Looks(number=n)) for n in (1, 2))
    assert not isinstance(first, str)
    assert not isinstance(second, str)
    error = 1 - cell.confidence
    assert first.level == pytest.approx(error / parts)
    assert second.level == pytest.approx(error / parts / 6)


@pytest.mark.slow
def test_a_plan_lists_each_question_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpframe.commands.plan.trials_needed", lambda *asked: 1234)
    spec = small_audits.document(sweep={"pair.dim": [1, 2]})
    found = outlook(small_audits.load(spec), probability=0.5, against=3.0)
    (row,) = found["power"]
    assert (row["cells"], row["claimed"], row["against"]) == (2, 1.0, 3.0)
    assert row["epsilon"] is not None
    assert row["curve"][2.0] > row["curve"][1.1]
    console = Console(width=100, record=True, file=io.StringIO())
    render_plan(found, console)
    text = console.export_text()
    assert "1,234" in text
    assert "randomised response" in text


def verdicts(**run: Any) -> list[Any]:
    mechanisms = [{"use": use, "params": {"epsilon": 1.0}} for use in ("laplace", "flip")]
    spec = small_audits.document(mechanism=mechanisms, run=run)
    return dpframe.audit(spec, plugins=small_audits.PLUGINS).cells


def test_a_fault_of_an_estimator_on_other_counts_costs_only_its_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*asked: Any) -> float:
        raise CellError("not these counts")

    monkeypatch.setattr(powers, "detectable", fail)
    assert [cell.verdict for cell in verdicts(power=0.8)] == ["consistent", "violated"]


def test_consistent_cells_say_what_they_would_have_shown_if_asked() -> None:
    plain, flip = verdicts()
    assert (plain.verdict, plain.power, flip.verdict) == ("consistent", None, "violated")
    told, flip = verdicts(power=0.8)
    assert flip.power is None
    assert told.power is not None
    assert told.power.model == "randomised response"
    assert told.power.epsilon > 1
    loss = f"; a loss of {math.ceil(told.power.epsilon * 1000) / 1000:.4g} or more"
    assert told.reason == (
        f"{plain.reason}{loss} (randomised response) would have been detected with probability "
        "0.8, if the attack had seen all of it"
    )
