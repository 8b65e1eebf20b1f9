"""Mechanisms whose release is a run with many canaries: counted, judged, and never mistaken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.black_boxes import sample_in_this_process

import dpframe
from dpframe import Attack, Claim, HostMechanism, Mechanism, Pair, PureDP
from dpframe.stats.guesses import guess_epsilon

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key, Tree

M, RUNS = 50, 96


class Answers(Mechanism, name="answers"):
    """Each of the records says whether it is there; what it says is true with e^ε/(1 + e^ε)."""

    canaries = True
    rows = 32
    epsilon: float
    claimed: float = 1.0

    def truth(self, pair: Pair) -> Claim | None:
        return PureDP(self.epsilon)

    def claim(self, pair: Pair) -> Claim | None:
        return PureDP(self.claimed)

    def release(self, key: Key, data: Array) -> Array:
        coins, lies = jax.random.split(key)
        members = jax.random.bernoulli(coins, 0.5, (M,))
        lied = jax.random.bernoulli(lies, 1 / (1 + jnp.exp(self.epsilon)), (M,))
        return jnp.stack([members ^ lied, members]).astype(float)


class HostAnswers(HostMechanism, name="host-answers"):
    """The same outside JAX, with all canaries in where `all_in`."""

    canaries = True
    all_in: bool = False

    def claim(self, pair: Pair) -> Claim | None:
        return PureDP(1.0)

    def sample(self, rng: np.random.Generator, data: HostArray, n: int) -> HostArray:
        members = np.ones((n, M), bool) if self.all_in else rng.random((n, M)) < 0.5
        lied = rng.random((n, M)) > 0.9
        return np.stack([members ^ lied, members], axis=1).astype(float)


class Plain(Mechanism, name="plain"):
    """Outputs of the same shape that are no canaries."""

    def claim(self, pair: Pair) -> Claim | None:
        return PureDP(1.0)

    def release(self, key: Key, data: Array) -> Array:
        return jax.random.normal(key, (2, M)) + data


class Nobody(Pair, name="nobody"):
    """No data but the canaries."""

    adjacency = "add or remove one record"

    @property
    def d0(self) -> Tree:
        return np.zeros(1)

    @property
    def d1(self) -> Tree:
        return np.zeros(1)


class First(Attack, name="first"):
    """The score of the first canary, which is no way to look at a run."""

    gives = "score"

    def score(self, state: Tree, outputs: Array) -> Array:
        return outputs[:, 0, 0]


class Halves(Attack, name="halves"):
    """Forgets the memberships."""

    gives = "canaries"

    def score(self, state: Tree, outputs: Array) -> Array:
        return outputs[:, :1]


PLUGINS = [Answers, HostAnswers, Plain, Nobody, First, Halves]


def audited(
    *mechanisms: dict[str, Any], pair: str = "nobody", attack: str = "canaries", **more: Any
) -> dict[str, Any]:
    return dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "runs", "trials": RUNS},
            "pair": {"use": pair},
            "mechanism": [*mechanisms],
            "attack": [{"use": attack}],
            "estimator": [{"use": "one-run", "params": {"side": "both", "guesses": [M]}}],
            **more,
        },
        plugins=PLUGINS,
    )


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return audited(
        {"use": "answers", "params": {"epsilon": 1.0}},
        estimator=[
            {"use": "one-run", "params": {"side": "both", "guesses": [M]}},
            {"use": "one-shot", "params": {"law": "histogram"}},
            {"use": "order-statistics"},
        ],
        sweep={"mechanism.claimed": [0.5, 1.0, 30.0]},
        run={"pilot": 4},
    )


def test_runs_are_counted_on_both_sides_and_add_up(record: dict[str, Any]) -> None:
    cells = [cell for cell in record["cells"] if cell["estimator"]["use"] == "one-run"]
    for cell in cells:
        counts, found = cell["counts"], cell["estimate"]
        right = sum(side[0] for side in counts["correct"])
        n = 2 * RUNS * M
        assert cell["trials"] == [RUNS, RUNS]
        assert all(side[0] > RUNS * M / 2 for side in counts["correct"])
        expected = guess_epsilon(n, n, right, 0.0, 1 - found["confidence"])
        assert found["epsilon_lower"] == pytest.approx(expected)
    assert [cell["verdict"] for cell in cells] == ["violated", "consistent", "inconclusive"]
    assert "most extreme counts possible" in cells[2]["reason"]


def test_other_estimators_of_canaries(record: dict[str, Any]) -> None:
    found = {
        (cell["estimator"]["use"], cell["swept"]["mechanism.claimed"]): cell
        for cell in record["cells"]
    }
    shot = found["one-shot", 1.0]
    assert shot["estimate"]["epsilon"] == pytest.approx(1.0, abs=0.15)
    assert shot["verdict"] is shot["estimate"]["epsilon_lower"] is None


def test_what_takes_scores_is_left_out(record: dict[str, Any]) -> None:
    reasons = {skip["reason"] for skip in record["skipped"]}
    assert reasons == {"canaries gives canaries, order-statistics takes a score"}


def test_runs_of_a_black_box(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    record = audited(
        {"use": "host-answers"}, {"use": "host-answers", "label": "all", "params": {"all_in": True}}
    )
    good, bad = record["cells"]
    assert good["verdict"] == "violated"
    assert good["estimate"]["epsilon_lower"] > 1.6
    assert bad["status"] == "failed"
    assert "canaries are members: each canary must be included with probability ½" in bad["reason"]


def test_runs_and_draws_never_mix() -> None:
    """A claim about one canary says nothing of two datasets, and a plain matrix has no members."""
    plain = audited({"use": "plain"}, pair="zeros-ones")
    assert [skip["reason"] for skip in plain["skipped"]] == [
        "plain: its releases contain no canaries: each release is one draw"
    ]
    scored = audited(
        {"use": "answers", "params": {"epsilon": 1.0}},
        pair="zeros-ones",
        attack="first",
        estimator=[{"use": "order-statistics"}],
    )
    assert [skip["reason"] for skip in scored["skipped"]] == [
        "answers: each of its releases contains many canaries, for attacks that return canaries"
    ]
    assert not plain["cells"]
    assert not scored["cells"]


def test_an_attack_that_gives_no_memberships_fails() -> None:
    record = audited({"use": "answers", "params": {"epsilon": 1.0}}, attack="halves")
    (cell,) = record["cells"]
    assert cell["status"] == "failed"
    assert "for canaries it must be (2, 2, m)" in cell["reason"]


@pytest.mark.slow
def test_a_calibration_repeats_runs() -> None:
    """At the exact null, with what a run counts and estimates with."""
    found = dpframe.calibrate(
        {
            "schema": 1,
            "audit": {"name": "runs", "trials": 2, "confidence": 0.5},
            "pair": {"use": "nobody"},
            "mechanism": [{"use": "answers", "params": {"epsilon": 1.0}}],
            "attack": [{"use": "canaries"}],
            "estimator": [{"use": "one-run", "params": {"side": "both", "guesses": [M]}}],
        },
        repeats=24,
        workers=1,
        plugins=[Answers, Nobody],
    )
    (row,) = found["rows"]
    assert row["promise"] == "kept"
    assert found["corners"] == []
