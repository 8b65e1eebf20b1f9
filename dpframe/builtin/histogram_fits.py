"""Estimators that fit a family of mechanisms to two samples; they certify nothing."""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpframe.builtin import one_run
from dpframe.builtin.histogram import (
    LINES,
    MOST_BINS,
    POINTS,
    RATES,
    Binned,
    Histograms,
    PilotBins,
    grouped,
    points,
    profile_of,
)
from dpframe.plugins import (
    Estimate,
    Estimator,
    Floats,
    Ge,
    Gt,
    HostArray,
    Ints,
    Le,
    Lt,
    Query,
    SubsampledGaussianDP,
    Tree,
)
from dpframe.stats import gaussian, histograms, tradeoff
from dpframe.stats.one_run import Normal, normals_epsilon

LARGEST_MU = 1e3  # larger μ count as infinite, as for histograms without a common bin


class GDPFit(Binned, name="gdp-fit"):
    """μ-GDP fitted to the histograms' profile over a stated range, and its ε(δ).

    μ is the smallest one whose curve is nowhere below the profile of the histograms for ε from 0 to
    the end of the range (after [Koskela2024, Appendix A]). For a mechanism that is not Gaussian, μ
    grows with the range and does not describe ε outside it; for a subsampled Gaussian it
    approaches 1/σ, as if nothing were sampled. The notes name the range. There is no bound and no
    verdict.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "a Gaussian curve beyond the range of the fit"
    reference: ClassVar[str] = "[Koskela2024, Appendix A] (arXiv:2406.04827), adapted"

    epsilon_max: Annotated[float, Gt(0)] = 2.0
    """Upper end of the range, unless it ends earlier."""
    delta_min: Annotated[float, Gt(0), Lt(1)] = 0.01
    """The range ends if the profile falls below this δ."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        pair = grouped(layout, counts, query.trials)

        def profile(epsilons: Floats) -> Floats:
            return histograms.privacy_profile(pair.p, pair.q, epsilons)

        fit = tradeoff.fit_gdp_mu(
            profile, epsilon_max=self.epsilon_max, delta_min=self.delta_min, places=POINTS
        )
        epsilons = np.linspace(0.0, max(1.0, fit.epsilon_max), POINTS)
        drawn = min(fit.mu, LARGEST_MU)
        return Estimate(
            epsilon=float(gaussian.gaussian_epsilon(query.delta, drawn))
            if drawn < LARGEST_MU
            else math.inf,
            tradeoff=points(RATES, gaussian.gaussian_tradeoff(RATES, drawn)),
            profile=points(epsilons, gaussian.gaussian_delta(epsilons, drawn)),
            notes=(
                f"mu {fit.mu:.4g} over 0 ≤ ε ≤ {fit.epsilon_max:.4g}, touching at "
                f"{fit.epsilon:.4g}; {pair.bins} bins",
            ),
        )


DISCRETIZATION = 1e-4  # spacing of the grid of privacy losses, that of dp-accounting itself

BIASED = (
    "an estimate, never a bound: sampling noise in the histograms biases it upward, and wide or "
    "merged bins hide loss"
)


class PLDComposition(Binned, name="pld-composition"):
    """ε(δ) after several releases, from the privacy loss distribution of one (section 9.2).

    The distribution has mass p̂_j at ln(p̂_j/q̂_j), and q̂_j at ln(q̂_j/p̂_j) in the other
    direction. dp-accounting convolves it with itself and integrates [Koskela2024, equation 9.1]; of
    the two directions the larger ε counts.

    The estimate errs in both directions. Random differences of p̂_j and q̂_j count as loss, most
    strongly for few compositions; wide bins hide loss. A bin that only one dataset hit would be an
    infinite loss. Such bins are merged with a neighbour, which can hide loss, or left out with
    their mass, or kept as infinite losses. They are also kept if no difference between the datasets
    would be left otherwise.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = (
        "independent and identically distributed releases; errs in both directions"
    )
    reference: ClassVar[str] = "[Koskela2024, equation 9.1] (arXiv:2406.04827)"

    compositions: Annotated[int, Ge(1)] = 1
    """Number of releases."""
    empty: Literal["merge", "drop", "infinity"] = "merge"
    """Treatment of bins that one dataset never hit."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        pair = grouped(layout, counts, query.trials)
        kept = without_empty(pair.counts, self.empty)
        pld = loss_distribution(*(kept / pair.trials[:, None]))
        # dp-accounting rounds far tails up to infinite losses as it composes; losses just add up.
        at_zero = self.compositions * float(pld.get_epsilon_for_delta(0.0))
        if self.compositions > 1:
            pld = pld.self_compose(self.compositions)
        epsilon = min(at_zero, float(pld.get_epsilon_for_delta(query.delta)))

        def profile(epsilons: Floats) -> Floats:
            return np.asarray(np.clip(pld.get_delta_for_epsilon(epsilons), 0.0, 1.0), np.float64)

        epsilons = np.linspace(0.0, max(1.0, epsilon if epsilon < math.inf else 0.0), LINES)
        deltas = profile(epsilons)
        one_sided = pair.counts[:, (pair.counts == 0).any(axis=0)].sum(axis=1) / pair.trials
        return Estimate(
            epsilon=epsilon,
            tradeoff=points(RATES, tradeoff.tradeoff_of_profile(RATES, epsilons, deltas)),
            profile=points(epsilons[:: LINES // POINTS], deltas[:: LINES // POINTS]),
            notes=(
                BIASED,
                f"{self.compositions} releases; bins that only one dataset hits ({self.empty}) "
                f"hold {one_sided[0]:.2g} of D and {one_sided[1]:.2g} of D′",
            ),
        )


def without_empty(counts: Ints, how: str) -> Ints:
    """Treat bins that one dataset never hit: "merge", "drop" or "infinity"; see the class."""
    counts = counts[:, counts.any(axis=0)]
    if how == "infinity":
        return counts
    if how == "drop":
        kept = counts[:, counts.all(axis=0)]
        return kept if kept.size else counts
    # From left to right, a bin ends once both datasets have hit it; what is left joins the last.
    ends, held = [0], np.zeros(2, np.int64)
    for place, column in enumerate(counts.T, start=1):
        held = held + column
        if held.all():
            ends.append(place)
            held = np.zeros(2, np.int64)
    starts = ends[:-1]
    return np.add.reduceat(counts, starts, axis=1) if len(starts) > 1 else counts


def loss_distribution(without: Floats, with_record: Floats) -> Any:
    """Return the privacy loss distributions of both directions, from frequencies."""
    from dp_accounting.pld import privacy_loss_distribution

    lower, upper = (
        {bin_: math.log(mass) for bin_, mass in enumerate(masses.tolist()) if mass > 0}
        for masses in (without, with_record)
    )
    return privacy_loss_distribution.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=DISCRETIZATION, symmetric=False
    )


LARGEST_EPSILON = 700.0  # beyond it no profile is drawn


class TVParameter(Binned, name="tv-parameter"):
    """ε(δ) of the Gaussian mechanism that has the histograms' total variation distance.

    Section 7 of [Koskela2024]: if only the noise σ of a mechanism is unknown, one number determines
    its whole curve. The total variation distance of the two histograms gives σ, which gives ε(δ).
    Of all orders of the hockey-stick divergence this one has the smallest error by lemma 3.

    The interval comes from that of the distance by lemma 2. It is valid for the histograms only:
    binning can hide a part of the distance, and σ has no meaning for other mechanisms than the
    assumed one. So there is no bound and no verdict.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "a Gaussian mechanism on a Poisson sample of known probability"
    reference: ClassVar[str] = "[Koskela2024, section 7, lemma 2] (arXiv:2406.04827)"

    sampling_probability: Annotated[float, Gt(0), Le(1)] = 1.0
    """Probability that the record is in the sample; 1 for no sampling."""
    mode: Literal["sound", "paper"] = "sound"
    """Account for the errors of both histograms, or of one, as the paper does."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        pair = grouped(layout, counts, query.trials)
        q, tv = self.sampling_probability, histograms.total_variation(pair.p, pair.q)
        margin = self.margin(pair, 1 - query.confidence)
        within = np.array([tv, max(0.0, tv - margin), tv + margin])
        sigma, most, least = histograms.sigma_of_total_variation(within, q).tolist()
        epsilon, low, high = (_loss(q, one, query.delta) for one in (sigma, most, least))
        drawn = 0 < sigma < math.inf
        epsilons = np.linspace(0.0, min(max(1.0, epsilon), LARGEST_EPSILON), POINTS)
        deltas = (
            histograms.subsampled_gaussian_hockey_stick(epsilons, q, sigma) if drawn else epsilons
        )
        return Estimate(
            epsilon=epsilon,
            interval=(low, high),
            tradeoff=points(RATES, gaussian.subsampled_gaussian_tradeoff(RATES, q, sigma))
            if drawn
            else (),
            profile=points(epsilons, deltas) if drawn else (),
            notes=(
                f"total variation {tv:.6g} ± {margin:.3g} in {pair.bins} bins",
                f"sigma {sigma:.6g}, from {least:.4g} to {most:.4g}",
                *(() if query.delta else ("a Gaussian mechanism has no ε at δ = 0",)),
            ),
        )

    def margin(self, pair: Histograms, error: float) -> float:
        """Bound the error of the total variation of the histograms."""
        if self.mode == "paper":
            return float(histograms.canonne_radius(pair.trials, pair.bins, error).max())
        return float(histograms.one_sided_radius(pair.trials, pair.bins, error / 2).sum())


def _loss(q: float, sigma: float, delta: float) -> float:
    if sigma in (0.0, math.inf):  # no noise at all, or nothing but noise
        return 0.0 if sigma or delta >= q else math.inf
    return SubsampledGaussianDP(q, sigma).epsilon_at(delta)


class OneShot(Estimator, name="one-shot"):
    """The loss between the scores of random canaries in one run and of others that were not in it.

    A random direction in high dimensions is nearly orthogonal to all others. So each canary's
    score, its inner product with the release, is one draw: about N(0, σ²) for canaries that were
    out, N(1, σ²) for those that were in. A normal distribution with its own mean and deviation is
    fitted to each group, and ε is the loss between the two, in the worse direction [AndrewK2024].
    Histograms can replace the normal distributions; they approach the Gaussian mechanism's curve as
    the dimension grows [Koskela2024, section 8, theorem 1 and corollary 2].

    This is an estimate, not a bound: it assumes the distribution of the scores and their
    independence, and is only about random canaries.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = (
        "random canaries of high dimension whose scores are independent, and distributed as fitted"
    )
    reference: ClassVar[str] = (
        "[AndrewK2024] (arXiv:2302.03098); histograms [Koskela2024, section 8, theorem 1 and "
        "corollary 2] (arXiv:2406.04827)"
    )

    law: Literal["normal", "histogram"] = "normal"
    """Model of the distributions of the scores."""
    dimension: Annotated[int, Ge(2)] | None = None
    """d, if the scores are cosines: the scores of canaries that are out are then N(0, 1/d) and not
    fitted."""
    bins: Annotated[int, Ge(2), Le(MOST_BINS)] | None = None
    """Bins of the histograms; default: by Scott's rule."""

    def check(self) -> None:
        if self.law == "histogram" and self.dimension is not None:
            raise ValueError("dimension requires law = 'normal'; histograms use both sides")

    def statistic(self) -> one_run.InAndOut:
        return one_run.InAndOut(self._bins())

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        both = np.asarray(counts, np.int64).sum(axis=0)
        sizes = (int(both[0].sum()), int(both[1].sum()))
        if not min(sizes):
            return _nothing(sizes)
        pair = grouped(layout, both, sizes)
        if self.law == "histogram":
            variation = histograms.total_variation(pair.p, pair.q)
            return Estimate(
                histograms.histogram_epsilon(pair.p, pair.q, query.delta),
                profile=profile_of(pair),
                notes=(f"{pair.bins} bins, total variation {variation:.6g}",),
            )
        edges = np.asarray(layout["edges"], np.float64)
        places = np.concatenate([edges[:1], edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
        laws = [_moments(places, of) for of in both]
        return self._of_normals(laws[0], laws[1], query)

    def estimate_scores(
        self, scores: tuple[HostArray, HostArray], query: Query, rng: np.random.Generator
    ) -> Estimate:
        out, inside = (np.asarray(values, np.float64) for values in scores)
        sizes = (len(out), len(inside))
        if not min(sizes):
            return _nothing(sizes)
        if self.law == "histogram":
            layout = self._bins().bind(out, inside)
            of = [histograms.bin_counts(layout["edges"], values) for values in (out, inside)]
            return self.estimate(layout, np.stack(of)[None], query)
        laws = [_moments(values, np.ones(len(values), np.int64)) for values in (out, inside)]
        return self._of_normals(laws[0], laws[1], query)

    def estimate_canaries(
        self, scores: HostArray, members: HostArray, query: Query, rng: np.random.Generator
    ) -> Estimate:
        return self.estimate_scores((scores[~members], scores[members]), query, rng)

    def _bins(self) -> PilotBins:
        return PilotBins(self.bins, None, None)

    def _of_normals(self, out: Normal, inside: Normal, query: Query) -> Estimate:
        if self.dimension is not None:
            out = Normal(0.0, self.dimension**-0.5)
        notes = tuple(
            f"canaries {name}: mean {law.mean:.4g}, standard deviation {law.deviation:.4g}"
            for name, law in (("out", out), ("in", inside))
        )
        if not (out.deviation > 0 and inside.deviation > 0):
            return Estimate(
                math.inf,
                notes=(*notes, "the scores have no spread, so no normal distribution fits"),
            )
        if not query.delta:
            more = "two normal distributions have no finite ε at δ = 0; choose another δ"
            return Estimate(math.inf, notes=(*notes, more))
        return Estimate(normals_epsilon(query.delta, out, inside), notes=notes)


def _nothing(sizes: tuple[int, int]) -> Estimate:
    return Estimate(0.0, notes=(f"{sizes[0]} canaries out and {sizes[1]} in: nothing to compare",))


def _moments(values: Any, weights: Any) -> Normal:
    """Return mean and deviation of the finite values."""
    use = np.isfinite(values) & (weights > 0)
    if not use.any():
        return Normal(0.0, 0.0)
    mean = float(np.average(values[use], weights=weights[use]))
    return Normal(mean, float(np.sqrt(np.average((values[use] - mean) ** 2, weights=weights[use]))))
