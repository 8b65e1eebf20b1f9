"""Mechanisms whose releases are slow or large, on datasets that are more than one array."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import small_audits
from support.small_audits import Spy, Stop

from dpframe import Mechanism, Pair, PureDP
from dpframe.commands.audit import make_plan
from dpframe.count.checkpoint import Store
from dpframe.engine.run import run as run_plan


class Table(NamedTuple):
    """Records of which some exist."""

    x: Any
    there: Any


class OneMore(Pair, name="one-more"):
    """A table with and without its last record, padded to one shape."""

    adjacency = "add or remove one record"

    @property
    def d0(self) -> Table:
        return Table(np.array([1.0, 2.0, 4.0]), np.array([True, True, False]))

    @property
    def d1(self) -> Table:
        return self.d0._replace(there=np.ones(3, bool))


class NoisySum(Mechanism, name="noisy-sum"):
    """The sum of the records that exist, and noise; `at_once` releases a chunk."""

    at_once: int = 8

    @property
    def rows(self) -> int:
        return self.at_once

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(1.0)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        total = jnp.sum(jnp.where(data.there, data.x, 0))
        return total + 4 * jax.random.laplace(key, (n, 1))


PLUGINS = [*small_audits.PLUGINS, OneMore, NoisySum]


def spec(**tables: Any) -> dict[str, Any]:
    made = small_audits.document(mechanism=[{"use": "noisy-sum"}], **tables)
    return {
        **made,
        "pair": {"use": "one-more"},
        "attack": [{"use": "above", "params": {"threshold": 5.0}}],
        "sweep": {},
        "run": {},
        "audit": {"name": "slow", "trials": 42},
    }


def test_a_chunk_has_the_declared_rows_and_is_a_call_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spy = Spy(monkeypatch)
    (cell,) = small_audits.results(spec(), plugins=PLUGINS)
    assert sorted(spy.drawn) == [
        (d, *s)
        for d in (0, 1)
        for s in ((0, 1, 8), (1, 2, 8), (2, 3, 8), (3, 4, 8), (4, 5, 8), (5, 6, 2))
    ]
    assert cell.trials == [42, 42]


def test_what_is_counted_is_kept_after_every_chunk() -> None:
    store = Store()
    plan = make_plan(small_audits.load(spec(), PLUGINS))
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, Stop(2), store, threads=1)
    (whole,) = small_audits.results(spec(), plugins=PLUGINS)
    (resumed,) = run_plan(plan, store=store)
    assert resumed.counts == whole.counts


def test_datasets_may_be_several_arrays() -> None:
    (cell,) = small_audits.results(
        {**spec(), "audit": {"name": "slow", "trials": 4000}}, plugins=PLUGINS
    )
    above = [
        1 - 0.5 * math.exp(-2 / 4) if total == 7 else 0.5 * math.exp(-2 / 4) for total in (3, 7)
    ]
    for dataset in (0, 1):
        found = cell.counts[dataset][1]
        deviation = math.sqrt(4000 * above[dataset] * (1 - above[dataset]))
        assert abs(found - 4000 * above[dataset]) < 5 * deviation  # misses with 6e-7


def test_the_distance_is_that_of_all_arrays_together() -> None:
    assert OneMore().distance(1) == 1
    assert OneMore().distance(math.inf) == 1


@pytest.mark.parametrize("rows", [0, -3])
def test_rows_that_are_none_fail_the_cell(rows: int) -> None:
    plan = make_plan(
        small_audits.load(
            {**spec(), "mechanism": [{"use": "noisy-sum", "params": {"at_once": rows}}]}, PLUGINS
        )
    )
    ((_, reason),) = plan.failed
    assert "rows" in reason
