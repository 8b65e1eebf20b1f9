"""Textbook mechanisms, correct and incorrect, and pairs to test them with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Mechanism, Pair


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism]]:
    """Return mechanisms from the literature, most of them also in an incorrect version."""
    from dpframe_textbook import (
        discrete,
        gaussian_threshold,
        histograms,
        metric,
        noisy_max,
        propose_test_release,
        randomized_response,
        rappor,
        selection,
        snapping,
        sparse_values,
        sparse_vector,
        stable_histogram,
        staircase,
        truncated_geometric,
    )

    return [
        histograms.NoisyHistogram1,
        histograms.NoisyHistogram2,
        histograms.LaplaceParallel,
        histograms.PrefixSum,
        noisy_max.ReportNoisyMax1,
        noisy_max.ReportNoisyMax2,
        noisy_max.ReportNoisyMax3,
        noisy_max.ReportNoisyMax4,
        snapping.Snapping,
        truncated_geometric.TruncatedGeometric,
        sparse_vector.SparseVector1,
        sparse_vector.SparseVector2,
        sparse_vector.SparseVector3,
        sparse_vector.SparseVector4,
        sparse_vector.SparseVector5,
        sparse_vector.SparseVector6,
        sparse_values.NumericalSparseVector,
        sparse_values.SparseVector34,
        rappor.RAPPOR,
        rappor.OneTimeRAPPOR,
        selection.ExponentialMechanism,
        selection.PermuteAndFlip,
        discrete.DiscreteLaplace,
        discrete.DiscreteGaussian,
        staircase.Staircase,
        stable_histogram.StabilityHistogram,
        propose_test_release.ProposeTestRelease,
        randomized_response.SubsampledResponse,
        randomized_response.ShuffledResponse,
        gaussian_threshold.GaussianThreshold,
        metric.PlanarLaplace,
        metric.NearestWord,
    ]


@hookimpl
def dpframe_pairs() -> list[type[Pair]]:
    """Return pairs of query answers and of words."""
    from dpframe_textbook.pairs import QueryPattern, Words

    return [QueryPattern, Words]
