"""A search learns, chooses cuts and bets on different draws."""

from __future__ import annotations

from typing import Any

import pytest
from support.searches import Three, spec

import dpframe
from dpframe.count import pair_pass
from dpframe.search import arms

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")


def test_what_is_bet_on_was_neither_learned_from_nor_counted_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, set[int]] = {}
    """The chunks of each pair that anything was made of."""
    rounds = []
    counted, drawn, draw = arms.TracedArm._counted, pair_pass.PairPass.drawn, arms.TracedArm.draw

    def of(the_pass: Any) -> set[int]:
        return seen.setdefault(the_pass.stream.group, set())

    def count(self: Any, chunks: range) -> Any:
        if betting:
            rounds.append((len(of(self.the_pass) & {*chunks}), len(chunks)))
        of(self.the_pass).update(chunks)
        return counted(self, chunks)

    def look(self: Any, chunks: range) -> Any:
        of(self.the_pass).update(chunks)
        return drawn(self, chunks)

    betting: list[bool] = []

    def bet(self: Any, draws: int) -> Any:
        betting.append(True)
        try:
            return draw(self, draws)
        finally:
            betting.pop()

    monkeypatch.setattr(arms.TracedArm, "_counted", count)
    monkeypatch.setattr(pair_pass.PairPass, "drawn", look)
    monkeypatch.setattr(arms.TracedArm, "draw", bet)
    (cell,) = dpframe.audit(spec("laplace"), plugins=[Three]).cells
    assert cell.status == "ok"
    assert len(rounds) > 8
    assert {known for known, _ in rounds} == {0}
    assert sum(size for _, size in rounds) > 20
