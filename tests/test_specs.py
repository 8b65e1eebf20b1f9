"""Every spec runs, with few trials: every cell is judged or says why not, nothing is a false alarm.

Exact losses come from the closed forms, or else from the mechanisms' own truths, which have tests
of their own. False-alarm rate: the bounds of a spec hold together with 95 %, at fixed seeds, and
the specs' own seeds are used.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.vote_closed_forms import exact_loss

import dpframe
from dpframe import registry
from dpframe.spec import load_audit

SPECS = sorted((Path(__file__).parent.parent / "specs").rglob("*.toml"))
FEW = {
    "adept-spread": ["audit.repeats=5"],
    "calibration": ["audit.trials=2000"],
    "calibration-estimates": ["audit.trials=2000"],
}
DPTEXT = ("adept-spread", "dptext", "quick")
"""Specs of the DPText paper: every cell has a closed form and an expectation."""


@pytest.fixture(scope="module", params=SPECS, ids=lambda path: path.stem)
def finished(request: pytest.FixtureRequest):
    spec = request.param
    few = ["audit.trials=20000", *FEW.get(spec.stem, [])]
    return spec, dpframe.audit(spec, overrides=few)


def test_every_cell_ran_or_says_why_it_was_skipped(finished) -> None:
    spec, record = finished
    assert record["cells"]
    assert [cell["reason"] for cell in record["cells"] if cell["status"] == "failed"] == []
    assert all(skip["reason"] for skip in record["skipped"])
    judged = [cell for cell in record["cells"] if cell["verdict"] is not None]
    assert record["summary"]["m"] == len(judged)
    for cell in record["cells"]:
        decided = cell["claim"] is not None and cell["estimate"]["certified"]
        assert (cell["verdict"] is not None) == decided
    if spec.stem in DPTEXT:
        assert record["skipped"] == []
        assert len(judged) == len(record["cells"])


def test_nothing_is_a_false_alarm(finished) -> None:
    _, record = finished
    for cell in record["cells"]:
        bound = cell["estimate"]["epsilon_lower"]
        if cell["truth"] is not None and bound is not None:
            truth = float(cell["truth"]["epsilon"])
            assert bound <= truth
            # The claim is a curve: it may be violated at another δ than that of the estimate.
            if cell["verdict"] == "violated" and cell["claim"]["kind"] in ("pure-dp", "approx-dp"):
                assert truth > float(cell["claim"]["epsilon"])
        if cell["expected"] == "consistent":
            assert cell["verdict"] != "violated"
        if cell["verdict"] == "violated" and cell["expected"] is None:
            pytest.fail(f"{cell['id']}: a violation that the spec does not expect")


def test_closed_forms_of_the_dptext_paper(finished) -> None:
    spec, record = finished
    if spec.stem not in DPTEXT:
        pytest.skip("another paper")
    for cell in record["cells"]:
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


def test_the_whole_of_figure_2_is_there(root: Path) -> None:
    cells = load_audit(root / "specs" / "dptext.toml", registry=registry.load()).cells
    assert len(cells) == 252
    assert all(cell.trials == 10_000_000 for cell in cells)
    for cell in cells:
        use, dim = cell.mechanism.use, cell.pair.value.dim
        honest = use in ("laplace", "laplace-halved", "random-output") or (use, dim) == ("adept", 1)
        assert cell.expected == ("consistent" if honest else "violated")
