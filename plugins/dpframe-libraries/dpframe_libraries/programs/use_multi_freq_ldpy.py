"""Releases by multi-freq-ldpy: a report about one value, or about several attributes."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
from numba import jit

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from library_tables import number, records

CLIENTS = {
    "GRR": ("pure_frequency_oracles.GRR", "GRR_Client"),
    "SUE": ("pure_frequency_oracles.UE", "UE_Client", False),
    "OUE": ("pure_frequency_oracles.UE", "UE_Client", True),
    "THE": ("pure_frequency_oracles.HE", "HE_Client"),
    "SHE": ("pure_frequency_oracles.HE", "HE_Client"),
    "BLH": ("pure_frequency_oracles.LH", "LH_Client", False),
    "OLH": ("pure_frequency_oracles.LH", "LH_Client", True),
    "L-GRR": ("long_freq_est.L_GRR", "L_GRR_Client"),
    "L-SUE": ("long_freq_est.L_SUE", "L_SUE_Client"),
    "L-OUE": ("long_freq_est.L_OUE", "L_OUE_Client"),
    "L-OSUE": ("long_freq_est.L_OSUE", "L_OSUE_Client"),
    "L-SOUE": ("long_freq_est.L_SOUE", "L_SOUE_Client"),
    "L-BLH": ("long_freq_est.L_LH", "L_LH_Client", False),
    "dBitFlipPM": ("long_freq_est.dBitFlipPM", "dBitFlipPM_Client"),
    "SPL-GRR": ("mdim_freq_est.SPL_solution", "SPL_GRR_Client"),
    "SPL-OUE": ("mdim_freq_est.SPL_solution", "SPL_UE_Client", True),
    "SMP-GRR": ("mdim_freq_est.SMP_solution", "SMP_GRR_Client"),
    "SMP-OUE": ("mdim_freq_est.SMP_solution", "SMP_UE_Client", True),
}
"""The module and the client of each protocol, and the client's last argument if it has options."""


@jit(nopython=True)
def _seed(n):
    np.random.seed(n)


def seed(n):
    """Seed the generator of compiled clients; dpframe itself seeds that of the others."""
    _seed(n % 2**32)


def prepare(params, data):
    """Return an object that makes reports of the protocol `params["protocol"]`."""
    name, size, loss = params["protocol"], params["size"], params["epsilon"]
    place, client, *options = CLIENTS[name]
    home = import_module("multi_freq_ldpy." + place)
    row = [min(max(int(number(each)), 0), size - 1) for each in records(data)[0]]
    told = [row[0], size, loss]
    if name[:4] in ("SPL-", "SMP-"):
        told = [row, [size] * len(row), len(row), loss]
    elif name.startswith("L-"):  # ε of all reports, then of one
        told = [row[0], size, params["permanent"], loss]
    elif name == "dBitFlipPM":  # a bucket for each value, and a bit for each bucket
        told = [row[0], size, size, size, loss]
    make, numbers = getattr(home, client), form(params, home)
    told += options
    if params.get("reports", 1) > 1:

        def kept():
            response = make(row[0], size, params["permanent"])  # memoised
            return [make(response, size, loss) for _ in range(params["reports"])]

        return SimpleNamespace(releases=lambda n: [kept() for _ in range(n)])
    return SimpleNamespace(releases=lambda n: [numbers(make(*told)) for _ in range(n)])


def form(params, home):
    """Return a function that converts a report to the numbers that dpframe sees.

    The report supports a value [Wang2017, section 3] if the server counts it for the value.
    """
    name, between = params["protocol"], params.get("between")
    values = between or range(params["size"])
    if name.endswith("LH"):
        from xxhash import xxh32

        sizes = 2 if name.endswith("BLH") else round(float(np.exp(params["epsilon"]))) + 1

        def support(report, value):
            return xxh32(str(value), seed=report[1]).intdigest() % sizes == report[0]

    elif name.endswith("GRR"):

        def support(report, value):
            return report == value

    elif name == "THE":
        from scipy.optimize import minimize_scalar

        args, limits = (params["epsilon"],), (0.5, 1)  # as the library's server calls it
        best = minimize_scalar(home.find_tresh, bounds=limits, args=args, method="bounded").x

        def support(report, value):
            return report[value] > best

    else:  # a noisy number, clipped to the range of the exact one

        def support(report, value):
            return min(max(report[value], 0.0), 1.0)

    if between:
        return lambda report: (
            float(support(report, between[0])) - float(support(report, between[1]))
        )
    if name in ("THE", "BLH", "OLH", "L-BLH"):
        return lambda report: [int(support(report, value)) for value in values]
    if name == "SMP-OUE":
        return lambda report: np.array([report[0], *report[1]], float)
    return lambda report: report
