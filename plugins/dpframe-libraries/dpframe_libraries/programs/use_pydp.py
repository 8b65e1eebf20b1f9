"""Releases by PyDP, the Python wrapper of Google's library."""

from __future__ import annotations

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from library_tables import numbers
from pydp.algorithms import laplacian


def prepare(params, data):
    """Return a function that makes one release of the algorithm `params["algorithm"]`."""
    make, values = getattr(laplacian, params["algorithm"]), numbers(params, data)
    low, high = params["bounds"][0]
    told = {"epsilon": params["epsilon"], "dtype": "float"}
    if params["algorithm"] != "Count":
        told.update(lower_bound=low, upper_bound=high)
    if params["algorithm"] == "Percentile":
        told.update(percentile=params["quant"])
    return lambda: make(**told).quick_result(values)
