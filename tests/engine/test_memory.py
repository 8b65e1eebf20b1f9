"""Specs that are too large are refused before anything of that size is made."""

from __future__ import annotations

import sys
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from support import searches, small_audits

from dpframe import Estimate, Estimator, Ge, Pair
from dpframe.commands.audit import load, make_plan
from dpframe.engine import resources as memory
from dpframe.errors import DpframeError, SpecError
from dpframe.interfaces.statistic import BinCounts

GIB = 1 << 30


class Eager(Pair, name="eager"):
    """Makes its data as soon as it is asked."""

    adjacency: ClassVar[str] = "replace one record"
    size: Annotated[int, Ge(1)] = 1

    @property
    def d0(self) -> Any:
        return np.ones(self.size)

    @property
    def d1(self) -> Any:
        return np.full(self.size, 2.0)


class ManyBins(BinCounts):
    """Edges without end."""

    def bind(self, pilot0: Any, pilot1: Any) -> Any:
        return np.linspace(0, 1, 1 << 34)


class Wasteful(Estimator, name="wasteful"):
    """Asks for a histogram of 128 GiB."""

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "none"

    def statistic(self) -> ManyBins:
        return ManyBins()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        return Estimate(0.0)


def refused(free: int, monkeypatch: pytest.MonkeyPatch, **tables: Any) -> str:
    """Return the message about a spec on a machine with so much free memory."""
    monkeypatch.setattr(memory, "free_bytes", lambda: free)
    plugins = [*small_audits.PLUGINS, Eager, Wasteful]
    with pytest.raises(DpframeError) as caught:
        make_plan(small_audits.load(small_audits.document(**tables), plugins))
    return str(caught.value)


def test_data_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = {"use": "zeros-ones", "params": {"dim": 10**12}}
    assert refused(8 * GIB, monkeypatch, pair=pair) == (
        "does not fit into the memory of this machine: takes 1.49e+04 GiB; 8 GiB is free\n"
        "   D and D′ of pair 'zeros-ones' (pair.dim = 1000000000000): 1.49e+04 GiB"
    )


def test_outputs_are_refused_with_what_makes_them_large(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = {"use": "zeros-ones", "params": {"dim": 10**7}}
    message = refused(2 * GIB, monkeypatch, pair=pair, run={"chunk": 1024})
    assert "outputs of mechanism 'flip' with pair 'zeros-ones' (pair.dim = 10000000)" in message
    assert "run.chunk = 1024" in message


@pytest.mark.parametrize(("key", "use"), [("fit", "logistic"), ("pilot", "identity")])
def test_draws_to_learn_from(key: str, use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(
        8 * GIB,
        monkeypatch,
        attack=[{"use": use}],
        estimator=[{"use": "histogram"}],
        run={key: 2**40},
    )
    assert f"   run.{key} = {2**40} outputs of mechanism 'flip'" in message.split("\n")[1]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone keeps the limit")
def test_what_an_author_makes_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = {"use": "eager", "params": {"size": 10**13}}
    message = refused(8 * GIB, monkeypatch, pair=pair)
    assert "pair 'eager'" in message
    assert "pair.size = 10000000000000" in message
    message = refused(
        8 * GIB, monkeypatch, attack=[{"use": "identity"}], estimator=[{"use": "wasteful"}]
    )
    assert "counts of estimator 'wasteful'" in message


def test_a_pair_that_does_not_fit_is_a_mistake_at_the_pair() -> None:
    spec = small_audits.document(
        pair={"use": "eager", "params": {"size": 10**13}},
        mechanism=[{"use": "laplace", "params": {"epsilon": 1.0}}],
    )
    with pytest.raises(SpecError, match="pair: pair 'eager': does not fit into the memory"):
        small_audits.load(spec, [*small_audits.PLUGINS, Eager])


def test_a_search_needs_room_for_dpframe_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 100 << 20)
    with pytest.raises(DpframeError) as caught:
        make_plan(load(searches.spec("laplace"), plugins=[searches.Three]))
    first, second = str(caught.value).splitlines()
    assert first.endswith("takes 480 MiB; 100 MiB is free")
    assert second == "   dpframe itself, with JAX: 480 MiB"


def test_more_chunks_than_the_device_can_number(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(8 * GIB, monkeypatch, audit={"trials": 2**53})
    assert message.startswith("audit.trials = 9007199254740992: mechanism 'flip' with pair")


@pytest.mark.slow
def test_small_audits_are_not_refused_and_large_ones_take_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bytes_of(**tables: Any) -> int:
        plan = make_plan(small_audits.load(small_audits.document(**tables)))
        return sum(memory.memory_of(plan, 2).values())

    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    small = bytes_of()
    assert small < GIB
    assert bytes_of(pair={"use": "zeros-ones", "params": {"dim": 10**7}}) > small + GIB // 2
    assert bytes_of(audit={"repeats": 10_000}) > small + 10_000 * 1000
