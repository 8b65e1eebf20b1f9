"""Mistakes that would make every count worthless are found before anything counts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.black_boxes import sample_in_this_process
from support.tiers import mostly_slow

import dpframe
from dpframe import Attack, PureDP, host_mechanism
from dpframe.draw import programs
from dpframe.draw.row_checks import check_rows_alone, crossing
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable

N = 4096


def first(x: Any) -> Any:
    return x[:, 0]


def moving_average(x: Any) -> Any:
    return jnp.convolve(first(x), jnp.ones(4) / 4, mode="same")


def one_hot(x: Any) -> Any:
    return jnp.arange(len(x)) == jnp.argmax(first(x))


def parity(x: Any) -> Any:
    return first(x) + jnp.arange(len(x)) % 2


NEIGHBOURS: dict[str, Callable[[Any], Any]] = {
    "chunk mean": lambda x: jnp.broadcast_to(x.mean(), len(x)),
    "centred": lambda x: first(x) - x.mean(),
    "batch norm": lambda x: (first(x) - x.mean()) / x.std(),
    "moving average": moving_average,
    "ranks": lambda x: jnp.argsort(jnp.argsort(first(x))).astype(jnp.float32),
    "sorted": lambda x: jnp.sort(first(x)),
    "a little sorted": lambda x: first(x) + 0.01 * jnp.sort(first(x)),
    "neighbour": lambda x: jnp.roll(first(x), 1),
    "the first row as a reference": lambda x: first(x) - x[0, 0],
    "argmax": one_hot,
    "argmax as a score": lambda x: one_hot(x).astype(jnp.float32),
    "above the mean": lambda x: first(x) > x.mean(),
    "above the median": lambda x: first(x) > jnp.median(x),
    "is the largest": lambda x: first(x) == x.max(),
    "whether there is a large one": lambda x: first(x) + jnp.any(x > 5),
    "whether there is a very large one": lambda x: first(x) + jnp.any(x > 9),
    "the mean, where it is high": lambda x: first(x) + jnp.maximum(x.mean() - 0.9, 0),
    "the mean, in large batches": lambda x: first(x) + (len(x) >= N) * x.mean(),
    "the mean, if much can hide": lambda x: jnp.sign(first(x)) + 1e-6 * x.mean(),
    "the mean, on one atom": lambda x: jnp.maximum(first(x), 2) + 1e-6 * x.mean(),
    "NaN by the company": lambda x: jnp.where(x.mean() > 0.5, jnp.nan, first(x)),
    "one huge, where the mean is high": lambda x: jnp.where(
        one_hot(x) & (x.mean() > 0.5), 1e9, first(x)
    ),
}

PLACES: dict[str, Callable[[Any], Any]] = {
    "parity": parity,
    "parity of decisions": lambda x: parity(x) > 1,
    "row number": lambda x: first(x) + 1e-3 * jnp.arange(len(x)),
    "noise of its own": lambda x: first(x) + jax.random.normal(jax.random.key(0), len(x)),
    "the first row": lambda x: first(x).at[0].set(7.0),
}

SIZES: dict[str, Callable[[Any], Any]] = {
    "divided by the number": lambda x: first(x) / len(x),
    "decisions by the number": lambda x: first(x) > len(x) / N,
    "in large batches only": lambda x: first(x) * (1 if len(x) < 100 else 2),
}


def chunks(dim: int = 1, rows: int = N, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    draw = rng.laplace(size=(2, rows, dim)).astype(np.float32)
    return draw[0], draw[1] + np.float32(1)


def scored(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    jitted = jax.jit(function)
    return lambda outputs: np.asarray(jitted(outputs))


@pytest.mark.parametrize(
    ("what", "function", "reason"),
    [
        (what, function, reason)
        for reason, functions in {
            "were next to them": NEIGHBOURS,
            "different order": PLACES,
            "smaller batch": SIZES,
        }.items()
        for what, function in functions.items()
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_score_of_more_than_its_row_is_found(
    what: str, function: Callable[[Any], Any], reason: str
) -> None:
    for seed in range(5):
        with pytest.raises(CellError, match=reason):
            check_rows_alone(scored(function), chunks(seed=seed))


def converging(x: Any) -> Any:
    """Cube roots by Newton's method, until every row has converged."""
    target = jnp.abs(first(x)) + 1

    def step(state: Any) -> Any:
        root, _ = state
        new = root - (root - target / root**2) / 3
        return new, jnp.max(jnp.abs(new - root) / root)

    root, _ = jax.lax.while_loop(lambda state: state[1] > 1e-6, step, (target, jnp.inf))
    return root


def weights(x: Any) -> Any:
    return jnp.asarray(np.random.default_rng(1).normal(size=x.shape[1]), jnp.float32)


ALONE: dict[str, Callable[[Any], Any]] = {
    "the row": first,
    "a decision": lambda x: first(x) > 0.5,
    "votes": lambda x: jnp.mean(x > 0.5, axis=1),
    "a product with weights": lambda x: x @ weights(x),
    "a product in half precision": lambda x: x.astype(jnp.bfloat16) @ weights(x).astype("bfloat16"),
    "a product with a matrix": lambda x: jax.nn.softmax(
        jnp.tanh(x @ jnp.outer(weights(x), jnp.arange(1.0, 8.0)))
    )[:, 0],
    "a product with a few atoms": lambda x: (x > 0.5).astype(jnp.float32) @ weights(x),
    "decided at an atom": lambda x: (x > 0.5).astype(jnp.float32) @ weights(x) > weights(x)[0],
    "row by row": lambda x: jax.lax.map(lambda row: jnp.sort(row)[0] + row.sum(), x),
    "a loop for all rows": converging,
    "what is left when all has cancelled": lambda x: (first(x) * 1e4 + 1e6) - 1e6 - first(x) * 1e4,
    "NaN and infinity": lambda x: jnp.log(jnp.where(first(x) > 2, 0, first(x))),
    "constant": lambda x: jnp.zeros(len(x)),
    "always D′": lambda x: jnp.ones(len(x), bool),
}


@pytest.mark.parametrize("what", mostly_slow(ALONE, range(0, 14, 2)))
def test_a_score_of_its_row_alone_is_never_accused(what: str) -> None:
    for rows, dim in ((1, 1), (2, 5), (1001, 37), (N, 1)):
        check_rows_alone(scored(ALONE[what]), chunks(dim, rows))


def test_outputs_may_be_of_any_type() -> None:
    for kind in (np.int32, np.bool_, np.uint8, jnp.bfloat16):
        x, y = (np.rint(np.clip(part, 0, 1)).astype(kind) for part in chunks(3))
        check_rows_alone(scored(lambda x: x.sum(axis=1).astype(jnp.float32)), (x, y))
        with pytest.raises(CellError, match="were next to them"):
            check_rows_alone(scored(lambda x: 1.0 * x.sum(axis=1) - 1.0 * x.sum()), (x, y))


def test_rounding_that_nobody_crosses_is_passed_and_that_many_cross_is_not() -> None:
    """The same tiny dependence, on scores that differ and on scores that are tied."""
    x, y = chunks()
    moved = iter(range(10**6))

    def tiny(outputs: Any) -> Any:
        return outputs[:, 0] * (1 + next(moved) % 2 * 2e-7)

    check_rows_alone(tiny, (x, y))
    with pytest.raises(CellError, match="were next to them"):
        check_rows_alone(tiny, (np.sign(x), np.sign(y)))


@pytest.mark.parametrize("what", ["in a different order", "in a smaller batch"])
@pytest.mark.parametrize("share", [1e-3, 1e-2])
def test_what_is_more_than_rounding_is_found(what: str, share: float) -> None:
    x, y = chunks()
    calls = itertools.count()

    def score(rows: Any) -> Any:
        other = len(rows) < N if what == "in a smaller batch" else next(calls) == ORDERED
        return np.tanh(rows[:, 0]) * (1 + share * other)

    with pytest.raises(CellError, match=what):
        check_rows_alone(score, (x, y))


ORDERED = 4
"""The call, after both chunks and their mixtures, that scores rows in another order."""


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_crossing_is_the_most_rows_that_one_threshold_tells_apart(pairs: list[Any]) -> None:
    before, after = np.array(pairs, float).reshape(-1, 2).T
    naive = max(int(((before >= cut) != (after >= cut)).sum()) for cut in range(11))
    assert crossing(after, before) == naive


class Learned(Attack):
    """Its fit says how much the company counts."""

    def fit(self, key: Any, target: Any, train: Any) -> Any:
        return {"share": np.float32(0.5)}

    def learns(self) -> bool:
        return False


class Company(Learned, name="company"):
    """Scores rows by the company they are in."""

    gives: ClassVar[Any] = "score"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, 0] - state["share"] * outputs.mean()


class Above(Learned, name="above-company"):
    """Decides by it."""

    gives: ClassVar[Any] = "decision"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, 0] > state["share"] * outputs.mean()


class Mean(Attack, name="mean"):
    """Gives everybody the mean."""

    gives: ClassVar[Any] = "score"

    def score(self, state: Any, outputs: Any) -> Any:
        return jnp.broadcast_to(outputs.mean(), len(outputs))


BOX = host_mechanism(
    lambda rng, data, n: data + rng.laplace(size=(n, *np.shape(data))),
    name="box",
    claim=PureDP(1.0),
)


def audited(mechanism: Any, attacks: list[Any], estimator: str = "threshold") -> Any:
    document = {
        "schema": 1,
        "audit": {"name": "t", "trials": 20_000},
        "pair": {"use": "zeros-ones"},
        "mechanism": [mechanism],
        "attack": attacks,
        "estimator": [{"use": estimator}],
        "run": {"fit": 1000, "pilot": 1000},
    }
    return dpframe.audit(document, plugins=[Company, Above, Mean, BOX])["cells"]


@pytest.mark.parametrize("mechanism", mostly_slow(["laplace", "box"], ("box",)))
@pytest.mark.parametrize(
    ("attack", "estimator"),
    mostly_slow(
        [
            ("mean", "threshold"),
            ("company", "order-statistics"),
            ("above-company", "precision"),
        ],
        (1,),
    ),
    ids=["mean", "score", "decision"],
)
def test_a_claim_is_not_refuted_by_the_company_of_rows(
    mechanism: str, attack: str, estimator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)
    params = {"epsilon": 1.0} if mechanism == "laplace" else {}
    alone = {"use": "identity" if estimator != "precision" else "majority-vote"}
    bad, good = audited({"use": mechanism, "params": params}, [{"use": attack}, alone], estimator)
    assert bad["status"] == "failed"
    assert "score every row independently" in bad["reason"]
    assert bad["verdict"] is None
    assert good["status"] == "ok"


@pytest.mark.slow
def test_looking_costs_at_most_two_small_programs_per_attack_and_one_per_mechanism() -> None:
    def programs_now() -> tuple[int, int]:
        return programs.score_given.programs(), programs.draw_chunk.programs()

    before = programs_now()
    mechanisms = [{"use": "laplace", "params": {"epsilon": 1.0}}]
    for dim in (11, 13):
        document = {
            "schema": 1,
            "audit": {"name": "t", "trials": 100},
            "pair": {"use": "zeros-ones", "params": {"dim": dim}},
            "mechanism": [*mechanisms, {"use": "laplace-halved", "params": {"epsilon": 1.0}}],
            "attack": [{"use": "majority-vote"}],
            "estimator": [{"use": "precision"}],
            "sweep": {"mechanism.epsilon": [0.5, 1.0, 2.0], "audit.seed": [1, 2]},
        }
        dpframe.audit(document)
    scores, draws = (now - then for now, then in zip(programs_now(), before, strict=True))
    assert (scores, draws) == (2 * 2, 2 * 2)


def test_scores_that_have_mostly_cancelled_are_rounded_like_the_largest() -> None:
    """As a learned score is that says nothing of most rows, and much of few."""
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=(N, 1)).astype(np.float32) for _ in range(2))

    def score(rows: Any) -> Any:
        told = np.where(np.abs(rows[:, 0]) > 3, 1.0, 1e-5).astype(np.float32)
        # Other code for another number of rows: the last digits of what cancels differ.
        return told + np.float32(2e-7) * np.float32(len(rows) < N)

    check_rows_alone(score, (x, y))

    def peeks(rows: Any) -> Any:
        return score(rows) + np.float32(1e-3) * np.float32(len(rows) < N)

    with pytest.raises(CellError, match="smaller batch"):
        check_rows_alone(peeks, (x, y))
