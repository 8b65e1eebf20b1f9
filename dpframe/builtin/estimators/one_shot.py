"""An estimate of ε from random canaries, some of them in the data of a single run."""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpframe.builtin.estimators import histogram, one_run
from dpframe.plugins import Estimate, Estimator, Ge, HostArray, Ints, Le, Query, Statistic, Tree
from dpframe.stats.histograms import bin_counts, histogram_epsilon, total_variation
from dpframe.stats.one_run import Normal, normals_epsilon


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
    bins: Annotated[int, Ge(2), Le(histogram.MOST_BINS)] | None = None
    """Bins of the histograms; default: of Scott's width."""

    def check(self) -> None:
        if self.law == "histogram" and self.dimension is not None:
            raise ValueError("dimension requires law = 'normal'; histograms use both sides")

    def statistic(self) -> Statistic:
        return one_run.InAndOut(self._bins())

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        both = np.asarray(counts, np.int64).sum(axis=0)
        sizes = (int(both[0].sum()), int(both[1].sum()))
        if not min(sizes):
            return _nothing(sizes)
        found = histogram.grouped(layout, both, sizes)
        if self.law == "histogram":
            return _of_histograms(found, query)
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
            counts = np.stack([bin_counts(layout["edges"], values) for values in (out, inside)])
            return _of_histograms(histogram.grouped(layout, counts, sizes), query)
        laws = [_moments(values, np.ones(len(values), np.int64)) for values in (out, inside)]
        return self._of_normals(laws[0], laws[1], query)

    def estimate_canaries(
        self, scores: HostArray, members: HostArray, query: Query, rng: np.random.Generator
    ) -> Estimate:
        return self.estimate_scores((scores[~members], scores[members]), query, rng)

    def _bins(self) -> histogram.PilotBins:
        return histogram.PilotBins(self.bins, None, None)

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


def _of_histograms(found: histogram.Histograms, query: Query) -> Estimate:
    return Estimate(
        histogram_epsilon(found.p, found.q, query.delta),
        profile=histogram.profile_of(found),
        notes=(f"{found.bins} bins, total variation {total_variation(found.p, found.q):.6g}",),
    )


def _nothing(sizes: tuple[int, int]) -> Estimate:
    return Estimate(0.0, notes=(f"{sizes[0]} canaries out and {sizes[1]} in: nothing to compare",))


def _moments(values: Any, weights: Any) -> Normal:
    """Return mean and deviation of the finite values."""
    use = np.isfinite(values) & (weights > 0)
    if not use.any():
        return Normal(0.0, 0.0)
    mean = float(np.average(values[use], weights=weights[use]))
    return Normal(mean, float(np.sqrt(np.average((values[use] - mean) ** 2, weights=weights[use]))))
