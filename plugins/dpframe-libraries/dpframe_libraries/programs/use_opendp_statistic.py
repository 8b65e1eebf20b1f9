"""Sums, means and variances by OpenDP, with what they are without noise.

Data go through the library's own cleaning first: what is missing becomes the lower bound, all
values are clamped. The scale of the noise follows from what the library says of the sensitivity.
"""

from __future__ import annotations

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # behind all libraries

import opendp.prelude as dp
from library_tables import numbers

dp.enable_features("contrib")
REPLACED = 2
"""One record replaced, in OpenDP's symmetric distance."""


def prepare(params, data):
    """A function that makes one release of `params["statistic"]`."""
    table = numbers(params, data)
    statistic = _statistic(params, len(table))
    scale = statistic.map(REPLACED) / params["epsilon"]
    measurement = statistic >> dp.m.then_laplace(scale=scale)
    return lambda: measurement(table)


def query(params, data):
    """The statistic."""
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
    """Floats with NaN; older releases call that null, and clean it all the same."""
    try:
        return dp.atom_domain(T=float, nan=True)
    except TypeError:
        return dp.atom_domain(T=float, nullable=True)
