"""Sums, means and variances by OpenDP, with their values without noise.

The library first cleans the data: missing values become the lower bound, and all values are
clamped. The scale of the noise follows from the sensitivity that the library states.
"""

from __future__ import annotations

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

import opendp.prelude as dp
from library_tables import numbers

dp.enable_features("contrib")
REPLACED = 2
"""One record replaced, in OpenDP's symmetric distance."""


def prepare(params, data):
    """Return a function that makes one release of `params["statistic"]`."""
    table = numbers(params, data)
    statistic = _statistic(params, len(table))
    scale = statistic.map(REPLACED) / params["epsilon"]
    measurement = statistic >> dp.m.then_laplace(scale=scale)
    return lambda: measurement(table)


def query(params, data):
    """Return the statistic without noise."""
    table = numbers(params, data)
    return _statistic(params, len(table))(table)


def sensitivity(params):
    """Return the largest change by one replaced record, as the library states it."""
    return _statistic(params, params["size"]).map(REPLACED)


def _statistic(params, size):
    low, high = params["bounds"][0]
    space = dp.vector_domain(_floats(), size=size), dp.symmetric_distance()
    cleaned = space >> dp.t.then_impute_constant(low) >> dp.t.then_clamp((low, high))
    return cleaned >> getattr(dp.t, "then_" + params["statistic"])()


def _floats():
    """Return the domain of floats with NaN; older releases call NaN null, but also clean it."""
    try:
        return dp.atom_domain(T=float, nan=True)
    except TypeError:
        return dp.atom_domain(T=float, nullable=True)
