"""Baselines keep the promises of estimators, certify if a theorem does, and cite their source."""

import re

import numpy as np
import pytest
from estimator_classes import ALL, OF_SCORES

import dpframe
from dpframe.plugins import PureDP, Query
from dpframe.testing import check_estimator

CERTIFYING = {
    *("dp-sniper", "statdp", "empirical-bernstein", "dkw", "auc"),
    *("auditorium-histogram", "auditorium-renyi", "auditorium-mmd", "renyi-donsker-varadhan"),
    *("sequential-mmd", "sequential-fdp"),
}
by_name = pytest.mark.parametrize("cls", OF_SCORES, ids=lambda cls: cls.name)


LONG = {"auditorium-mmd", "auditorium-renyi", "dkw", "dp-sniper", "statdp"}
LONG |= {"renyi-donsker-varadhan", "sequential-mmd", "sequential-fdp"}
"""Their conformance tests take more than a second each."""


@pytest.mark.parametrize(
    "cls",
    [pytest.param(c, marks=[pytest.mark.slow] if c.name in LONG else []) for c in ALL],
    ids=lambda cls: cls.name,
)
def test_a_baseline_keeps_its_promises(cls):
    check_estimator(cls())


@by_name
def test_a_baseline_says_its_source_its_side_and_what_it_assumes(cls):
    assert cls.certifies == (cls.name in CERTIFYING)
    cited = re.findall(r"\[[A-Z][A-Za-z]*\d{4}(?:, [^\]]*)?\]", cls.reference)
    assert cited
    assert cls.assumption
    assert re.search("one-sided|two-sided", cls.__doc__.lower())
    assert ("certifies nothing" in cls.__doc__) == (
        cls.name in {"katz", "bca", "statdp", "auditorium-renyi", "renyi-donsker-varadhan"}
    )


@by_name
def test_an_estimator_that_certifies_nothing_never_gives_the_verdict_violated(cls):
    record = dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "gross", "trials": 4000},
            "pair": {"use": "zeros-ones"},
            "mechanism": [{"use": "laplace-half-scale", "params": {"epsilon": 2.0}}],
            "attack": [{"use": "identity"}],
            "estimator": [{"use": cls.name}],
            "run": {"pilot": 2000},
        },
        plugins=[cls],
    )
    (cell,) = record["cells"]
    if cls.name in CERTIFYING:
        assert cell["verdict"] in ("violated", "consistent", "inconclusive")
    else:
        assert cell["verdict"] is None
        assert cell["estimate"]["interval"][0] > 2


@by_name
def test_odd_scores_and_few_draws_are_answered(cls):
    estimator = cls()
    odd = np.array([np.nan, -np.inf, np.inf, 0.0, 1.0], np.float32)
    for pilot in (odd, odd[:1], odd[3:4], np.zeros(0, np.float32)):
        statistic = estimator.statistic()
        layout = statistic.bind(pilot, pilot)
        for scores in (odd, odd[:1], odd[:0]):
            counts = np.zeros((2, 257), np.int64)
            for side in (0, 1):
                keep = np.ones(len(scores), bool)
                counts = statistic.update(layout, counts, side, scores, keep)
            query = Query((len(scores), len(scores)), 1e-5, 0.95, PureDP(0.1), 1e-6)
            found = estimator.estimate(layout, counts, query)
            assert not found.epsilon_lower
