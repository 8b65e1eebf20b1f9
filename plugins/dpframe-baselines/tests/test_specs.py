"""The spec compares all baselines with dpframe's estimators, and the figure can be drawn."""

import subprocess
import sys
from pathlib import Path

import dpframe_baselines
import pytest

import dpframe

HERE = Path(__file__).parents[1]
SPEC = HERE / "specs" / "against-the-field.toml"


def test_the_spec_compares_every_baseline_on_the_same_draws():
    overrides = ["audit.confidence=0.999999", "run.pilot=400"]
    found = dpframe.compare(SPEC, trials=2000, overrides=overrides)
    rows = {row["estimator"]["label"]: row for row in found["rows"]}
    names = {cls.name: cls for cls in dpframe_baselines.dpframe_estimators()}
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


@pytest.mark.slow
def test_the_figure_is_drawn_by_one_command(tmp_path):
    to = tmp_path / "small.svg"
    command = [sys.executable, "figure.py", "--points", "2", "--repeats", "1", "--to", str(to)]
    found = subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True)
    assert found.stdout.count("| **order-statistics** |") == 2
    assert to.read_text(encoding="utf-8").startswith("<?xml")
