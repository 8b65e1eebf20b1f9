"""The engine: what is counted, what fails, and what changes nothing."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import small_audits as small
from support.black_boxes import sample_in_this_process

import dpframe
from dpframe import (
    Attack,
    DecisionCounts,
    Estimate,
    Estimator,
    Gt,
    HostMechanism,
    Mechanism,
    PureDP,
    host_mechanism,
)
from dpframe.builtin.order_statistics import Precision
from dpframe.commands.audit import make_plan
from dpframe.count import kernel
from dpframe.count.checkpoint import Store
from dpframe.count.rounds import PrefixCounts
from dpframe.count.work import TracedPass
from dpframe.draw.streams import THREEFRY


@pytest.fixture(autouse=True)
def _without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)  # they could not import the classes of this file anyway


class Coin(Mechanism, name="coin"):
    """Bernoulli: 1 with probability p on D′ and 1 − p on D, one release at a time."""

    p: Annotated[float, Gt(0)] = 0.75

    def claim(self, pair):
        return PureDP(2.0)

    def release(self, key, data):
        return jax.random.bernoulli(key, jnp.where(data[0] > 0, self.p, 1 - self.p))


class Broken(Mechanism, name="broken"):
    """Fails in the way it is told."""

    how: str
    scale: Annotated[float, Gt(0)] = 1.0

    def claim(self, pair):
        return PureDP(1.0)

    def sample(self, key, data, n):
        if self.how == "raise":
            raise RuntimeError("no luck\nsecond line")
        if self.how == "shape":
            return jnp.zeros((n + 1, 2))
        if self.how == "scalar":
            return jnp.float32(0)
        if self.how == "nan":
            return jnp.full((n, 1), jnp.nan)
        if self.how == "numpy":
            return data + np.random.default_rng(3).laplace(size=(n, 1)).astype("float32")
        if self.how == "one row":
            return jnp.broadcast_to(data + jax.random.laplace(key, (1, 1)), (n, 1))
        if self.how == "nan above 1":
            return jnp.where(self.scale > 1, jnp.nan, 1.0) * jnp.ones((n, 1))
        return data + jnp.zeros((n, 1))


class BrokenHost(HostMechanism, name="broken-host"):
    """Fails in the way it is told, outside JAX."""

    how: str

    def claim(self, pair):
        return PureDP(1.0)

    def sample(self, rng, data, n):
        if self.how == "raise late" and n > 2:
            raise ValueError("only small requests, please")
        if self.how == "exit" and n > 2:
            raise SystemExit(3)
        if self.how == "shape late" and n > 2:
            return np.zeros((n, 3))
        if self.how == "nan":
            return np.full((n, 1), np.nan)
        return rng.normal(size=(n, 1))


class Decide(Attack, name="decide"):
    """The output itself, a boolean."""

    gives = "decision"

    def score(self, state, outputs):
        return outputs.reshape(len(outputs)).astype(bool)


class Identity(Attack, name="identity-score"):
    """A score."""

    gives = "score"

    def score(self, state, outputs):
        return outputs.reshape(len(outputs)).astype(float)


class WrongShape(Attack, name="wrong-shape"):
    """Decisions of a wrong shape."""

    gives = "decision"

    def score(self, state, outputs):
        return outputs


class Learner(Attack, name="learner"):
    """Decides at the midpoint of the two means it has seen."""

    gives = "decision"

    def fit(self, key, target, train):
        assert target.mechanism.name
        return {"threshold": np.float32((train[0].mean() + train[1].mean()) / 2)}

    def score(self, state, outputs):
        return outputs.reshape(len(outputs)) > state["threshold"]


class Plain(Estimator, name="plain"):
    """Certifies nothing."""

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "none"

    def statistic(self):
        return DecisionCounts()

    def estimate(self, layout, counts, query):
        if counts[0][1] == query.trials[0]:
            raise ZeroDivisionError("all ones")
        return Estimate(epsilon=1.0)


PLUGINS: list[Any] = [Coin, Broken, BrokenHost, Decide, Identity, WrongShape, Learner, Plain]


def run(
    mechanisms: list[Any],
    *,
    attack: Any = "majority-vote",
    estimator: str = "precision",
    trials: int = 3000,
    sweep: dict[str, Any] | None = None,
    plugins: list[Any] = PLUGINS,
    **tables: Any,
) -> dict[str, Any]:
    audit = {"name": "t", "trials": trials, **tables.pop("audit", {})}
    attacks = attack if isinstance(attack, list) else [{"use": attack}]
    document = {
        "schema": 1,
        "audit": audit,
        "pair": {"use": "zeros-ones"},
        "mechanism": mechanisms,
        "attack": attacks,
        "estimator": [{"use": estimator}],
        "sweep": sweep or {},
        **tables,
    }
    return dpframe.audit(document, plugins=plugins)


def test_release_is_vectorised_and_counted() -> None:
    (cell,) = run([{"use": "coin"}], attack="decide", trials=100_000)["cells"]
    assert [sum(row) for row in cell["counts"]] == [100_000, 100_000]
    assert cell["counts"][0][1] == pytest.approx(25_000, abs=5 * 137)
    assert cell["counts"][1][1] == pytest.approx(75_000, abs=5 * 137)
    assert cell["estimate"]["epsilon"] == pytest.approx(np.log(3), abs=0.05)


FAILURES = [
    ("broken", "raise", "sample raised RuntimeError: no luck"),
    ("broken", "shape", "the first axis must be n"),
    ("broken", "scalar", "the first axis must be n"),
    ("broken", "nan", "returned NaN"),
    ("broken", "numpy", "same outputs under different keys"),
    ("broken", "one row", "all outputs of one call are equal"),
    ("broken-host", "raise late", "sample raised ValueError: only small requests, please"),
    ("broken-host", "exit", "SystemExit"),
    ("broken-host", "shape late", "shape"),
    ("broken-host", "nan", "returned NaN"),
]


@pytest.mark.parametrize(("use", "how", "reason"), FAILURES)
def test_a_failure_stays_in_its_cell(use: str, how: str, reason: str) -> None:
    record = run(
        [{"use": use, "params": {"how": how}}, {"use": "laplace", "params": {"epsilon": 1}}]
    )
    failed, fine = record["cells"]
    assert failed["status"] == "failed"
    assert reason in failed["reason"]
    assert failed["verdict"] is None
    assert failed["counts"] is None
    assert fine["status"] == "ok"
    assert fine["verdict"] is not None
    assert record["summary"]["failed"] == 1
    assert record["summary"]["m"] == 2


def test_one_variant_with_nan_does_not_take_the_others_along() -> None:
    sweep = {"mechanism.scale": [0.5, 1.0, 2.0]}
    cells = run([{"use": "broken", "params": {"how": "nan above 1"}}], sweep=sweep)["cells"]
    assert [cell["status"] for cell in cells] == ["ok", "ok", "failed"]


@pytest.mark.slow
def test_what_was_looked_at_for_nan_is_said() -> None:
    laplace = {"use": "laplace", "params": {"epsilon": 1}}
    keep = {"use": "dptext", "params": {"epsilon": 1, "nan": "keep"}}
    host = {"use": "laplace-numpy", "params": {"epsilon": 1}}
    notes = [cell["estimate"]["notes"][0] for cell in run([laplace, keep, host])["cells"]]
    assert notes[0].startswith("the first 65,536 outputs")
    assert "valid output" in notes[1]
    assert notes[2].startswith("all outputs")


def test_scores_of_a_wrong_shape_fail_the_cell() -> None:
    (cell,) = run([{"use": "laplace", "params": {"epsilon": 1}}], attack="wrong-shape")["cells"]
    assert "score returned shape" in cell["reason"]


def test_a_score_into_decisions_is_skipped_with_the_reason() -> None:
    record = run([{"use": "laplace", "params": {"epsilon": 1}}], attack="identity-score")
    assert record["cells"] == []
    assert "gives a score" in record["skipped"][0]["reason"]
    assert record["summary"]["m"] == 0


def test_an_attack_learns_from_a_stream_of_its_own() -> None:
    record = run([{"use": "laplace", "params": {"epsilon": 2}}], attack="learner", trials=50_000)
    (cell,) = record["cells"]
    assert cell["status"] == "ok", cell["reason"]
    assert cell["estimate"]["epsilon"] > 1


def test_no_certificate_means_no_verdict() -> None:
    record = run([{"use": "laplace", "params": {"epsilon": 1}}], estimator="plain")
    (cell,) = record["cells"]
    assert cell["verdict"] is None
    assert cell["p_value"] is None
    assert cell["estimate"]["epsilon_lower"] is None
    assert record["summary"]["m"] == 0


def test_an_estimator_that_raises_fails_its_cell() -> None:
    everything_is_one = host_mechanism(lambda rng, data, n: np.ones((n, 1)), name="ones")
    record = run([{"use": "ones"}], estimator="plain", plugins=[*PLUGINS, everything_is_one])
    assert "estimate raised ZeroDivisionError: all ones" in record["cells"][0]["reason"]


def test_a_wrapped_function_is_a_mechanism() -> None:
    noise = host_mechanism(
        lambda rng, data, n: data + rng.laplace(size=(n, 1)),
        name="fn",
        claim=PureDP(1.0),
        seedable=False,
    )
    (cell,) = run([{"use": "fn"}], plugins=[noise], trials=20_000)["cells"]
    claim = cell["claim"]
    assert (claim["kind"], claim["epsilon"], claim["delta"]) == ("pure-dp", 1.0, 0.0)
    assert any("not replayable" in note for note in cell["estimate"]["notes"])


def counts_by(record: dict[str, Any]) -> dict[Any, Any]:
    return {
        (
            c["mechanism"]["label"],
            c["mechanism"]["params"]["epsilon"],
            c["pair"]["params"]["dim"],
            c["repeat"],
        ): c["counts"]
        for c in record["cells"]
    }


def test_counts_do_not_depend_on_what_else_is_in_the_spec() -> None:
    laplace = {"use": "laplace", "params": {"epsilon": 1.0}}
    adept = {"use": "adept", "params": {"epsilon": 1.0}}
    wide = run(
        [adept, laplace],
        trials=70_000,
        sweep={"mechanism.epsilon": [0.1, 1.0], "pair.dim": [1, 8]},
    )
    narrow = run(
        [laplace],
        trials=70_000,
        sweep={"mechanism.epsilon": [1.0], "pair.dim": [8]},
        audit={"confidence": 0.5, "name": "other"},
    )
    wide_counts, narrow_counts = counts_by(wide), counts_by(narrow)
    assert narrow_counts == {key: wide_counts[key] for key in narrow_counts}


def test_repeats_and_datasets_are_independent_draws() -> None:
    mechanism = {"use": "random-output", "params": {"epsilon": 1.0}}
    record = run([mechanism], trials=30_000, audit={"repeats": 3})
    rows = [tuple(row) for cell in record["cells"] for row in cell["counts"]]
    assert len(set(rows)) == len(rows)


def test_variants_share_draws_and_compile_once() -> None:
    """One program for all values of ε and for both datasets; the draw group shows the sharing."""
    before = kernel.count_chunks.programs()
    sweep = {"mechanism.epsilon": [0.1, 0.2, 0.3], "audit.seed": [1, 2], "pair.dim": [7]}
    record = run([{"use": "laplace", "params": {"epsilon": 1}}], sweep=sweep, trials=1234)
    assert kernel.count_chunks.programs() == before + 1
    assert len({cell["draw_group"] for cell in record["cells"]}) == 1
    assert record["summary"]["draws"] == 2 * 2 * 1234


def test_segments_of_a_pass_are_made_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    small.small_segments(monkeypatch)
    loaded = small.load(small.document(audit={"trials": 2**35}))
    work = TracedPass(make_plan(loaded).passes[0], loaded.run, THREEFRY, Store(), set())
    work.tally = PrefixCounts((), (4, 9), small.ROWS)
    first = list(itertools.islice(work.units(), 4))
    assert [(index, segment.first) for index, segment in first] == [(0, 4), (1, 9), (0, 6), (0, 8)]


def test_the_tail_is_cut_to_the_row() -> None:
    """Counts of n trials are those of a longer run, less what came after."""
    for trials in (1, 65535, 65536, 65537):
        (cell,) = run([{"use": "random-output", "params": {"epsilon": 1}}], trials=trials)["cells"]
        assert [sum(row) for row in cell["counts"]] == [trials, trials]


def test_a_bound_holds_at_its_share_of_the_error() -> None:
    """1 − α/m; cells that certify without a claim share too, or not all bounds would hold."""
    laplace = {"use": "laplace", "params": {"epsilon": 1.0}}
    silent = host_mechanism(lambda rng, data, n: data + rng.normal(size=(n, 1)), name="silent")
    two = run([laplace], sweep={"mechanism.epsilon": [1.0, 2.0]}, audit={"confidence": 0.9})
    assert [c["estimate"]["confidence"] for c in two["cells"]] == pytest.approx([0.95, 0.95])
    mixed = run([laplace, {"use": "silent"}], plugins=[silent], audit={"confidence": 0.9})
    assert mixed["summary"]["m"] == 1
    assert [c["estimate"]["confidence"] for c in mixed["cells"]] == pytest.approx([0.95, 0.95])
    alone = run([laplace], sweep={"mechanism.epsilon": [1.0, 2.0]}, audit={"multiplicity": "none"})
    assert [c["estimate"]["confidence"] for c in alone["cells"]] == pytest.approx([0.95, 0.95])


@pytest.mark.parametrize(
    ("precision", "verdict"), [("float32", "inconclusive"), ("float64", "violated")]
)
def test_float32_decides_nothing_beyond_its_resolution(precision: str, verdict: str) -> None:
    copy = {"use": "copy-input", "params": {"epsilon": 14.0}}
    (cell,) = run([copy], trials=20_000_000, run={"precision": precision})["cells"]
    assert cell["verdict"] == verdict
    assert ("float64" in cell["reason"]) == (verdict == "inconclusive")
    easy = {"use": "copy-input", "params": {"epsilon": 13.0}}
    assert run([easy], trials=20_000_000)["cells"][0]["verdict"] == "violated"


class Memory(Attack, name="memory"):
    """Decides D′ for outputs that it has seen when it learned."""

    gives = "decision"

    def fit(self, key, target, train):
        return {"seen": train[0][:50]}

    def score(self, state, outputs):
        return (outputs[:, None, :] == state["seen"][None]).all(axis=2).any(axis=1)


def test_what_bounds_is_never_what_was_learned_from() -> None:
    pair = {"use": "zeros-ones", "params": {"dim": 4}}
    record = run([{"use": "random-output", "params": {"epsilon": 1}}], attack="memory", pair=pair,
                 trials=8192, plugins=[*PLUGINS, Memory])  # fmt: skip
    assert record["cells"][0]["counts"] == [[8192, 0], [8192, 0]]


class Odd(Attack, name="odd"):
    """Scores of the wrong kind, in the way it is told."""

    gives = "decision"

    how: str

    def score(self, state, outputs):
        flat = outputs.reshape(len(outputs))
        if self.how == "column":
            return outputs > 0.5
        if self.how == "scalar":
            return jnp.any(flat > 3)
        if self.how == "integer":
            return (flat > 0.5).astype(jnp.int32)
        return flat


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("column", "shape"),
        ("scalar", "shape"),
        ("integer", "int32"),
        ("float", "score returned a score (float32), but the attack declares gives = 'decision'"),
    ],
)
def test_a_declared_decision_is_checked(how: str, reason: str) -> None:
    attacks = [{"use": "odd", "params": {"how": how}}]
    record = run([{"use": "laplace", "params": {"epsilon": 1}}], plugins=[*PLUGINS, Odd],
                 attack=attacks)  # fmt: skip
    assert reason in record["cells"][0]["reason"]


class Half(Mechanism, name="half"):
    """Outputs in bfloat16, NaN if told so, or ever only two."""

    how: str

    def claim(self, pair):
        return PureDP(1.0)

    def sample(self, key, data, n):
        if self.how == "two":
            return jax.random.uniform(key, (2, 1))
        return jnp.full((n, 1), jnp.nan, jnp.bfloat16)


@pytest.mark.parametrize(("how", "reason"), [("nan", "NaN"), ("two", "first axis")])
def test_odd_outputs_fail_the_cell(how: str, reason: str) -> None:
    record = run([{"use": "half", "params": {"how": how}}], plugins=[*PLUGINS, Half])
    assert reason in record["cells"][0]["reason"]


def test_outputs_that_are_no_numbers_fail_the_cell() -> None:
    words = host_mechanism(lambda rng, data, n: np.full((n, 1), "a"), name="words")
    fine = {"use": "laplace", "params": {"epsilon": 1}}
    cells = run([{"use": "words"}, fine], plugins=[*PLUGINS, words])["cells"]
    assert [cell["status"] for cell in cells] == ["failed", "ok"]


class Boaster(Estimator, name="boaster"):
    """Says that it certifies, and gives no p-value."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "none"

    def statistic(self):
        return DecisionCounts()

    def estimate(self, layout, counts, query):
        return Estimate(epsilon=5.0, epsilon_lower=5.0, epsilon_upper=6.0)

    def extreme(self, layout, trials):
        return np.array([[trials[0], 0], [0, trials[1]]])


def test_a_certificate_without_a_p_value_is_no_verdict() -> None:
    record = run([{"use": "copy-input", "params": {"epsilon": 1}}], estimator="boaster",
                 plugins=[*PLUGINS, Boaster])  # fmt: skip
    assert record["cells"][0]["status"] == "failed"
    assert "p-value" in record["cells"][0]["reason"]


def test_what_the_most_extreme_counts_say_is_asked_once_per_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    extreme = Precision.extreme

    def spy(self: Precision, layout: Any, trials: tuple[int, int]) -> Any:
        asked.append(trials)
        return extreme(self, layout, trials)

    monkeypatch.setattr(Precision, "extreme", spy)
    sweep = {"mechanism.epsilon": [0.5, 1.0], "pair.dim": [1, 2]}
    found = small.results(small.document(sweep=sweep, audit={"repeats": 3}))
    assert len(found) == 12
    assert len(asked) == 2
    by_claim = {(result.claim.epsilon, result.basis.p_extreme) for result in found}
    assert len(by_claim) == 2
