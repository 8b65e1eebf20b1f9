"""Every spec runs, with few trials: every cell is judged or says why not, nothing is a false alarm.

Exact losses come from the closed forms, or else from the mechanisms' own truths, which have tests
of their own. False-alarm rate: the bounds of a spec hold together with 95 %, at fixed seeds, and
the specs' own seeds are used.
"""

from __future__ import annotations

import pytest
from support import SPECS
from support.record_checks import (
    check_every_cell_ran,
    check_nothing_is_a_false_alarm,
    check_slack_adds_up,
)
from support.vote_closed_forms import exact_loss

import dpframe
from dpframe.interfaces import registry
from dpframe.spec import load_audit

FEWER = {
    "adept-spread": ["audit.repeats=20"],
    "calibration": ["audit.trials=2000"],
    "calibration-estimates": ["audit.trials=2000"],
    "dptext-decided": ["mechanism.epsilon=[0.1, 1.0, 10.0]"],  # dptext has all 252 cells
}
SOME = [("quick", []), ("adept-spread", ["audit.repeats=5"])]
"""The default run."""
APART = ("libraries", "density-estimation")
"""Specs that have tests of their own: a plugin's; the other paper's, which check the same."""

RUNS = [
    *((next(SPECS.rglob(f"{name}.toml")), few) for name, few in SOME),
    *(
        pytest.param((path, FEWER.get(path.stem, [])), marks=pytest.mark.slow)
        for path in sorted(SPECS.rglob("*.toml"))
        if path.stem != "quick" and path.parent.name not in APART
    ),
]
LIBRARIES = sorted((SPECS / "libraries").glob("*.toml"))
"""These need a plugin, whose own tests run them where their environments are built."""

DPTEXT = ("adept-spread", "dptext", "dptext-decided", "quick")
"""Specs of the DPText paper: every cell has a closed form and an expectation."""


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: run[0].stem)
def finished(request: pytest.FixtureRequest):
    spec, overrides = request.param
    return spec, dpframe.audit(spec, overrides=["audit.trials=20000", *overrides])


def test_every_cell_ran_or_says_why_it_was_skipped(finished) -> None:
    spec, record = finished
    check_every_cell_ran(record)
    if spec.stem in DPTEXT:
        assert record["skipped"] == []
        assert record["summary"]["m"] == len(record["cells"])


def test_slack_adds_up_in_every_certified_cell(finished) -> None:
    spec, record = finished
    cells = check_slack_adds_up(record)
    if spec.stem in DPTEXT:
        assert cells == len(record["cells"])


def test_nothing_is_a_false_alarm(finished) -> None:
    check_nothing_is_a_false_alarm(finished[1])


def test_closed_forms_of_the_dptext_paper(finished) -> None:
    spec, record = finished
    for cell in record["cells"] if spec.stem in DPTEXT else ():  # others are of other papers
        assert cell["expected"] is not None
        use = cell["mechanism"]["use"]
        loss = exact_loss(
            "dptext-zero" if use == "dptext" else use,
            cell["mechanism"]["params"]["epsilon"],
            cell["pair"]["params"]["dim"],
        )
        assert cell["estimate"]["epsilon_lower"] <= loss
        if cell["verdict"] == "violated":
            assert loss > cell["claim"]["epsilon"]


def test_the_whole_of_figure_2_is_there() -> None:
    cells = load_audit(SPECS / "dptext.toml", registry=registry.load()).cells
    assert len(cells) == 252
    assert all(cell.trials == 10_000_000 for cell in cells)
    for cell in cells:
        use, dim = cell.mechanism.use, cell.pair.value.dim
        honest = use in ("laplace", "laplace-halved", "random-output") or (use, dim) == ("adept", 1)
        assert cell.expected == ("consistent" if honest else "violated")


@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.stem)
def test_a_spec_of_libraries_is_whole(path) -> None:
    plugins = registry.load()
    if not any(entry.distribution == "dpframe-libraries" for entry in plugins.entries):
        pytest.skip("plugins/dpframe-libraries is not installed; its tests run these specs")
    audit = load_audit(path, registry=plugins)
    given = "\n[pair]" in path.read_text(encoding="utf-8")
    assert all((cell.search is None) == given for cell in audit.cells)
