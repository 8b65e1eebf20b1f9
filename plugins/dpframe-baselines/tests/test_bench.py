"""The bench: 44 mechanisms with exact losses, and a slice of its audits.

False-alarm rate: 1e-6 a test, at fixed seeds.
"""

import csv
import math
import sys
from pathlib import Path

import bench
import numpy as np
import pytest
from bench_mechanisms import (
    CLEAR,
    DELTA,
    EPSILON,
    RATE,
    SIGMA,
    WORDS,
    all_cases,
    cells,
    distance_to_claim,
    epsilon_of_laws,
    laplace_below,
    numeric_sparse_vector,
)
from dpframe_baselines import common
from scipy import integrate, optimize, stats

from dpframe.plugins import Estimate

CASES = all_cases()
FROZEN = {row["mechanism"]: row for row in bench.read(bench.MECHANISMS)}
RESULTS = bench.read(bench.RESULTS)
PAGE = Path(bench.HERE).parents[1] / "docs" / "explanation" / "rivals.md"
WRONG = 23


def test_the_mechanisms_have_the_losses_and_optima_in_the_file():
    assert list(CASES) == list(FROZEN)
    assert len(CASES) == 44
    assert sum(row["right"] == "false" for row in FROZEN.values()) == WRONG
    for row in bench.frozen(CASES):
        frozen = FROZEN[row["mechanism"]]
        for key in ("claim", "delta", "loss"):
            assert float(row[key]) == pytest.approx(float(frozen[key]), rel=1e-8), row
        assert row["right"] == frozen["right"]
        if row["right"] == "false":
            assert float(row["optimum"]) == pytest.approx(float(frozen["optimum"]), rel=3e-3), row


@pytest.mark.parametrize("name", CASES)
def test_scores_are_log_likelihood_ratios(name):
    """P′(score ≥ t) is the mean of e^score over draws from D with score ≥ t, and the reverse."""
    case, n = CASES[name], 40_000
    scores = [case.draw(np.random.default_rng([7, side]), side, n) for side in (0, 1)]
    both = np.concatenate(scores)
    assert np.abs(both).max() <= CLEAR + 1e-9
    if case.truth < math.inf and not case.delta:
        assert np.abs(both).max() <= case.truth + 1e-9
    for cut in (-0.0123, 0.37 * min(case.truth, 5.0)):  # not at an atom
        for sign, (one, other) in ((1, scores), (-1, scores[::-1])):
            seen = (sign * one < cut) & (sign * one > -CLEAR)  # weights of at most e^cut
            weights = np.where(seen, np.exp(np.minimum(sign * one, cut)), 0.0)
            wanted = ((sign * other < cut) & (sign * other > -CLEAR)).mean()
            error = math.sqrt((weights.var() + wanted * (1 - wanted)) / n) + 1e-4
            assert abs(weights.mean() - wanted) < 6 * error


def test_the_loss_of_laws_is_that_of_sums():
    zero, one = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.3, 0.4999, 0.0001])
    assert epsilon_of_laws(zero, one, 0.0) == math.inf
    assert epsilon_of_laws(zero[:3], one[:3], 0.0) == pytest.approx(math.log(2.5))
    epsilon = epsilon_of_laws(zero, one, 0.05)
    growth = math.exp(epsilon)
    over = sum(max(0.0, p - growth * q) for p, q in zip(one, zero, strict=True))
    under = sum(max(0.0, p - growth * q) for p, q in zip(zero, one, strict=True))
    assert max(over, under) == pytest.approx(0.05)
    assert epsilon_of_laws(zero, zero, 0.1) == 0.0


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_distance_to_a_claim_is_the_smallest_divergence(delta):
    zero, one = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.1, 0.3, 0.1, 0.5])
    growth = math.exp(0.7)

    def divergence(laws):
        return (zero * np.log(zero / laws[:4])).sum() + (one * np.log(one / laws[4:])).sum()

    events = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T  # all 16
    limits = np.block([[-events, growth * events], [growth * events, -events]])
    found = optimize.minimize(
        divergence,
        np.full(8, 0.25),
        method="SLSQP",
        bounds=[(1e-9, 1)] * 8,
        constraints=[
            {"type": "ineq", "fun": lambda laws: limits @ laws + delta},
            {"type": "eq", "fun": lambda laws: (laws[:4].sum() - 1, laws[4:].sum() - 1)},
        ],
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert distance_to_claim(zero, one, 0.7, delta) == pytest.approx(found.fun, rel=1e-5)
    assert distance_to_claim(zero, zero, 0.7, delta) == pytest.approx(0, abs=1e-9)
    rare = np.append(zero, 1e-320), np.append(one, 0.0)
    assert distance_to_claim(*rare, 0.7, delta) == pytest.approx(found.fun, rel=1e-5)


@pytest.mark.parametrize(
    ("below", "epsilon", "delta", "draws"),
    [
        (lambda x: laplace_below(x, 1.0), 0.8, 0.0, 524),
        (stats.norm.cdf, 1.0, 1e-5, 109),
        (stats.norm.cdf, 1.0, 0.1, 3140),
    ],
)
def test_the_best_bet_takes_as_many_draws_as_in_the_benchmark_of_power(
    below, epsilon, delta, draws
):
    laws = [cells(lambda x, a=a: below(x - a), 1 / 64, 20.0) for a in (0, 1)]
    assert math.log(20) / distance_to_claim(*laws, epsilon, delta) == pytest.approx(draws, rel=5e-3)


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_the_law_of_sparse_vector_3_is_an_integral(answer):
    law = numeric_sparse_vector(np.full(5, answer))
    assert law.sum() == pytest.approx(1, abs=1e-6)
    noise = stats.laplace(scale=2 / EPSILON)

    def third(rho):  # the first answer above is the third, and its number is in [1, 1.5)
        above = max(0.0, noise.cdf(1.5 - answer) - noise.cdf(max(1.0, 1 + rho) - answer))
        return noise.pdf(rho) * noise.cdf(1 + rho - answer) ** 2 * above

    exact = integrate.quad(third, -60, 0.5, points=[-1.0, 0.0], limit=400)[0]
    cells = (len(law) - 1) // 5
    place = 2 * cells + 1 + round((1.0 + 20) / 0.5)
    assert law[place] == pytest.approx(exact, rel=1e-4)


def test_losses_of_the_papers_are_in_the_table():
    """k ε/2 for the largest noisy answer and for released answers, of five queries."""
    losses = {name: float(row["loss"]) for name, row in FROZEN.items()}
    assert losses["report-noisy-max-3"] == pytest.approx(5 * EPSILON / 2, rel=1e-6)
    assert losses["sparse-vector-3"] == pytest.approx(5 * EPSILON / 2, rel=1e-3)
    assert losses["noisy-histogram-2"] == 2.0
    assert losses["truncated-geometric"] == pytest.approx(math.log1p(0.5))
    assert losses["truncated-geometric-natural"] == pytest.approx(math.log1p(0.125))
    keep = 1 / (1 + math.exp(-EPSILON))
    assert losses["word-or-another"] == pytest.approx(math.log(keep * (WORDS - 1) / (1 - keep)))


def test_the_loss_of_numerical_sparse_vectors_is_that_of_places_and_of_two_numbers():
    rho = np.linspace(-80, 80, 160_001)
    noise = stats.laplace.pdf(rho, scale=3 / EPSILON)
    found = []
    for answer in (1.0, 0.0):
        below = stats.laplace.cdf(1 + rho - answer, scale=12 / EPSILON)
        chances = [noise * below**low * (1 - below) ** 2 for low in range(4)]
        found.append(np.log(np.trapezoid(chances, rho, axis=1)))
    places = np.abs(np.subtract(*found)).max()
    losses = {name: float(row["loss"]) for name, row in FROZEN.items()}
    expected = pytest.approx(places + EPSILON / 3, rel=1e-5)
    assert losses["numerical-sparse-vector"] == expected
    assert losses["numerical-sparse-vector-unscaled"] == pytest.approx(places + 2, rel=1e-5)


def test_the_loss_of_two_steps_of_training_is_a_double_integral():
    """Cells lose up to 2 % of δ. With the same noise, sums that differ tell the record."""
    epsilon, x = float(FROZEN["sgd-two-steps"]["loss"]), np.arange(-6, 7, 0.02)
    out = stats.norm.pdf(x, scale=SIGMA)
    inside = (1 - RATE) * out + RATE * stats.norm.pdf(x, 1, SIGMA)
    zero, one = np.outer(out, out) * 4e-4, np.outer(inside, inside) * 4e-4
    ways = [np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ((zero, one), (one, zero))]
    assert DELTA < max(ways) < 1.02 * DELTA
    zero, one = CASES["sgd-two-steps-same-noise"].laws
    assert one[zero == 0].sum() == pytest.approx(2 * RATE * (1 - RATE))


@pytest.mark.parametrize(
    ("name", "sigma"), [("sgd-step", SIGMA), ("sgd-step-half-noise", SIGMA / 2)]
)
def test_the_loss_of_a_step_of_training_is_an_integral(name, sigma):
    epsilon = float(FROZEN[name]["loss"])
    x = np.linspace(-12, 14, 400_001)
    out = stats.norm.pdf(x, scale=sigma)
    inside = (1 - RATE) * out + RATE * stats.norm.pdf(x, 1, sigma)
    ways = [np.maximum(p - math.exp(epsilon) * q, 0) for p, q in ((inside, out), (out, inside))]
    assert max(np.trapezoid(way, x) for way in ways) == pytest.approx(DELTA, rel=1e-3)


class Rash(common.Baseline, name="rash"):
    """Refutes every claim."""

    certifies, assumption = True, "none"

    def estimate(self, layout, counts, query):
        return Estimate(0.0, 0.0, p_value=1e-9, p_resolved=1e-9)


def test_false_alarms_and_draws_are_counted():
    for name, draws, alarms in (("laplace", "", "2"), ("noisy-histogram-2", "25", "")):
        row = bench.measured(CASES[name], Rash(), 2, 1)
        assert (row["draws"], row["alarms"]) == (draws, alarms)


SLICE = ["--repeats", "1", "--doublings", "3"]


def run(monkeypatch, results, *options):
    files = ["--results", str(results), "--figure", str(results.with_suffix(".svg"))]
    monkeypatch.setattr(sys, "argv", ["bench.py", *files, *SLICE, *options])
    bench.main()
    return bench.read(results)


def test_a_slice_of_the_bench_resumes_and_measures_a_method_again(tmp_path, monkeypatch, capsys):
    results, only = tmp_path / "results.csv", ("--mechanism", "noisy-histogram-2")
    rows = run(monkeypatch, results, *only, "--mechanism", "rappor")
    assert "| **betting** | 1 of 1 |" in capsys.readouterr().out
    assert results.with_suffix(".svg").read_text(encoding="utf-8").startswith("<?xml")
    assert len(rows) == 2 * len(bench.methods([]))
    rows[0]["bound"] = "0.1234"  # a row that is there is not measured again
    bench.write(results, rows)
    again = run(monkeypatch, results, *only, "--method", "gdp")
    assert again[: len(rows) // 2] == rows[: len(rows) // 2]
    fresh = run(monkeypatch, results, *only, "--fresh", rows[0]["method"])
    assert fresh[0]["bound"] != "0.1234"
    assert fresh[1:] == [row for row in again if row["method"] != rows[0]["method"]]


def test_the_results_are_complete_and_the_page_shows_them():
    known = bench.methods([])
    assert {(row["mechanism"], row["method"]) for row in RESULTS} == {
        (case, method) for case in CASES for method in known
    }
    assert bench.RESULTS.stat().st_size < 100_000
    lines = bench.summary(RESULTS, CASES)
    assert bench.table(lines, bench.REPEATS) in PAGE.read_text(encoding="utf-8")


def test_no_method_has_more_false_alarms_than_its_error():
    for line in bench.summary(RESULTS, CASES):
        audits = line["right"] * bench.REPEATS
        assert stats.binom.sf(line["alarms"] - 1, audits, 1 - bench.CONFIDENCE) > 1e-6, line[
            "method"
        ]
        assert line["right"] == len(CASES) - WRONG


def test_rows_are_csv(tmp_path):
    rows = [{"a": "1", "b": "x,y"}]
    bench.write(tmp_path / "rows.csv", rows)
    assert bench.read(tmp_path / "rows.csv") == rows
    assert bench.read(tmp_path / "none.csv") == []
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        assert next(csv.reader(file)) == ["a", "b"]


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--mechanism", "laplac", "unknown mechanism laplac"),
        ("--method", "bettin", "unknown estimator 'bettin'"),
        ("--method", "katz", "katz certifies no bound"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_measured(
    option, name, message, tmp_path, monkeypatch, capsys
):
    results = tmp_path / "results.csv"
    arguments = ["--results", str(results), option, name, "--fresh"]
    monkeypatch.setattr(sys, "argv", ["bench.py", *arguments])
    with pytest.raises(SystemExit) as refused:
        bench.main()
    assert refused.value.code == 2
    assert message in capsys.readouterr().err
    assert not results.exists()
