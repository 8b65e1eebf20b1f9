import math

import pytest
from support import made_records
from support.made_cells import asked, counted

from dpframe.results.store import as_record

pytest.importorskip("matplotlib")


@pytest.fixture(scope="session")
def small():
    """Three mechanisms, three claims, two dimensions, as a run would have found them."""
    cell = made_records.cell
    uses = ("laplace", "adept", "dptext")
    cells = [cell(use, e, dim, m=18) for use in uses for e in (0.1, 1.0, 10.0) for dim in (1, 8)]
    for one in cells:
        rate = 1 / (1 + math.exp(one["estimate"]["epsilon_lower"]))
        one["estimate"]["tradeoff"] = [[rate, rate]]
    return as_record(made_records.record(cells))


@pytest.fixture(scope="session")
def fitting(small):
    """For each kind of figure a record that it fits."""
    several = [asked("threshold"), asked("histogram")]
    return {
        **dict.fromkeys(("sweep", "heat-map", "trade-off", "profile"), small),
        "comparison": as_record(made_records.record(several)),
        "scores": as_record(made_records.record([counted()])),
    }
