"""The counts of a cell are a function of what the cell is, and of nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support import processes
from support.small_audits import ROWS, Spy, counts, document, small_segments
from support.tiers import mostly_slow

from dpframe.count import kernel

TRIALS = 8 * ROWS + 7

EPSILONS = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]
MECHANISMS: list[Any] = [
    {"use": "flip"},
    {"use": "flip", "label": "shifted", "params": {"shift": 1}},
    {"use": "random-output", "params": {"epsilon": 1.0}},
]
ATTACKS: list[Any] = [
    {"use": "above"},
    {"use": "above", "label": "higher", "params": {"threshold": 0.75}},
    {"use": "majority-vote"},
]
ESTIMATORS: list[Any] = [{"use": "precision"}, {"use": "positions"}, {"use": "totals"}]

ALONE = document(estimator=[{"use": "positions"}])


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    small_segments(monkeypatch)


@pytest.fixture(scope="module")
def alone() -> dict[Any, Any]:
    """The counts of one cell with nothing else in the spec."""
    return counts(ALONE)


def some(values: list[Any]) -> st.SearchStrategy[list[Any]]:
    """Some of the values, the first always, in any order."""
    rest = st.lists(st.sampled_from(values[1:]), unique_by=str)
    return rest.flatmap(lambda found: st.permutations([values[0], *found]))


whatever_else = given(
    mechanisms=some(MECHANISMS),
    attacks=some(ATTACKS),
    estimators=some([ESTIMATORS[1], ESTIMATORS[0], ESTIMATORS[2]]),
    epsilons=some([1.0, *EPSILONS]),
    dims=some([1, 2]),
    seeds=some([3, 4]),
    confidence=st.sampled_from([0.5, 0.95, 0.99]),
    repeats=st.integers(1, 3),
    threads=st.integers(1, 5),
)


@pytest.mark.slow
@settings(max_examples=2)
@whatever_else
def test_what_else_is_in_the_spec_changes_nothing(alone: dict[Any, Any], **else_: Any) -> None:
    check_what_else(alone, **else_)


@pytest.mark.slow
@settings(max_examples=20)
@whatever_else
def test_nothing_else_in_the_spec_changes_anything(alone: dict[Any, Any], **else_: Any) -> None:
    check_what_else(alone, **else_)


def check_what_else(
    alone: dict[Any, Any],
    mechanisms: list[Any],
    attacks: list[Any],
    estimators: list[Any],
    epsilons: list[float],
    dims: list[int],
    seeds: list[int],
    confidence: float,
    repeats: int,
    threads: int,
) -> None:
    spec = document(
        mechanism=mechanisms,
        attack=attacks,
        estimator=estimators,
        sweep={
            "mechanism.epsilon": list(dict.fromkeys(epsilons)),
            "pair.dim": dims,
            "audit.seed": seeds,
        },
        audit={"confidence": confidence, "repeats": repeats, "name": "other"},
    )
    wide = counts(spec, threads=threads)
    assert {key: wide[key] for key in alone} == alone


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads: int, alone: dict[Any, Any]) -> None:
    assert counts(ALONE, threads=threads) == alone


def test_what_each_seed_repeat_and_dataset_draws_differs() -> None:
    spec = document(
        mechanism=[MECHANISMS[2]],
        attack=[ATTACKS[0]],
        estimator=[ESTIMATORS[1]],
        sweep={"audit.seed": [1, 2, 3]},
        audit={"repeats": 2},
    )
    rows = [tuple(row) for found in counts(spec).values() for row in found]
    assert len(set(rows)) == len(rows) == 12


@pytest.mark.parametrize("number", mostly_slow([2, 7, 9], [0]))
def test_variants_change_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 8 variants share a program of 8; nine need one of 16."""
    spy = Spy(monkeypatch)
    wide = counts(document(sweep={"mechanism.epsilon": EPSILONS[:number]}))
    assert len(wide) == number
    assert len(spy.drawn) == len(set(spy.drawn))  # draws are shared
    for epsilon in EPSILONS[:number]:
        narrow = counts(document(sweep={"mechanism.epsilon": [epsilon]}))
        assert {key: wide[key] for key in narrow} == narrow


@pytest.mark.parametrize("width", mostly_slow([3, 4], [0]))
def test_the_width_of_a_step_changes_nothing(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An accelerator counts many chunks at once, in steps that reach beyond the last chunk."""
    monkeypatch.undo()  # one segment: 11 chunks, then a tail
    spec = document(
        audit={"trials": 11 * ROWS + 5},
        estimator=ESTIMATORS,
        sweep={"mechanism.epsilon": [0.5, 1.0]},
    )
    narrow = counts(spec)
    spy = Spy(monkeypatch)
    monkeypatch.setattr(kernel, "chunks_at_once", lambda elements: width)
    assert counts(spec) == narrow
    assert sorted(spy.drawn) == [(d, *s) for d in (0, 1) for s in ((0, 11, ROWS), (11, 12, 5))]


def test_more_trials_go_on_where_fewer_ended() -> None:
    """Position by position, the counts of a longer run are those of a shorter one, and more."""
    (shorter,) = counts(ALONE).values()
    (longer,) = counts({**ALONE, "audit": {**ALONE["audit"], "trials": 3 * TRIALS}}).values()
    more = [
        [b - a for a, b in zip(*rows, strict=True)] for rows in zip(shorter, longer, strict=True)
    ]
    assert all(0 <= number <= (2 * TRIALS) // 16 + 2 for row in more for number in row)


DEVICES = """
import json, sys
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import pytest
from support.small_audits import counts, small_segments
from dpframe.count import kernel

used = set()
count = kernel.count_chunks
def spy(*args, **kwargs):
    made = count(*args, **kwargs)
    used.update(device.id for leaf in jax.tree.leaves(made) for device in leaf.devices())
    return made
kernel.count_chunks = spy
small_segments(pytest.MonkeyPatch())
found = counts(json.loads(sys.argv[2]), threads=8)
print(json.dumps([len(jax.devices()), sorted(used), list(found.values())]))
"""


@pytest.mark.slow
def test_host_devices_change_nothing() -> None:
    spec = document(
        audit={"trials": 40 * ROWS + 7},
        estimator=[ESTIMATORS[1]],
        sweep={"mechanism.epsilon": [0.5, 1.0]},
    )
    done = processes.run("-c", DEVICES, 2, json.dumps(spec))
    assert done.returncode == 0, done.stderr
    devices, used, found = json.loads(done.stdout)
    assert devices == len(used) == 2
    assert found == list(counts(spec).values())
