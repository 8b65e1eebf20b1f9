"""Releases by single modules of SmartNoise, because its packages need others without wheels."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.metadata import distribution

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from library_tables import matrix, numbers


def _module(package, path):
    where = str(distribution(package).locate_file(path))
    spec = importlib.util.spec_from_file_location("smartnoise_module", where)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare(params, data):
    """Return a function that makes one release of `params["release"]`."""
    return {"bounds": _bounds, "covariance": _covariance}[params["release"]](params, data)


def _bounds(params, data):
    module = _module("smartnoise-sql", "snsql/sql/_mechanisms/approx_bounds.py")
    values = numbers(params, data)
    return lambda: module.approx_bounds(list(values), params["epsilon"])


def _covariance(params, data):
    import pandas as pd

    module = _module("smartnoise-synth", "snsynth/models/dp_covariance.py")
    names = [f"x{at}" for at in range(len(params["bounds"]))]
    frame = pd.DataFrame(matrix(params, data), columns=names)
    span = pd.DataFrame(dict(zip(names, map(list, params["bounds"]))))
    box = module.DPcovariance(len(frame), names, span, params["epsilon"])
    return lambda: box.release(frame.copy())
