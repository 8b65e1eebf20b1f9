"""The numbers of pages and specs that have a closed form, computed again with SciPy alone.

What comes from runs is compared in `statistical/test_page_runs.py`.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import special, stats
from support import ROOT, closed_forms as exact
from support.pages import Down, Up, agree, row_agrees, rows, section, shows, text_agrees
from support.vote_closed_forms import EPSILONS, exact_loss

from dpframe import Query
from dpframe.builtin.threshold import ThresholdLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.pages import Exact

D = "docs/explanation/density-estimation.md"
SPECS = "specs/density-estimation"
Q, SIGMA = 0.25, 0.3

FIGURE_1 = "## Figure 1: one threshold, interpreted as Gaussian"
FIGURE_2 = "## Figures 2 and 3: credible regions"
FIGURE_4 = "## Figure 4: how many bins"
FIGURE_5 = "## Figures 5 and 6: curves without knowing the noise"
FIGURE_11 = "## Figure 11: many releases"
FIGURE_14 = "## Section 7 and figure 14: from total variation to ε"
FIGURE_13 = "## Appendix A and figure 13: there is no μ in between"


def mixture_mu(epsilon: float) -> float:
    """The μ of the Gaussian curve with the running example's δ at ε."""
    return exact.matching_mu(epsilon, exact.mixture_delta(epsilon, Q, SIGMA))


def at_z(z: float) -> float:
    return exact.threshold_mu(*exact.threshold_rates(z, Q, SIGMA))


Sentence = tuple[str, str, tuple["Exact", ...]]
"""A page, a sentence of it with # for numbers, and the numbers."""


def density_estimation() -> Iterator[Sentence]:
    epsilon, tv = exact.mixture_epsilon(1e-5, Q, SIGMA), exact.mixture_tv(Q, SIGMA)
    yield (
        D,
        "Its exact loss is ε = # at δ = 1e-5, and its total variation distance #.",
        (
            epsilon,
            tv,
        ),
    )
    yield D, "measured, plain Gaussian (exact #)", (1 / SIGMA,)
    one_in = 1e-6 / exact.threshold_rates(1.5, Q, SIGMA)[0]
    yield D, "At z = 1.5 only 1 in # million outputs is a false positive.", (one_in,)
    yield (
        D,
        "mean bound of `histogram` at δ = 0.01, where ε is #",
        (exact.gaussian_epsilon(0.01, 1.0),),
    )
    yield (
        D,
        "Gaussian, # | subsampled, # | Laplace, # |",
        (
            exact.gaussian_epsilon(1e-5, 1.0),
            exact.mixture_epsilon(1e-5, Q, SIGMA),
            1.0,
        ),
    )
    yield (
        D,
        "it reports # instead of the exact # at σ = 1, and finds",
        (
            10.2,  # compared with the run
            exact.mixture_epsilon(1e-5, 0.5, 1.0),
        ),
    )


def specs() -> Iterator[Sentence]:
    """Comments at the head of specs."""
    adept = exact.vote_loss(*exact.laplace_rates(10.0), 2)
    yield "specs/adept-spread.toml", "The exact loss of this attack is #.", (adept,)
    name = f"{SPECS}/figure-01-threshold-curve.toml"
    yield name, "every threshold shows the same μ = 1/σ = #.", (1 / SIGMA,)
    yield (
        name,
        "rises with z: # at z = −1, # at 0, # at 1, # at 1.5, and on towards 1/σ",
        tuple(map(at_z, (-1, 0, 1, 1.5))),
    )
    one_in = 1e-6 / exact.threshold_rates(1.5, Q, SIGMA)[0]
    yield name, "too rare to be observed (1 in # million at z = 1.5).", (one_in,)
    name = f"{SPECS}/figure-04-bins.toml"
    yield name, "TV = 2 Φ(1/2σ) − 1 = # (equation 5.1)", (exact.mixture_tv(1, 1),)
    yield name, "leaks practically nothing (TV = #)", (exact.mixture_tv(1e-6, 1.0),)
    deltas = (1e-5, 1e-3, 0.01, 0.1, 0.2)
    yield (
        f"{SPECS}/figure-05-subsampled-gaussian.toml",
        "The exact ε at the five δ is #, #, #, # and #.",
        tuple(exact.mixture_epsilon(delta, Q, SIGMA) for delta in deltas),
    )
    steepest = tuple(math.exp(1 / (2 * sigma**2)) for sigma in (0.5, 1, 2, 3))
    yield (
        f"{SPECS}/figure-07-best-order.toml",
        "which is #, #, # and # for σ = 0.5, 1, 2 and 3.",
        steepest,
    )
    yield (
        f"{SPECS}/figure-11-composition.toml",
        "the exact ε at δ = 1e-5 is # for one release, # for ten and # for a hundred",
        tuple(exact.composed_epsilon(k, 1e-5, 0.25, 2.0) for k in (1, 10, 100)),
    )
    mus = (exact.threshold_mu(*((1 - exact.mixture_tv(Q, SIGMA)) / 2,) * 2),)
    mus += tuple(map(mixture_mu, (1, 2, 4, 8, 15)))
    name = f"{SPECS}/figure-13-profile-fit.toml"
    yield (
        name,
        "rises: # at ε = 0, # at 1, # at 2, # at 4, # at 8, # at 15, towards 1/σ = #.",
        (*mus, 1 / SIGMA),
    )
    name = f"{SPECS}/figure-14-tv-to-epsilon.toml"
    table = tuple(
        number
        for sigma in (0.3, 0.5, 1.0, 2.0)
        for q in (0.1, 0.25, 0.5)
        for number in (exact.mixture_tv(q, sigma), exact.mixture_epsilon(1e-5, q, sigma))
    )
    six = "# # # # # #"
    yield name, f"q = 0.5 0.3 {six} 0.5 {six} 1.0 {six} 2.0 {six}", table
    name = f"{SPECS}/section-07-example.toml"
    yield name, "20 bins cost nothing (2 ln(2/δ′) = #).", (2 * math.log(2 / 1e-4),)
    lost = max(
        exact.mixture_tv(Q, SIGMA) - exact.binned_tv(np.linspace(-1, 2, 21) + shift, Q, SIGMA)
        for shift in np.linspace(0, 0.15, 301)
    )
    yield name, "Without this edge 20 bins lose up to #.", (Up(lost),)


def other_pages() -> Iterator[Sentence]:
    name = "docs/explanation/library-findings.md"
    yield name, "The exact loss is # at ε = 1, dim 128", (exact_loss("adept", 1.0, 128),)
    yield name, "with `repeats = 100`; the exact loss is #.", (exact_loss("adept", 0.1, 2),)
    share = max(exact_loss("laplace", epsilon, 128) / epsilon for epsilon in EPSILONS)
    yield name, "the vote reveals no more than # % of ε for `laplace`", (Up(100 * share),)
    rare = 1 - (0.05 / 252 / 4) ** 1e-7
    yield name, "252 cells, no bound can exceed #, as", (Down(math.log((1 - rare) / rare)),)

    name = "docs/explanation/statistics.md"
    yield name, "no claim above ln(10⁶) ≈ # can be refuted", (math.log(1e6),)

    name = "docs/explanation/scores-to-bounds.md"
    worst = max(exact.jeffreys_miss_rate(p / 1000, 1000, 0.0, 0.05) for p in range(1, 21))
    assert worst == exact.jeffreys_miss_rate(0.003, 1000, 0.0, 0.05)
    yield (
        name,
        "and FPR = FNR = 0.003, the lower end is above the truth in # % of audits",
        (100 * worst,),
    )
    middle = float(stats.laplace.sf(0.5))
    limits = []
    for n in (10**3, 10**6):
        rate = exact.clopper_pearson(round(n * middle), n, 0.025)[1]
        limits.append(exact.gaussian_epsilon(1e-5, exact.threshold_mu(rate, rate)))
    yield (
        name,
        """at its middle threshold it has the error rates of μ = #. At the expected counts, the
        "lower limit" at δ = 1e-5 is # with 1,000 trials and # with a million.""",
        (exact.threshold_mu(middle, middle), *limits),
    )
    flip = 1 / (1 + math.e)
    yield (
        name,
        "the 95 % lower limit is above the truth in # % of audits",
        (100 * exact.credible_miss_rate(flip, 1000, 0.05),),
    )
    yield name, "Without any leak, the median is # bit and the mean is #.", (1.0, 1 / math.log(2))

    name = "docs/explanation/scores-to-bounds.md"
    yield (
        name,
        "with a width of # σ n^(−1/3) for normal scores",
        (2 * 3 ** (1 / 3) * math.pi ** (1 / 6),),
    )
    tau = exact.sharp(1e6, 20, 0.025)
    yield (
        name,
        "with 20 bins and n = 10⁶, τ is #, and no bound exceeds ln(1/τ) ≈ #, whatever",
        (tau, -math.log(tau)),
    )
    yield name, "is off by only a few times √(FPR/n), that is #.", (math.sqrt(tau / 1e6),)
    yield name, "No threshold on the score shows more than ln cosh 2 = #", (math.log(math.cosh(2)),)

    name = "docs/explanation/scores-to-bounds.md"
    yield (
        name,
        "up to n/2, which is # for a million scores.",
        (len([k for k in range(40) if 3**k <= 5e5]),),
    )
    yield name, "Two separate limits cost # (s₁ + s₂) of ln(p/x)", (special.ndtri(0.975),)
    yield name, "the joint test costs about # √(s₁² + s₂²).", (special.ndtri(1 - 0.8 * 0.05),)

    name = "docs/how-to/audit-a-black-box.md"
    yield name, "is about ln(n/#) for one cell at 95 %", (-math.log(0.05 / 4),)

    name = "docs/sharp-edges.md"
    yield name, "about # of 252 true claims may be called violated", (252 * 0.05,)
    low = np.nextafter(np.float32(-1), np.float32(0))
    # 2²³ values from `low` on in steps of 2⁻²², √2 erf⁻¹ of which are normal.
    top = float(low) + 2 - 2**-22
    ends = [math.sqrt(2) * float(special.erfinv(end)) for end in (float(low), top)]
    yield name, "Normals in float32 lie between # and #; in exact", tuple(ends)
    missing = 1e7 * float(special.ndtr(ends[0]) + special.ndtr(-ends[1]))
    assert 0.5 < missing < 2, "one draw in 10⁷"
    assert ends[1] - ends[0] < 11
    yield (
        name,
        "at most # times the error of the first",
        (1 + sum(1 / (k * (k + 1)) for k in range(2, 100_000)),),
    )

    name = "docs/reference/claims.md"
    yield (
        name,
        "# # [# # #]",
        (
            exact.gaussian_epsilon(1e-5, 1.0),
            exact.gaussian_delta(1.0, 1.0),
            *(float(stats.norm.cdf(stats.norm.ppf(1 - x) - 1)) for x in (0.01, 0.1, 0.5)),
        ),
    )


@pytest.mark.parametrize("sentences", [density_estimation, specs, other_pages])
def test_sentences_say_the_exact_numbers(sentences: Callable[[], Iterator[Sentence]]) -> None:
    wrong = [
        what
        for name, pattern, numbers in sentences()
        for what in text_agrees(name, pattern, *numbers)
    ]
    assert wrong == []


def test_tables_of_the_density_estimation_page() -> None:
    """The columns and rows called exact; the others are compared with runs."""
    wrong = []
    for z, cell, *_ in rows(section(D, FIGURE_1)):
        wrong += agree(cell, at_z(float(z.replace("−", "-"))))
    for sigma, *cells in rows(section(D, FIGURE_14)):
        for cell, q in zip(cells[::2], (0.1, 0.25, 0.5), strict=True):
            wrong += agree(cell, exact.mixture_epsilon(1e-5, q, float(sigma)))
    for releases, cell, *_ in rows(section(D, FIGURE_11)):
        wrong += agree(cell, exact.composed_epsilon(int(releases), 1e-5, 0.25, 2.0))
    ends = (0.01, 0.5, 1, 2, 4, 6, 8)
    wrong += row_agrees(D, FIGURE_13, "exact μ at its end", *map(mixture_mu, ends))
    bins = (2, 3, 5, 15, 20, 100, 500, 1000, 5000)
    distances = [exact.binned_tv(np.linspace(-5, 6, k + 1), 1.0, 1.0) for k in bins]
    wrong += row_agrees(D, FIGURE_4, "exact, of these bins", *distances)
    rates = (0.01, 0.05, 0.1, 0.25, 0.5)
    curve = [exact.mixture_curve(x, Q, SIGMA) for x in rates]
    wrong += row_agrees(D, FIGURE_5, "subsampled Gaussian, exact", *curve)
    wrong += row_agrees(
        D, FIGURE_5, "Laplace, ε = 1, exact", *(exact.laplace_curve(x, 1.0) for x in rates)
    )
    deltas = (1e-5, 1e-3, 0.01, 0.1, 0.2)
    wrong += row_agrees(
        D, FIGURE_5, "exact ε", *(exact.mixture_epsilon(delta, Q, SIGMA) for delta in deltas)
    )
    assert wrong == []


def test_the_table_of_intervals() -> None:
    """50 false positives and 300 false negatives in 1,000 trials each, at δ = 1e-5 and 95 %."""
    name, heading = (
        "docs/explanation/scores-to-bounds.md",
        "## One threshold",
    )
    fp, fn, n, delta = 50, 300, 1000, 1e-5
    wrong = []
    point = exact.loss(fp / n, fn / n, delta)
    for label, limits in (
        ("`threshold`, Clopper-Pearson limits", exact.clopper_pearson),
        ("`threshold`, Jeffreys limits", exact.jeffreys),
    ):
        (x0, x1), (y0, y1) = limits(fp, n, 0.025), limits(fn, n, 0.025)
        ends = Down(exact.loss(x1, y1, delta)), Up(exact.loss(x0, y0, delta))
        wrong += row_agrees(name, heading, label, ends[0], point, ends[1], ())
        if limits is exact.clopper_pearson:
            mu = [exact.threshold_mu(x, y) for x, y in ((x1, y1), (fp / n, fn / n), (x0, y0))]
    counts = np.array([[n - fp, fp], [fn, n - fn]])
    tested = ThresholdLoss(direction="up").estimate((), counts, Query((n, n), delta, 0.95, None))
    assert tested.epsilon_lower is not None
    assert tested.epsilon_upper is not None
    own = Down(tested.epsilon_lower), tested.epsilon, Up(tested.epsilon_upper)
    wrong += row_agrees(name, heading, "`threshold`", *own, ())
    low, middle, high = (exact.gaussian_epsilon(delta, one) for one in mu)
    wrong += row_agrees(name, heading, "`gdp`", Down(low), middle, Up(high), ())
    levels = (0.025, 0.5, 0.975)
    low, middle, high = (exact.credible_epsilon(fp, fn, n, delta, level) for level in levels)
    wrong += row_agrees(name, heading, "`credible`", Down(low), middle, Up(high), ())
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "number", "right"),
    [
        ("0.195", 0.195237, True),
        ("0.19521", 0.195237, False),
        ("1.69", Down(1.699), True),
        ("1.70", Down(1.699), False),
        ("1.68", Down(1.699), False),
        ("1.70", Up(1.699), True),
        ("1.69", Up(1.699), False),
        ("∞", math.inf, True),
        ("∞", Down(3.0), False),
        ("−1", -1.0, True),
        ("4e-7", 3.83e-7, True),
    ],
)
def test_what_is_compared(text: str, number: Exact, right: bool) -> None:
    assert shows(text, number) == right


def test_sentences_of_slow_tests_are_on_their_pages() -> None:
    """Without the runs that give the numbers, because CI makes only a fifth of them each time."""
    source = (ROOT / "tests/statistical/test_page_runs.py").read_text(encoding="utf-8")
    pages = {"PAGE": D, "TUTORIAL": "docs/tutorial.md"}
    calls = [
        (pages[node.args[0].id], node.args[1].value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "text_agrees"
        and isinstance(node.args[0], ast.Name)
        and isinstance(node.args[1], ast.Constant)
    ]
    assert len(calls) > 8
    wrong = [what for page, sentence in calls for what in text_agrees(page, str(sentence))]
    assert [what for what in wrong if "occurs" in what] == []
