"""Releases by OpenDP 0.2 to 0.5, which have a different API."""

from __future__ import annotations

from library_tables import codes, numbers
from opendp import meas
from opendp.mod import enable_features

enable_features("contrib", "floating-point")


def prepare(params, data):
    """Return a function that makes one release of `params["release"]`, a bit or a number."""
    if params["release"] not in ("bit", "laplace") or params.get("whole"):
        raise NotImplementedError("not with this version of OpenDP")
    if params["release"] == "bit":
        truth = codes({**params, "clean": True}, data)[0] == 1
        measurement = meas.make_randomized_response_bool(prob=params["probability"])
        return lambda: measurement.invoke(truth)
    low, high = params["bounds"][0]
    total = sum(numbers({**params, "clean": True}, data))
    measurement = meas.make_base_laplace((high - low) / params["epsilon"])
    return lambda: measurement.invoke(total)
