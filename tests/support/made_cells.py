"""Cells of estimators beside each other, and of scores that were counted in bins."""

import numpy as np
from scipy import stats

from support import made_records


def asked(use, **changes):
    cell = made_records.cell(epsilon=1.0, m=2)
    cell["estimator"] = {"use": use, "label": use, "params": {}}
    cell["estimate"] |= changes
    return cell | {"id": use, "swept": {}}


def silent(use, **changes):
    """One that certifies nothing."""
    nothing = dict.fromkeys(("epsilon_lower", "epsilon_upper", "epsilon_upper_of"))
    cell = asked(use, **nothing, certified=False, **changes)
    return cell | {"verdict": None, "p_value": None, "p_adjusted": None}


EDGES = np.linspace(-3, 4, 40)


def counted(n=10_000, nan=7):
    """Expected counts of unit normal scores around 0 and around 1, and as many NaN on D."""
    rows = []
    for mean in (0, 1):
        below = np.concatenate([[0], stats.norm.cdf(EDGES - mean), [1]])
        rows.append([0 if mean else nan, *np.round(n * np.diff(below)).astype(int).tolist()])
    cell = asked("order-statistics", notes=["way chosen: scores from 1.25 on mean D′"])
    cell["counts"] = rows
    cell["statistic"] = {"name": "PilotGrid", "edges": [*EDGES.tolist(), "inf", "inf"]}
    cell["counts"] = [[*row, 0, 0] for row in rows]
    return cell
