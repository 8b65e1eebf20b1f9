"""Every spec runs, with few trials: every cell is judged and nothing is a false alarm.

Exact losses come from the closed forms. False-alarm rate: the bounds of a spec hold together with
95 %, at fixed seeds, and the specs' own seeds are used.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle import exact_loss

import dpframe
from dpframe import registry
from dpframe.spec import load_audit

SPECS = sorted((Path(__file__).parent.parent / "specs").glob("*.toml"))
FEW = {"adept-spread": ["audit.repeats=5"], "dptext": []}


@pytest.fixture(scope="module", params=SPECS, ids=lambda path: path.stem)
def finished(request: pytest.FixtureRequest):
    spec = request.param
    return spec, dpframe.audit(spec, trials=20_000, overrides=FEW.get(spec.stem, []))


def test_every_cell_ran_and_none_was_skipped(finished) -> None:
    _, record = finished
    assert record["cells"]
    assert [cell["reason"] for cell in record["cells"] if cell["status"] == "failed"] == []
    assert record["skipped"] == []
    assert record["summary"]["m"] == len(record["cells"])
    assert all(cell["verdict"] is not None for cell in record["cells"])


def test_every_cell_is_expected_to_be_something(finished) -> None:
    _, record = finished
    assert all(cell["expected"] is not None for cell in record["cells"])


def test_nothing_is_a_false_alarm(finished) -> None:
    _, record = finished
    for cell in record["cells"]:
        mechanism = (
            "dptext-zero" if cell["mechanism"]["use"] == "dptext" else cell["mechanism"]["use"]
        )
        loss = exact_loss(
            mechanism, cell["mechanism"]["params"]["epsilon"], cell["pair"]["params"]["dim"]
        )
        assert cell["estimate"]["epsilon_lower"] <= loss
        if cell["expected"] == "consistent":
            assert cell["verdict"] != "violated"
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
