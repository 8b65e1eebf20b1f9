"""Rounds: the same draws as ever, cut where the bets are, whatever happens in between."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.naive_bets import wealth
from support.small_audits import PLUGINS, ROWS, document, load, results, small_segments
from support.tiers import mostly_slow

from dpframe import DecisionCounts, Estimate, Estimator, HostMechanism, PureDP
from dpframe.commands.audit import make_plan
from dpframe.count.checkpoint import Store
from dpframe.count.rounds import FIRST_ROUND, Rounds, ends
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.streams import Segment
from dpframe.engine.run import run as run_plan
from dpframe.errors import SpecError
from dpframe.results.model import CellRecord

pytestmark = pytest.mark.usefixtures("coarse_bounds")

CHUNK = 64
TRIALS = 6 * CHUNK + 7
BETTING = [{"use": "betting"}]
DECIDED = {"chunk": CHUNK, "stop": "decided"}


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    small_segments(monkeypatch)


def spec(trials: int = TRIALS, **tables: Any) -> dict[str, Any]:
    return document(
        audit={"trials": trials}, run={"chunk": CHUNK, **tables.pop("run", {})}, **tables
    )


def bets(trials: int = TRIALS, **tables: Any) -> dict[str, Any]:
    return spec(trials, **{"estimator": BETTING, **tables})


def said(found: list[CellRecord]) -> list[Any]:
    """Everything that a verdict is made of, to the bit."""
    return [
        (r.id, r.trials, r.counts, r.p_value, r.estimate.model_dump(), r.basis)
        for r in found
        if r.estimate is not None
    ]


@pytest.mark.parametrize(
    ("rows", "whole"), [(16, True), (ROWS, False), (4096, False), (4096, True)]
)
def test_rounds_end_where_they_end_whatever_is_asked_for(rows: int, whole: bool) -> None:
    long = ends(10**6, rows, whole=whole)
    for trials in (1, 63, 64, 1000, 4096, 5000, 99_999):
        short = ends(trials, rows, whole=whole)
        assert short[:-1] == long[: len(short) - 1]
        assert short[-1] == trials <= long[len(short) - 1]
    assert all(end % rows == 0 for end in long[:-1] if whole or end > rows)
    assert all(
        later >= 1.05 * end or later - end <= 64 for end, later in itertools.pairwise(long[:-1])
    )
    assert len(ends(10**8, rows, whole=whole)) < 150


def each_draw(zeros: Any, variants: Any, dataset: int, segment: Segment) -> Any:
    """Counts of a segment, in chunks of 256, where every draw has a bin of its own."""
    ends = segment.slices or ((0, segment.limit),)
    apart = np.zeros((len(ends), *zeros[0].shape), np.int64)
    for found, (start, end) in zip(apart, ends, strict=True):
        for chunk in range(segment.first, segment.stop):
            found[variants, :, dataset, chunk * 256 + start : chunk * 256 + end] += 1
    return (apart,) if segment.slices else (apart[0],)


@pytest.mark.parametrize("seed", range(12))
def test_variants_that_leave_and_come_late_have_each_draw_once(seed: int) -> None:
    """In steps, some with rounds from before, each until it has enough."""
    rng = random.Random(seed)
    trials = rng.choice([40, 256, 300, 700, 2000])
    zeros = (np.zeros((4, 1, 2, trials), np.int32),)
    rounds = Rounds(zeros, trials, 256, 1 << 18, whole=False)
    wanted = np.zeros((len(rounds.parts), trials), np.int64)
    for row, part in zip(wanted, rounds.parts, strict=True):
        row[part.start : part.end] = 1
    both = np.repeat(wanted[:, None, None], 2, axis=2)  # [rounds, attacks, datasets, bins]
    for variant in range(4):
        upto = rng.choice([0, 0, rng.randrange(len(rounds.parts))])
        rounds.take_stored(variant, upto, {(0, 0): list(both[:, 0])})
    enough = [len(rounds.parts) - rng.choice([0, 0, rng.randrange(len(rounds.parts))])] * 2
    enough += [len(rounds.parts) - rng.randrange(len(rounds.parts)) for _ in range(2)]
    while left := [variant for variant in range(4) if rounds.upto[variant] < enough[variant]]:
        rounds.go_on(left)
        units = list(rounds.units(rounds.step()))
        rng.shuffle(units)
        for dataset, segment in units:
            rounds.add(dataset, segment, each_draw(zeros, rounds.active, dataset, segment))
    for variant in range(4):
        assert rounds.upto[variant] >= enough[variant]
        for number in range(rounds.upto[variant]):
            assert np.array_equal(rounds.counts[number][0][variant], both[number])


@pytest.mark.parametrize("trials", [40, 256, 300, 2000, 256 * 9 + 5])
def test_rounds_are_the_draws_between_their_ends_in_any_order(trials: int) -> None:
    """Draw i of each dataset is its own bin, so that any mistake shows."""
    zeros = (np.zeros((2, 1, 2, trials), np.int32),)
    rounds = Rounds(zeros, trials, 256, 1 << 18, whole=False)

    units = list(rounds.units())
    random.Random(trials).shuffle(units)
    for dataset, segment in units:
        rounds.add(dataset, segment, each_draw(zeros, range(2), dataset, segment))
    assert sum(segment.first == 0 for _, segment in units) == 2  # drawn once
    assert rounds.upto == [len(rounds.parts)] * 2
    for part, (counts,) in zip(rounds.parts, rounds.counts, strict=True):
        wanted = np.zeros(trials)
        wanted[part.start : part.end] = 1
        assert np.array_equal(counts, np.broadcast_to(wanted, counts.shape))


def test_wealth_is_that_of_a_plain_loop() -> None:
    trials, flip = 3 * CHUNK + 7, [{"use": "flip", "params": {"epsilon": 2.0}}]
    (found,) = results(bets(trials, mechanism=flip))
    assert found.estimate is not None
    parts = ends(trials, CHUNK, whole=False)
    total, rounds = np.zeros((2, 2), int), []
    for end in parts:
        # An ordinary audit of so many trials: it knows nothing of rounds.
        (ordinary,) = results(spec(end, mechanism=flip))
        rounds.append(np.array(ordinary.counts) - total)
        total = total + rounds[-1]
    assert [trials for trials, _ in found.estimate.wealth] == parts
    own = [value for _, value in found.estimate.wealth]
    assert own == pytest.approx(wealth(rounds, PureDP(2.0)), rel=1e-10, abs=1e-10)
    assert max(own) > 3  # it does earn
    assert found.p_value == pytest.approx(math.exp(-max(own)))


def test_other_cells_do_not_notice() -> None:
    """Their share of the error apart, which is smaller where there are more claims."""
    alone = results(spec())
    beside = results(spec(estimator=[{"use": "betting"}, {"use": "precision"}]))
    assert (beside[1].counts, beside[1].trials) == (alone[0].counts, alone[0].trials)
    assert beside[0].counts == alone[0].counts  # the same draws, too
    stopped = results(spec(estimator=[{"use": "betting"}, {"use": "precision"}], run=DECIDED))
    assert stopped[0].trials < stopped[1].trials
    assert said(stopped)[1:] == said(beside)[1:]


SWEEP = {"mechanism.epsilon": [0.5, 8.0], "attack.threshold": [0.5, 0.9]}


@pytest.mark.slow
def test_cells_drop_out_without_changing_others() -> None:
    together = results(bets(sweep=SWEEP, run=DECIDED))
    ended = [result.trials[0] for result in together]
    assert len(set(ended)) > 2
    assert min(ended) < TRIALS == max(ended)
    whole = results(bets(sweep=SWEEP))
    assert {tuple(result.trials) for result in whole} == {(TRIALS, TRIALS)}
    for stopped, full in zip(together, whole, strict=True):
        assert stopped.estimate is not None
        assert full.estimate is not None
        assert stopped.estimate.wealth == full.estimate.wealth[: len(stopped.estimate.wealth)]
    assert said(results(bets(sweep=SWEEP, run=DECIDED), threads=3)) == said(together)
    alone = [
        result
        for epsilon in SWEEP["mechanism.epsilon"]
        for result in results(bets(sweep={**SWEEP, "mechanism.epsilon": [epsilon]}, run=DECIDED))
    ]
    # The share of the error differs, so one alone may end earlier; what it bet is the same.
    ids = {result.id.rsplit("-", 1)[0]: result for result in together}
    for one in alone:
        other = ids[one.id.rsplit("-", 1)[0]]
        assert one.estimate is not None
        assert other.estimate is not None
        common = min(len(one.estimate.wealth), len(other.estimate.wealth))
        assert one.estimate.wealth[:common] == other.estimate.wealth[:common]


@pytest.mark.parametrize("run", mostly_slow([{}, DECIDED], (1,)), ids=["never", "decided"])
def test_interrupted_and_resumed_bets_are_the_same_to_the_bit(
    run: dict[str, Any], tmp_path: Path
) -> None:
    asked = bets(3 * CHUNK + 7, sweep=SWEEP, run=run)
    direct = said(results(asked))
    stops = 0
    for after in (2, 0, 1, 5):
        calls = itertools.count()

        def stop(calls: Any = calls, after: int = after, **_: Any) -> None:
            if next(calls) == after:
                raise KeyboardInterrupt

        try:
            results(asked, Store(tmp_path), stop, threads=2)
        except KeyboardInterrupt:
            stops += 1
    assert stops > 2
    assert said(results(asked, Store(tmp_path))) == direct


@pytest.mark.slow
def test_more_trials_go_on_with_the_same_bets(tmp_path: Path) -> None:
    for trials in (100, TRIALS):
        store = Store(tmp_path)
        (longer,) = results(bets(trials), store)
        (direct,) = results(bets(trials))
        assert said([longer]) == said([direct])
    full = ends(TRIALS, CHUNK, whole=False)
    (short,), (long,) = results(bets(200)), results(bets(TRIALS))
    assert short.estimate is not None
    assert long.estimate is not None
    cut = short.estimate.wealth[:-1]
    assert cut == long.estimate.wealth[: len(cut)]
    assert len(cut) > 5
    assert [trials for trials, _ in cut] == full[: len(cut)]


def test_what_is_stored_is_not_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.small_audits import Spy

    results(bets(6 * CHUNK), Store(tmp_path))
    spy = Spy(monkeypatch)
    results(bets(6 * CHUNK), Store(tmp_path))
    first = [one for one in spy.drawn if one[1] == 0]
    assert first == []
    assert len(spy.drawn) <= 2 * 2  # the last round alone, which the trials cut


def test_no_cell_stops_where_none_may_be_asked() -> None:
    with pytest.raises(SpecError, match=r'run.stop: is "decided", but no estimator is valid'):
        load(spec(run={"stop": "decided"}))
    load(spec(estimator=[{"use": "precision"}, {"use": "betting"}], run={"stop": "decided"}))


class Box(HostMechanism, name="box"):
    """Laplace noise, and a list of what it was asked for."""

    epsilon: float = 1.0
    asked: ClassVar[list[int]] = []

    def claim(self, pair: Any) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        self.asked.append(n)
        return data + rng.laplace(size=(n, *np.shape(data)))


@pytest.mark.parametrize("attack", ["above", "identity"])
def test_no_release_of_a_black_box_is_asked_for_twice(attack: str) -> None:
    """Rounds end with chunks, and the first round's scores are counted too."""
    spec = document(
        mechanism=[{"use": "box"}],
        attack=[{"use": attack}],
        estimator=BETTING,
        audit={"trials": 330},
        run={"chunk": 16},
    )
    plan = make_plan(load(spec, [*PLUGINS, Box]), InProcessWorkers())
    Box.asked.clear()
    (found,) = run_plan(plan, source=InProcessWorkers())
    assert found.reason is None
    assert found.trials == [330, 330]
    looks_at_addresses = 4
    assert len(Box.asked) == 2 * -(-330 // 16) + looks_at_addresses
    assert found.estimate is not None
    assert [n % 16 for n, _ in found.estimate.wealth][:-1] == [0] * (len(found.estimate.wealth) - 1)
    assert found.estimate.wealth[0] == [-(-FIRST_ROUND // 16) * 16, 0.0]


class Own(Estimator, name="own"):
    """A third party's: keeps what it was shown, and says when it has enough."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "none"
    anytime: ClassVar[bool] = True
    fails: bool = False

    def statistic(self) -> Any:
        return DecisionCounts()

    def observe(self, state: Any, layout: Any, counts: Any, query: Any) -> Any:
        assert counts.sum(axis=1).tolist() == list(query.trials)
        if self.fails and state:
            raise ValueError("no idea")
        counts[:] = -1  # its own copy
        return (*(state or ()), query.trials[0])

    def conclude(self, state: Any, layout: Any, query: Any) -> Estimate:
        assert sum(state) == query.trials[0] == query.trials[1]
        p_value = 1e-9 if sum(state) > 200 else 1.0
        return Estimate(2.0, 0.5, p_value=p_value, p_resolved=p_value)

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        return self.conclude((query.trials[0],), layout, query)

    def extreme(self, layout: Any, trials: Any) -> Any:
        return np.array([[trials[0], 0], [0, trials[1]]])


def test_an_anytime_estimator_can_be_a_plugin() -> None:
    entries = [{"use": "own"}, {"use": "own", "label": "failing", "params": {"fails": True}}]
    asked = spec(estimator=[*entries, {"use": "betting"}], run=DECIDED)
    plan = make_plan(load(asked, [*PLUGINS, Own]))
    own, failing, betting = run_plan(plan)
    full = ends(TRIALS, CHUNK, whole=False)
    assert own.trials[0] == next(end for end in full if end > 200)
    assert sum(own.counts[0]) == own.trials[0]
    assert failing.reason is not None
    assert "no idea" in failing.reason
    assert betting.reason is None
