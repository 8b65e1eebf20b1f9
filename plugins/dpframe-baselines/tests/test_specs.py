"""The specs run, one of them with all baselines on the same draws."""

from pathlib import Path

import pytest
from estimator_classes import OF_SCORES

import dpframe

HERE = Path(__file__).parents[1]
SPEC = HERE / "specs" / "against-the-field.toml"


def test_the_spec_compares_every_baseline_on_the_same_draws():
    overrides = ["audit.confidence=0.999999", "run.pilot=400"]
    found = dpframe.compare(SPEC, trials=2000, overrides=overrides)
    rows = {row["estimator"]["label"]: row for row in found["rows"]}
    names = {cls.name: cls for cls in OF_SCORES}
    assert rows.keys() > names.keys()
    assert not found["skipped"]
    for name, row in rows.items():
        assert row["status"] == "ok", row["reason"]
        assert row["draws"]["eval"] == 4000
        if name in names:
            assert row["certified"] == names[name].certifies
            assert (row["interval"] is None) == names[name].certifies
        assert (row["epsilon_lower"] or 0.0) <= 1.0 + 1e-6
    assert rows["order-statistics"]["epsilon_lower"] > 0.3


PUBLISHED = sorted(path for path in SPEC.parent.glob("*.toml") if path != SPEC)


@pytest.mark.slow
@pytest.mark.parametrize("spec", PUBLISHED, ids=lambda path: path.stem)
def test_a_spec_of_a_published_table_refutes_no_true_claim(spec):
    """The claims are true, and all bounds of a spec hold together with 95 %, at its own seed."""
    record = dpframe.audit(spec)
    assert record["cells"]
    assert record["skipped"] == []
    for cell in record["cells"]:
        assert cell["status"] == "ok", cell["reason"]
        assert cell["verdict"] in ("consistent", "inconclusive")
