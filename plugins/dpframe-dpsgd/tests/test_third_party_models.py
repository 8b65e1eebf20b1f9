"""Third-party models can be trained: a pair of pure functions, as in the README."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.network import Network
from dpframe_dpsgd.pairs import Canary
from dpframe_dpsgd.training import Training
from dpsgd_support import SMALL
from dpsgd_support.audits import verdict, white_box

import dpframe

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def logistic():
    """Return the class that the page defines."""
    *_, code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    found = {"__name__": "page"}
    exec(compile(code, str(README), "exec"), found)
    return found["LogisticRegression"]


def test_gradients_of_single_records_are_clipped(logistic):
    """Against the formula: the gradient is an outer product of the input and p − y."""
    pair = Canary.from_params({"records": 20})
    trainer = logistic.from_params({"steps": 2, "batch": 10}).resolve(pair)
    x, y, weight = pair.d1.x, pair.d1.y, (np.arange(21) % 4 > 0).astype(np.float32)
    parameters = trainer.init(jax.random.key(0), 64)
    found = trainer.clipped_sum(parameters, x, y, weight, 0.3)
    error = np.full((21, 10), 0.1) - np.eye(10)[y]
    single = np.einsum("ij,ik->ijk", np.c_[x, np.ones(21)], error)
    norms = np.sqrt((single**2).sum((1, 2)))
    expected = np.tensordot(weight * np.minimum(1, 0.3 / norms), single, 1)
    np.testing.assert_allclose(found["weights"], expected[:64], atol=1e-5)
    np.testing.assert_allclose(found["bias"], expected[64], atol=1e-5)


def test_its_training_is_audited_like_any_other(logistic):
    record = dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "third-party", "trials": 40},
            "pair": {"use": "canary", "params": {"records": 20}},
            "mechanism": [
                {"use": "logistic-regression", "params": {"steps": 3, "batch": 10}},
            ],
            "attack": [{"use": "canary-loss"}],
            "estimator": [{"use": "order-statistics"}],
            "run": {"pilot": 20},
        },
        plugins=[logistic],
    )
    (cell,) = record["cells"]
    assert (cell["status"], cell["verdict"]) == ("ok", "consistent")


class PlainDense(Training, name="plain-dense"):
    """The network of `dpsgd` without ghost norms."""

    def init(self, key, features):
        return DPSGD.from_params({"width": 8, "classes": 10}).init(key, features)

    def loss(self, parameters, x, y):
        return DPSGD.from_params({"width": 8, "classes": 10}).loss(Network(*parameters), x, y)


def test_models_trained_with_plain_and_with_ghost_gradients_agree(draw):
    pair = Canary.from_params({"records": 20})
    params = {key: value for key, value in SMALL.items() if key != "width"}
    plain, ghost = (
        draw(trainer, pair, 4)
        for trainer in (PlainDense.from_params(params), DPSGD.from_params(SMALL))
    )
    np.testing.assert_allclose(plain, ghost, atol=1e-5)


@pytest.mark.slow
def test_a_mistake_in_another_model_is_found(logistic):
    class Quiet(Training, name="quiet-logistic-regression"):
        """Adds half of the noise."""

        init = logistic.init
        loss = logistic.loss

        def noise(self, key, size, step):
            return super().noise(key, size, step) / 2

    record = white_box("quiet-logistic-regression", plugins=[Quiet], models=400, width=None)
    assert verdict(record) == "violated"
