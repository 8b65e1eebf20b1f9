"""D and D′ of unequal size: a traced mechanism gets both in one shape, and is told what exists."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from support.small_audits import counts, document

import dpframe
from dpframe import Mechanism, Padded, PureDP
from dpframe.count import kernel
from dpframe.errors import SpecError

TRACES: list[tuple[int, ...]] = []


class Total(Mechanism, name="padded-total"):
    """The sum of records between 0 and 1, with noise for one of them; `scale` of it is right."""

    scale: float = 1.0

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        assert isinstance(data, Padded)
        TRACES.append(data.values.shape)
        total = jnp.sum(jnp.where(data.exists, data.values, 0))
        return (total + self.scale * jax.random.laplace(key, (n,))).astype(jnp.float32)

    def log_density(self, data: Any, outputs: Any) -> Any:
        return -jnp.abs(outputs - jnp.sum(data.values * data.exists)) / self.scale


class Unaware(Mechanism, name="unaware-total"):
    """It was not written for data of unequal size."""

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data.sum() + jax.random.laplace(key, (n,))


def cells(*mechanisms: Any, d1: Any = (0.5, 0.5), attack: str = "likelihood-ratio") -> Any:
    spec = {
        "schema": 1,
        "audit": {"name": "padded", "trials": 20_000, "confidence": 0.99},
        "pair": {"use": "values", "params": {"d0": [0.5, 0.5, 1.0], "d1": list(d1)}},
        "mechanism": list(mechanisms),
        "attack": [{"use": attack}],
        "estimator": [{"use": "order-statistics"}],
    }
    return dpframe.audit(spec, plugins=[Total, Unaware]).cells


def test_one_program_serves_both_sizes() -> None:
    TRACES.clear()
    right, wrong = cells(
        {"use": "padded-total", "label": "right"},
        {"use": "padded-total", "label": "wrong", "params": {"scale": 0.3}},
    )
    assert {shape[-1] for shape in TRACES} == {3}
    assert (right.verdict, wrong.verdict) == ("consistent", "violated")
    assert right.estimate.epsilon > 0.7


def test_who_was_not_written_for_it_fails_and_is_not_counted_wrongly() -> None:
    (cell,) = cells({"use": "unaware-total"}, attack="identity")
    assert cell.status == "failed"
    assert "Padded" in cell.reason


def test_what_cannot_be_traced_is_a_mistake_of_the_pair() -> None:
    with pytest.raises(
        SpecError, match=r"(?s)only a black box.*'padded-total' is one that JAX traces"
    ):
        cells({"use": "padded-total"}, d1=["a", "b", "c"])


def test_segments_of_more_chunks_than_a_program_takes_are_counted_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = counts(document())
    monkeypatch.setattr(kernel, "MOST_CHUNKS", 3)
    assert counts(document()) == whole
