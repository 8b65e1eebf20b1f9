"""Two hundred audits of the correct trainer, a hundred with each canary, report no violation.

Every audit has confidence .9999, so its two cells err together with probability 2e-4 at most. A
mistake that makes a share p of the 400 cells wrong is missed with probability (1 − p)⁴⁰⁰: 2 % for
p = .01.
"""

import math

import numpy as np
import pytest
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.pairs import Canary
from dpsgd_support import SMALL

import dpframe

DELTAS = [0.0, 1e-9, 1e-7, 1e-5, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8]
TRAINER = {**SMALL, "steps": 12, "output": "steps", "canary_norm": 5.0}


def audits(repeats, canary):
    return dpframe.audit(
        {
            "schema": 1,
            "audit": {
                "name": "promise",
                "trials": 200,
                "confidence": 0.9999,
                "multiplicity": "none",
                "repeats": repeats,
            },
            "pair": {"use": "canary", "params": {"canary": canary, "records": 20}},
            "mechanism": [{"use": "dpsgd", "params": TRAINER}],
            "attack": [
                {"use": "canary-search"},
                {"use": "canary-steps", "params": {"combine": "likelihood-ratio"}},
            ],
            "estimator": [{"use": "order-statistics"}],
            "run": {"fit": 40, "pilot": 100},
        }
    )


def bound(point, delta):
    """Return the largest ε that a certified point (FPR, FNR) of the curve rules out at δ."""
    fpr, fnr = point
    both = ((1 - fnr - delta, fpr), (1 - fpr - delta, fnr))
    return max((math.log(up / down) for up, down in both if up > 0 and down > 0), default=0.0)


def check(record, repeats, canary):
    """Assert that no cell is violated and every bound is below the accountant's ε, at every δ."""
    pair = Canary.from_params({"records": 20, "canary": canary})
    claim = DPSGD.from_params(TRAINER).resolve(pair).claim(pair)
    claimed = np.array([claim.epsilon_at(delta) for delta in DELTAS])
    assert len(record["cells"]) == 2 * repeats
    told = 0
    for cell in record["cells"]:
        assert cell["status"] == "ok"
        assert cell["verdict"] != "violated"
        for point in cell["estimate"]["tradeoff"]:
            found = [bound(point, delta) for delta in DELTAS]
            assert (found <= claimed + 1e-9).all()
        for epsilon, delta in cell["estimate"]["profile_lower"]:
            assert epsilon <= claim.epsilon_at(delta) + 1e-9
        told += cell["estimate"]["epsilon_lower"] > 0.1
    assert told >= max(1, repeats // 4)  # the bounds say something


def test_the_correct_trainer_is_not_accused():
    check(audits(2, "gradient"), 2, "gradient")


def no_slack(*_):
    """Leave out the parts of claimed − certified ε: they take half of the estimators' time."""


@pytest.mark.slow
@pytest.mark.parametrize("canary", ["gradient", "mislabelled"])
def test_a_hundred_audits_of_the_correct_trainer_find_nothing(canary, monkeypatch):
    monkeypatch.setattr("dpframe.engine.estimate.slack", no_slack)
    check(audits(100, canary), 100, canary)
