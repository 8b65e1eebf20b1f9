"""Audits of black boxes do not import JAX, which takes longer than most of them."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys

import numpy as np

from dpframe import assert_dp, audit, search_violation
from dpframe.errors import ViolationError
from dpframe.plugins import HostMechanism, PureDP


def total(rng, values, scale=2.0):
    assert "jax" not in sys.modules, "a worker has imported JAX"
    return np.clip(values, -1, 1).sum() + rng.laplace(scale=scale)


def narrow(rng, values):
    return total(rng, values, 1.0)


class Noisy(HostMechanism, name="noisy"):
    def claim(self, pair):
        return PureDP(1.0)

    def sample(self, rng, data, n):
        return np.asarray(data) + rng.laplace(size=(n, *np.shape(data)))


def spec(*estimators):
    return {
        "schema": 1,
        "audit": {"name": "passes", "trials": 1000},
        "mechanism": [{"use": "local/noisy"}],
        "pair": {"use": "zeros-ones", "params": {"dim": 1}},
        "attack": [{"use": use} for use in ("identity", "projection", "threshold", "learned")],
        "estimator": [{"use": use} for use in estimators],
    }


def main():
    pair = {"d0": [-1.0, 0.5], "d1": [1.0, 0.5], "epsilon": 1.0}
    try:
        assert_dp(narrow, **pair)
    except ViolationError:
        pass
    else:
        raise SystemExit("half of the noise was not found")
    assert_dp(total, **pair, trials=500)
    search_violation(total, [0.5, 0.2], schema={"low": -1, "high": 1}, adjacency="add-remove",
                     beyond=False, epsilon=1.0, trials=300)
    record = audit(spec("threshold", "betting", "histogram"), plugins=[Noisy])
    assert all(cell.status == "ok" for cell in record.cells), record.cells
    assert "jax" not in sys.modules, "JAX was imported"


if __name__ == "__main__":
    main()
"""


def test_black_boxes_are_audited_without_jax(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
