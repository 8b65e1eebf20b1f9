"""jax-privacy as a trainer."""

import sys

import jax
import numpy as np
import pytest
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.jax_privacy_training import JaxPrivacyDPSGD
from dpframe_dpsgd.pairs import Canary
from dpsgd_support import SMALL, near
from dpsgd_support.audits import verdict, white_box
from jax.flatten_util import ravel_pytree

PAIR = Canary.from_params({"records": 20})


def test_without_the_library_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_privacy.clipping", None)
    with pytest.raises(ValueError, match="pip install jax-privacy"):
        JaxPrivacyDPSGD.from_params(SMALL).resolve(PAIR)


def test_its_sums_are_ours():
    pytest.importorskip("jax_privacy.clipping")
    theirs, ours = (cls.from_params(SMALL).resolve(PAIR) for cls in (JaxPrivacyDPSGD, DPSGD))
    data, weight = PAIR.d1, np.arange(21) % 3 > 0
    parameters = ours.init(jax.random.key(0), 64)
    sums = [
        ravel_pytree(
            jax.jit(trainer.clipped_sum)(
                parameters, data.x, data.y, weight.astype(np.float32), trainer.clip
            )
        )[0]
        for trainer in (theirs, ours)
    ]
    np.testing.assert_allclose(*sums, atol=1e-5)


def test_its_noise_has_the_deviation_that_it_is_asked_for():
    pytest.importorskip("jax_privacy.noise_addition")
    trainer = JaxPrivacyDPSGD.from_params(SMALL).resolve(PAIR)
    noise = np.asarray(jax.jit(lambda step: trainer.noise(jax.random.key(0), 50_000, step))(3))
    assert near(noise, 0, 1.0)
    assert near(noise**2, 1.0, 2**0.5)  # σC = 2 · 0.5
    other = np.asarray(trainer.noise(jax.random.key(0), 50_000, 4))
    assert near(noise * other, 0, 1.0)


@pytest.mark.slow
def test_an_audit_finds_nothing_in_it():
    pytest.importorskip("jax_privacy.noise_addition")
    for canary in ("gradient", "mislabelled"):
        record = white_box("dpsgd-jax-privacy", models=300, canary=canary)
        assert verdict(record) == "consistent"
