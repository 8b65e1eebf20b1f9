"""Federated averaging: real clients and rounds, canaries with coins, and planted mistakes."""

from pathlib import Path

import jax
import numpy as np
import pytest
from dpframe_dpsgd import network
from dpframe_dpsgd.canary_pairs import FederatedClients, NoData
from dpframe_dpsgd.datasets import load_table
from dpframe_dpsgd.fedavg import DPFedAvg, MistakenFedAvg
from dpframe_dpsgd.training import as_vector
from dpsgd_support import FAR

import dpframe

PAIR = FederatedClients(clients=12, records=4, count=40)
SMALL = {"width": 4, "rounds": 3, "local_steps": 2, "noise_multiplier": 1.0}


def trained(mistake="none", runs=1, pair=PAIR, **params):
    """Return the mechanism, models [runs, parameters], scores and coins [runs, m]."""
    made = MistakenFedAvg.from_params({"mistake": mistake, **SMALL, **params}).resolve(pair)
    keys = jax.random.split(jax.random.key(0), runs)
    train = jax.jit(jax.vmap(made.train, in_axes=(0, None)))
    return made, *(np.asarray(one) for one in train(keys, pair.d0))


def test_clients_have_few_labels_and_no_record_twice():
    pair = FederatedClients(clients=50, records=8, count=30, canary="mislabelled", subset=1)
    pair.check()
    data = pair.d0
    assert data.x.shape == (50, 8, 64)
    assert data.canary_y.shape == (30, 8)
    both = np.concatenate([data.x.reshape(-1, 64), data.canary_x.reshape(-1, 64)])
    assert len(np.unique(both, axis=0)) == len(both)
    assert np.mean([len(set(labels)) for labels in data.y.tolist()]) < 2.5
    assert PAIR.d0.canary_x.shape == (40, 0, 64)
    table = load_table("digits")
    label = {x.tobytes(): int(y) for x, y in zip(table.x, table.y, strict=True)}
    for x, y, shift in ((data.x, data.y, 0), (data.canary_x, data.canary_y, 1)):
        truth = [label[row.tobytes()] for row in x.reshape(-1, 64)]
        assert y.ravel().tolist() == [(one + shift) % 10 for one in truth]
    with pytest.raises(ValueError, match="need 2,400 records, but 'digits' has 1,797"):
        FederatedClients(clients=600, records=4).check()
    with pytest.raises(ValueError, match="equal pieces"):
        FederatedClients(clients=6, records=5).check()
    with pytest.raises(ValueError, match="the pair `clients`"):
        DPFedAvg().resolve(NoData())


def naive_round(made, vector, shaped, data, members):
    """Compute a round of all clients without noise, one client and one step at a time."""
    gradient = jax.jit(jax.grad(lambda v, x, y: network.loss(shaped(v), x, y)))
    total = np.zeros(vector.shape)
    xs, ys = [*data.x, *data.canary_x], [*data.y, *data.canary_y]
    for x, y, inside in zip(xs, ys, [*np.ones(len(data.x)), *members], strict=True):
        own = vector
        for _ in range(made.local_steps):
            each = [np.asarray(gradient(own, a, b)) for a, b in zip(x, y, strict=True)]
            own = own - made.local_rate * np.mean(each, axis=0)
        update = own - vector
        total += inside * update * min(1.0, made.clip / np.linalg.norm(update))
    return vector + total / len(data.x)


def test_a_round_is_that_of_the_naive_algorithm():
    pair = FederatedClients(clients=2, records=2, count=3, canary="mislabelled")
    params = {"rate": 1.0, "noise_multiplier": 1e-7, "clip": 0.05}
    made, (start,), _, (members,) = trained(pair=pair, **params, rounds=1)
    key = jax.random.split(jax.random.key(0), 1)[0]
    begin, shaped = as_vector(
        network.init_network(jax.random.split(key, 3)[0], 64, made.width, made.classes)
    )
    wanted = naive_round(made, np.asarray(begin), shaped, pair.d0, members)
    assert np.allclose(start, wanted, atol=1e-5)
    assert not np.allclose(start, begin, atol=1e-3)


@pytest.mark.slow
def test_training_learns():
    pair = FederatedClients(clients=100, records=4, count=10)
    made, (vector,), _, _ = trained(
        pair=pair, width=16, rounds=15, local_steps=5, noise_multiplier=0.5
    )
    _, shaped = as_vector(network.init_network(jax.random.key(0), 64, made.width, made.classes))
    model, x = shaped(vector), pair.d0.x
    hidden = np.maximum(x @ model.hidden_weights + model.hidden_bias, 0)
    found = np.argmax(hidden @ model.output_weights + model.output_bias, axis=-1)
    assert (found == pair.d0.y).mean() > 0.5


def row_of(mistake, runs, noise=2.0):
    """Return the row of one claim, tested by many runs together."""
    made, _, scores, members = trained(mistake, runs, noise_multiplier=noise, rounds=6)
    assert abs(members.sum() - members.size / 2) < FAR * members.size**0.5 / 2
    found = dpframe.score_one_run(
        scores.ravel(),
        members.ravel(),
        claim=made.claim(PAIR),
        delta=1e-9,
        confidence=0.9999,
        estimators=["one-run"],
        lower_is_member=False,
    )
    return found["rows"][0]


def test_a_correct_server_leaks_and_keeps_its_claim():
    row = row_of("none", runs=10, noise=0.5)
    assert row["p_value"] > 1e-6
    assert row["bounds"][0]["epsilon_lower"] > 0.5


@pytest.mark.slow
def test_the_spec_finds_every_mistake_and_accuses_no_correct_server():
    """Four runs of 1,000 canaries for each server, at 95 % and a fixed seed."""
    record = dpframe.audit(Path(__file__).parents[1] / "specs" / "dp-fedavg.toml")
    found = {cell["swept"]["mechanism.mistake"]: cell["verdict"] for cell in record["cells"]}
    mistakes = ("clipped-per-example", "noise-of-all-clients", "canary-twice")
    assert found == {"none": "consistent", **dict.fromkeys(mistakes, "violated")}
