"""Releases by PipelineDP: counts and sums of groups that are fixed in advance."""

from __future__ import annotations

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

import pipeline_dp
from library_tables import numbers, records

BESIDE = "", "no group", 0.0
"""A record that is always present, because a pipeline needs a non-empty collection. Its group is
not released."""


def prepare(params, data):
    """Return a function that makes one release; every record is a separate user."""
    low, high = params["bounds"][0]
    names = [row[0] for row in records(data)]
    values = numbers({**params, "bounds": [None, params["bounds"][0]]}, data, 1)
    rows = [(str(at), *row) for at, row in enumerate(zip(names, values))]
    if params["clean"]:
        rows.append(BESIDE)
    told = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=[getattr(pipeline_dp.Metrics, params["metric"])],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=low,
        max_value=high,
    )
    parts = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )

    def release():
        accountant = pipeline_dp.NaiveBudgetAccountant(params["epsilon"], total_delta=1e-12)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        groups = engine.aggregate(rows, told, parts, public_partitions=list(params["categories"]))
        accountant.compute_budgets()
        found = {group: list(values) for group, values in groups}
        return [found[group] for group in params["categories"]]

    return release
