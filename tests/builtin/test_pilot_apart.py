"""A pilot's choice does not depend on the counts, and no score is in both.

A choice that has seen the counts makes an exact limit a lie, and hardly any simulation shows it: so
the functions that choose are watched themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dpframe
from dpframe import PureDP, Query
from dpframe.builtin import (
    histogram as _bins,
    histogram as histogram_split,
    order_statistics,
    order_statistics as _raw,
    threshold as _deciding,
    threshold as credible,
)
from dpframe.interfaces import registry, statistic as counting

if TYPE_CHECKING:
    from dpframe import Estimator, Statistic

N = 2000

CHOOSE = [
    (order_statistics, "choose"),
    (_raw, "choose"),
    (histogram_split, "choose"),
    (histogram_split, "first_bins"),
    (_bins, "first_bins"),
    (_deciding, "best_cut"),
    (_deciding, "rises"),
    (credible, "best_cut"),
]
"""Every function that chooses, where it is called from."""


def with_a_pilot() -> list[type[Estimator]]:
    found = []
    for offered in registry.load([]).entries:
        if offered.kind == "estimator" and offered.distribution == "dpframe":
            cls: Any = offered.cls
            statistic = cls().statistic()  # a choice by canaries certifies nothing
            if cls.anytime:  # keeps the rule in time: see test_betting
                continue
            if statistic.needs_pilot() and statistic.accepts != {"canaries"}:
                found.append(cls)
    return found


class Watch:
    """Notes what every choice came to."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.chosen: list[str] = []
        for module, name in CHOOSE:
            if hasattr(module, name):
                patch.setattr(module, name, self._watched(name, getattr(module, name)))

    def _watched(self, name: str, function: Any) -> Any:
        def watched(*args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            listed = found.tolist() if isinstance(found, np.ndarray) else found
            self.chosen.append(f"{name} {listed}")
            return found

        return watched

    def take(self) -> list[str]:
        taken, self.chosen = self.chosen, []
        return taken


def scores(seed: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    noise = rng.laplace(size=(2, N)).astype(np.float32)
    return noise[0], noise[1] + np.float32(shift)


def counted(statistic: Statistic, layout: Any, given: tuple[np.ndarray, np.ndarray]) -> Any:
    return counting._counted(statistic, layout, given)


@pytest.mark.parametrize("cls", with_a_pilot(), ids=lambda cls: cls.name)
def test_what_is_chosen_does_not_change_when_only_the_counts_do(
    cls: type[Estimator], monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator = cls()
    statistic = estimator.statistic()
    layout = statistic.bind(*scores(0))
    query = Query((N, N), 1e-5, 0.95, PureDP(1.0))
    watch = Watch(monkeypatch)
    seen, said = [], []
    for given in (scores(1), scores(2, shift=0.0), scores(3, shift=-2.0), scores(4, shift=9.0)):
        found = estimator.estimate(layout, counted(statistic, layout, given), query)
        seen.append(watch.take())
        said.append(repr(found._replace(p_value=None)))
    assert seen[0] == seen[1] == seen[2] == seen[3]
    assert seen[0], "nothing was chosen: the list of functions that choose is out of date"
    assert len(set(said)) > 1
    # And it does change with the pilot, or this test would see nothing.
    other = statistic.bind(*scores(5, shift=-1.0))
    estimator.estimate(other, counted(statistic, other, scores(1)), query)
    assert watch.take() != seen[0]


@pytest.mark.parametrize("cls", with_a_pilot(), ids=lambda cls: cls.name)
def test_neither_does_it_in_a_run(cls: type[Estimator], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other draws are counted, and learned from the same; and none of the pilot's are counted."""
    document = {
        "schema": 1,
        "audit": {"name": "t", "trials": N, "delta": 1e-5},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
        "attack": [{"use": "identity"}],
        "estimator": [{"use": cls.name}],
        "run": {"pilot": N},
    }
    watch = Watch(monkeypatch)
    seen, cells = [], []
    for stream in ("eval", "other"):
        monkeypatch.setattr("dpframe.count.plan.EVAL", stream)
        (cell,) = dpframe.audit(document)["cells"]
        assert cell["status"] == "ok", cell["reason"]
        seen.append(watch.take())
        cells.append(cell)
    assert cells[0]["statistic"] == cells[1]["statistic"]
    assert cells[0]["counts"] != cells[1]["counts"]
    assert seen[0] == seen[1]
    for cell in cells:  # of equal size: a pilot of the counted draws would have their very counts
        pilot, counts = np.array(cell["statistic"]["pilot"]), np.array(cell["counts"])
        assert pilot.sum() == counts.sum() == 2 * N
        assert not np.array_equal(pilot, counts)


# --- scores made elsewhere: every score is in the pilot or counted, and never in both


@pytest.mark.parametrize("split", [_raw._split, counting._split], ids=["ranks", "counts"])
@pytest.mark.parametrize("n", [1, 9, 10, 999, 1000])
def test_a_split_loses_no_score_and_doubles_none(split: Any, n: int) -> None:
    values = np.arange(n, dtype=np.float64)
    pilot, rest = split(values, np.random.default_rng(n))
    assert len(pilot) + len(rest) == n
    assert sorted([*pilot, *rest]) == values.tolist()
    assert len(pilot) in (n // 10, max(1, n // 10))
    if n == 1000:
        assert 300 < pilot.mean() < 700  # at random, since scores may come sorted


@pytest.mark.parametrize("cls", with_a_pilot(), ids=lambda cls: cls.name)
def test_pilot_and_counted_scores_add_up(
    cls: type[Estimator], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    whole = counting._counted

    def watched(statistic: Any, layout: Any, given: Any) -> Any:
        pilot = np.asarray(layout["pilot"]).sum(axis=1)
        counts = whole(statistic, layout, given)
        sizes.append((int((pilot + counts.sum(axis=1)).min()), int(pilot.max())))
        return counts

    monkeypatch.setattr(counting, "_counted", watched)
    given = scores(6)
    _, counts, trials = counting.count_scores(cls().statistic(), given, np.random.default_rng(0))
    assert sizes == [(N, N // 10)]
    assert tuple(counts.sum(axis=1)) == trials == (N - N // 10, N - N // 10)


def test_pilot_and_fixed_events_of_raw_scores_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pilots = []
    whole = _raw.choose

    def watched(pilot: Any, *args: Any, **exact: bool) -> Any:
        pilots.append(pilot.sum(axis=1))
        return whole(pilot, *args, **exact)

    monkeypatch.setattr(_raw, "choose", watched)
    rng = np.random.default_rng(0)
    tied = tuple(
        _raw.ascending(values) for values in (rng.random(500) < 0.3, rng.random(700) < 0.6)
    )
    query = Query((500, 700), 0.0, 0.95, None)
    families = order_statistics.OrderStatistics().families()
    events = _raw.raw_events((tied[0], tied[1]), families, query, rng)
    fixed = [part for part in events if not part.ranked.all()]
    assert fixed
    for part in fixed:
        trials = sorted([int(part.trials_false[0]), int(part.trials_true[0])])
        assert (np.sort(pilots[0]) + trials).tolist() == [500, 700]
