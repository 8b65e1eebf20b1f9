"""Attacks learn from draws that are made for learning alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tiers import mostly_slow

import dpframe
from dpframe import Attack, Target
from dpframe.count import work
from dpframe.draw import programs
from dpframe.draw.streams import FIT, PILOT, chunk_keys

SEEN: list[Any] = []


class Curious(Attack, name="curious"):
    """Keeps what it was given."""

    gives = "decision"

    draws: bool = True

    def unsuited(self, target: Target) -> str | None:
        SEEN.append(target)
        return None

    def learns(self) -> bool:
        return self.draws

    def fit(self, key: Any, target: Target, train: Any) -> Any:
        SEEN.append((target, train))
        return {"threshold": np.float32(0.5)}

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, 0] > state["threshold"]


def spec(**tables: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "audit": {"name": "t", "trials": 2_000},
        "pair": {"use": "zeros-ones", "params": {"dim": 3}},
        "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
        "attack": [{"use": "curious"}],
        "estimator": [{"use": "precision"}],
        "run": {"fit": 70, "pilot": 70},
        **tables,
    }


@pytest.fixture
def bases(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The places of all chunks that are drawn for learning."""
    drawn: list[Any] = []
    draw, learn = programs.draw_chunk, work.learn

    def spy(mechanism: Any, origin: Any, **kwargs: Any) -> Any:
        drawn.append(origin)
        return draw(mechanism, origin, **kwargs)

    def learning(*args: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(programs, "draw_chunk", spy)
            return learn(*args)

    monkeypatch.setattr(work, "learn", learning)
    return drawn


@pytest.mark.parametrize("learns", [True, False])
def test_nothing_is_drawn_for_an_attack_that_does_not_learn(learns: bool, bases: list[Any]) -> None:
    SEEN.clear()
    attack = {"use": "curious", "params": {"draws": learns}}
    (cell,) = dpframe.audit(spec(attack=[attack]), plugins=[Curious])["cells"]
    assert cell["status"] == "ok"
    planned, (target, train) = SEEN
    assert planned == target
    assert target.dims == (3,)
    assert [part.shape for part in train] == [(70 if learns else 0, 3)] * 2
    assert [part.dtype for part in train] == [np.float32] * 2
    assert len(bases) == (2 if learns else 0)
    assert [int(origin.dataset) for origin in bases] == ([0, 1] if learns else [])


def test_an_attack_that_does_not_learn_still_has_a_pilot(bases: list[Any]) -> None:
    document = spec(attack=[{"use": "projection"}], estimator=[{"use": "order-statistics"}])
    (cell,) = dpframe.audit(document)["cells"]
    assert cell["status"] == "ok"
    assert len(bases) == 2
    plan = dpframe.commands.audit.make_plan(
        dpframe.commands.audit.load(document, [], None, None, [])
    )
    stream, prng = plan.passes[0].stream, plan.prng
    keys = {
        (name, index): chunk_keys(stream.of(name), prng, index, 0, 1)[0]
        for name in (FIT, PILOT)
        for index in (0, 1)
    }
    assert all((origin.keys == keys[PILOT, int(origin.dataset)]).all() for origin in bases)
    assert not any((origin.keys == keys[FIT, int(origin.dataset)]).all() for origin in bases)


@pytest.mark.parametrize("attack", mostly_slow(["likelihood-ratio", "threshold"], ("threshold",)))
def test_states_of_several_variants_are_those_of_one(attack: str) -> None:
    """An attack that keeps the mechanism in its state, and one that learns."""
    estimators = [{"use": "order-statistics"}, {"use": "precision"}]
    base = spec(attack=[{"use": attack}], estimator=estimators, pair={"use": "zeros-ones"})
    epsilons = [0.5, 1.0, 3.0]
    together = dpframe.audit({**base, "sweep": {"mechanism.epsilon": epsilons}})["cells"]
    assert len(together) == len(epsilons)
    for cell, epsilon in zip(together, epsilons, strict=True):
        mechanism = [{"use": "laplace", "params": {"epsilon": epsilon}}]
        (alone,) = dpframe.audit({**base, "mechanism": mechanism})["cells"]
        assert cell["status"] == "ok"
        assert cell["counts"] == alone["counts"]
        assert cell["statistic"] == alone["statistic"]
    assert len({str(cell["counts"]) for cell in together}) == len(epsilons)


@pytest.mark.slow
def test_an_attack_can_be_swept_over_what_is_traced() -> None:
    document = spec(
        attack=[{"use": "threshold", "params": {"direction": "up"}}],
        pair={"use": "zeros-ones"},
        sweep={"attack.value": [-1.0, 0.5, 2.0]},
    )
    cells = dpframe.audit(document)["cells"]
    ones = [[row[1] for row in cell["counts"]] for cell in cells]
    assert ones[0] > ones[1] > ones[2]
    assert all(d1 > d0 for d0, d1 in ones)
