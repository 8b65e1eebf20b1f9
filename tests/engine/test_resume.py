"""Going on: what is counted is not drawn again, and nothing else is taken for it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import threads as running
from support.small_audits import (
    PLUGINS,
    ROWS,
    Spy,
    Stop,
    counts,
    document,
    load,
    results,
    small_segments,
)
from support.tiers import mostly_slow

from dpframe import Pair
from dpframe.commands.audit import make_plan
from dpframe.count.checkpoint import Saved, Store
from dpframe.draw import value_digest
from dpframe.engine.run import run as run_plan

TRIALS = 8 * ROWS + 7
BOTH = [(dataset, chunk) for dataset in (0, 1) for chunk in range(8)]
SWEPT = {"mechanism.epsilon": [0.5, 1.0], "attack.threshold": [0.4, 0.6]}


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    small_segments(monkeypatch)


def stopped(spec: dict[str, Any], directory: Path, after: int, threads: int | None = None) -> bool:
    try:
        counts(spec, Store(directory), Stop(after), threads)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("stops", mostly_slow([[], [0], [3, 0, 12], [1, 5, 2, 7]], (1, 3)), ids=str)
def test_interruptions_change_nothing(stops: list[int]) -> None:
    interrupted_changes_nothing(stops)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 12), max_size=6))
def test_any_interruptions_change_nothing(stops: list[int]) -> None:
    interrupted_changes_nothing(stops)


def interrupted_changes_nothing(stops: list[int]) -> None:
    spec = document(
        sweep={"mechanism.epsilon": [0.5, 1.0]},
        estimator=[{"use": "precision"}, {"use": "positions"}],
    )
    before = running.ours()
    with TemporaryDirectory() as name:
        for after in stops:
            stopped(spec, Path(name), after)
            assert running.ours() <= before
        assert counts(spec, Store(Path(name))) == counts(spec)


def test_nothing_that_was_counted_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even what a thread still counts after Ctrl-C; several may lose what is beyond a gap."""
    direct = counts(document())
    spy = Spy(monkeypatch)
    runs = 1
    while stopped(document(), tmp_path, 3, threads=1):
        runs += 1
        assert runs < 20
    assert runs > 1
    assert spy.whole_chunks() == BOTH
    spy.drawn.clear()
    assert counts(document(), Store(tmp_path)) == direct
    assert sorted(spy.drawn) == [(0, 8, 9, 7), (1, 8, 9, 7)]  # the tail is drawn whole and cut


@pytest.mark.parametrize(
    "longer", mostly_slow([3 * TRIALS, 16 * ROWS, TRIALS + 1, 9 * ROWS], (0, 2))
)
def test_extension_reuses_the_prefix(
    longer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = document(audit={"trials": longer}, sweep=SWEPT)
    direct = counts(wanted)
    counts(document(sweep=SWEPT), Store(tmp_path))
    spy = Spy(monkeypatch)
    assert counts(wanted, Store(tmp_path)) == direct
    assert spy.whole_chunks() == [(d, c) for d in (0, 1) for c in range(8, longer // ROWS)]


def test_fewer_trials_give_the_counts_of_a_direct_run(tmp_path: Path) -> None:
    """Counts cannot be taken back, so they are made again; the longer ones stay."""
    fewer = document(audit={"trials": 3 * ROWS + 1})
    longer, direct = counts(document(), Store(tmp_path)), counts(fewer)
    assert counts(fewer, Store(tmp_path)) == direct
    assert counts(document(), Store(tmp_path)) == longer


def test_fewer_trials_of_the_same_chunks_need_no_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts(document(), Store(tmp_path))
    cut = document(audit={"trials": 8 * ROWS + 3})
    direct = counts(cut)
    spy = Spy(monkeypatch)
    assert counts(cut, Store(tmp_path)) == direct
    assert spy.whole_chunks() == []


def test_cells_that_are_not_equally_far_go_on_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = document(sweep={"mechanism.epsilon": [1.0]})
    some = document(audit={"trials": 4 * ROWS}, sweep={"mechanism.epsilon": [2.0]})
    every = document(sweep={"mechanism.epsilon": [0.5, 1.0, 2.0, 4.0]})
    direct = counts(every)
    counts(few, Store(tmp_path))
    counts(some, Store(tmp_path))
    spy = Spy(monkeypatch)
    assert counts(every, Store(tmp_path)) == direct
    added = [(d, c) for d in (0, 1) for c in range(4, 8)]
    assert spy.whole_chunks() == sorted([*BOTH, *added])


KEEPS: dict[str, dict[str, Any]] = {
    "title": {"audit": {"name": "another"}},
    "confidence": {"audit": {"confidence": 0.5}},
    "delta": {"audit": {"delta": 0.01}},
    "multiplicity": {"audit": {"multiplicity": "none"}},
    "label": {"mechanism": [{"use": "flip", "label": "renamed"}]},
    "a default written out": {"mechanism": [{"use": "flip", "params": {"epsilon": 1.0}}]},
    "expect": {"expect": [{"where": {"mechanism": "flip"}, "verdict": "consistent"}]},
    "estimator of the same counts": {"estimator": [{"use": "totals"}]},
    "sizes of streams that nothing learns from": {"run": {"fit": 10, "pilot": 10}},
    "time budget": {"run": {"seconds": 1000}},
}


@pytest.mark.parametrize("what", mostly_slow(KEEPS, range(0, 10, 3)))
def test_what_does_not_determine_counts_keeps_them(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts(document(), Store(tmp_path))
    spy = Spy(monkeypatch)
    after = counts(document(**KEEPS[what]), Store(tmp_path))
    assert list(after.values()) == list(before.values())
    assert spy.whole_chunks() == []


MIXES: dict[str, dict[str, Any]] = {
    "seed": {"audit": {"seed": 4}},
    "traced parameter": {"mechanism": [{"use": "flip", "params": {"epsilon": 1.5}}]},
    "static parameter": {"mechanism": [{"use": "flip", "params": {"shift": 1}}]},
    "mechanism": {"mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}]},
    "pair": {"pair": {"use": "zeros-ones", "params": {"dim": 2}}},
    "attack": {"attack": [{"use": "majority-vote"}]},
    "parameter of the attack": {"attack": [{"use": "above", "params": {"threshold": 0.6}}]},
    "statistic": {"estimator": [{"use": "positions"}]},
    "precision": {"run": {"precision": "float64"}},
    "chunk": {"run": {"chunk": 16}},
    "prng": {"run": {"prng": "threefry2x32"}},
}


@pytest.mark.parametrize("what", MIXES)
def test_what_determines_counts_starts_anew(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts(document(), Store(tmp_path))
    changed = document(**MIXES[what])
    spy = Spy(monkeypatch)
    direct = counts(changed)
    alone = sorted(spy.drawn)
    spy.drawn.clear()
    assert counts(changed, Store(tmp_path)) == direct
    assert sorted(spy.drawn) == alone
    spy.drawn.clear()
    counts(document(), Store(tmp_path))  # and the first ones are still there
    assert spy.whole_chunks() == []


PLUGIN = '''
import dataclasses
import jax
import jax.numpy as jnp
import numpy as np
from dpframe import Attack, Estimate, Estimator, Mechanism, Pair, PureDP, Statistic

class M(Mechanism, name="m"):
    """x"""
    def claim(self, pair):
        return None
    def sample(self, key, data, n):
        return data + jax.random.uniform(key, (n, 1))

class A(Attack, name="a"):
    """x"""
    gives = "decision"

    def score(self, state, outputs):
        return outputs[:, 0] > 0.5

@dataclasses.dataclass(frozen=True)
class S(Statistic):
    accepts = frozenset({"decision"})
    def zero(self, layout):
        return jnp.zeros(2, jnp.int32)
    def update(self, layout, counts, dataset, scores, keep):
        return counts.at[dataset].add((scores & keep).sum(dtype=jnp.int32))

class E(Estimator, name="e"):
    """x"""
    certifies = False
    assumption = "none"
    def statistic(self):
        return S()
    def estimate(self, layout, counts, query):
        return Estimate(epsilon=0.0)

class P(Pair, name="p"):
    """x"""
    adjacency = "x"
    @property
    def d0(self):
        return np.zeros(1)
    @property
    def d1(self):
        return np.ones(1)
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Any]:
    """A plugin whose source can be changed; gives a class of what it says now."""
    name = "dpframe_tests_changing"

    def imported(source: str, cls: str) -> Any:
        file = tmp_path / f"{name}.py"
        file.write_text(source)
        value_digest._digest_of.cache_clear()
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(compile(source, str(file), "exec"), module.__dict__)
        return getattr(module, cls)

    yield imported
    sys.modules.pop(name, None)
    value_digest._digest_of.cache_clear()


CHANGES = [
    ("M", "mechanism", "data + jax", "data + 0.25 + jax"),
    ("A", "attack", "> 0.5", "> 0.75"),
    ("E", "estimator", "(scores & keep)", "(~scores & keep)"),
    ("P", "pair", "np.ones(1)", "np.full(1, 0.5)"),
]


@pytest.mark.parametrize(("cls", "kind", "old", "new"), mostly_slow(CHANGES, (0, 1)))
def test_counts_of_changed_code_are_not_used(
    cls: str, kind: str, old: str, new: str, plugin: Any, tmp_path: Path
) -> None:
    use = {"use": cls.lower()}
    spec = document(**{kind: use if kind == "pair" else [use]})

    def counted(source: str, store: Store) -> list[Any]:
        return list(counts(spec, store, plugins=[*PLUGINS, plugin(source, cls)]).values())

    changed = PLUGIN.replace(old, new)
    assert changed != PLUGIN
    first = counted(PLUGIN, Store(tmp_path / "run"))
    direct = counted(changed, Store())
    assert direct != first
    assert counted(changed, Store(tmp_path / "run")) == direct
    assert counted(PLUGIN, Store(tmp_path / "run")) == first


def test_a_full_disk_costs_nothing_but_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = counts(document())
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "below")
    assert counts(document(), store) == direct
    assert store.problem is not None


def test_code_that_a_plugin_inherits_is_known_too(tmp_path: Path) -> None:
    """From another package, where a change of the base leaves the plugin's own file alone."""

    def digest(shift: str) -> str:
        modules = {
            "dpframe_tests_base": f"class Shared:\n    def noise(self):\n        return {shift}\n",
            "dpframe_tests_own": "from dpframe_tests_base import Shared\nclass Own(Shared): pass\n",
        }
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        value_digest._digest_of.cache_clear()
        return value_digest.code_digest(importlib.import_module("dpframe_tests_own").Own)

    sys.path.insert(0, str(tmp_path))
    try:
        first = digest("1")
        assert digest("1") == first
        assert digest("2222") != first
    finally:
        sys.path.remove(str(tmp_path))
        for name in ("dpframe_tests_base", "dpframe_tests_own"):
            sys.modules.pop(name, None)
        value_digest._digest_of.cache_clear()


IMPOSSIBLE: dict[str, Any] = {
    "negative": lambda done, rows: (done, [[rows + 1, -1], rows_of(rows)]),
    "too many": lambda done, rows: (done, [[rows, 1], rows_of(rows)]),
    "too few": lambda done, rows: (done, [[rows - 1, 0], rows_of(rows)]),
    "fractions": lambda done, rows: (done, [[rows - 0.5, 0.5], rows_of(rows)]),
    "words": lambda done, rows: (done, [["a", "b"], ["c", "d"]]),
    "huge": lambda done, rows: (done, [[2**70, 0], rows_of(rows)]),
    "ragged": lambda done, rows: (done, [[rows], rows_of(rows)]),
    "nothing": lambda done, rows: (done, None),
    "before the beginning": lambda done, rows: ((-1, done[1]), [[-ROWS, 0], rows_of(rows)]),
}


def rows_of(rows: int) -> list[int]:
    return [rows, 0]


@pytest.mark.parametrize("what", mostly_slow(IMPOSSIBLE, range(0, 9, 2)))
def test_counts_that_cannot_be_are_made_again(what: str, tmp_path: Path) -> None:
    """Whoever writes them with their digest."""
    direct = counts(document(), Store(tmp_path))
    store = Store(tmp_path)
    stream = make_plan(load(document())).passes[0].stream
    ((key, saved),) = store._of(stream).items()
    done, wrong = IMPOSSIBLE[what](saved.done, saved.done[0] * ROWS)
    store._entries[stream][key] = Saved(done, [wrong])
    assert counts(document(), store) == direct


TABLE = """
import pathlib
import numpy as np
from dpframe import Pair

class T(Pair, name="t"):
    \"\"\"x\"\"\"
    file: str
    adjacency = "replace the table"
    @property
    def d0(self):
        return np.zeros(1)
    @property
    def d1(self):
        return np.loadtxt(pathlib.Path(self.file), ndmin=1)
"""


def test_counts_of_data_that_a_file_held_before_are_not_used(plugin: Any, tmp_path: Path) -> None:
    file = tmp_path / "table.txt"
    pair = plugin(TABLE, "T")
    spec = document(pair={"use": "t", "params": {"file": str(file)}})

    def counted(store: Store, trials: int = TRIALS) -> tuple[list[Any], str | None]:
        spec["audit"]["trials"] = trials
        (result,) = results(spec, store, plugins=[*PLUGINS, pair])
        return result.counts, result.pair.digest

    file.write_text("1.0")
    first, before = counted(Store(tmp_path / "run"))
    file.write_text("0.25")
    direct, after = counted(Store(), 3 * TRIALS)
    assert counted(Store(tmp_path / "run"), 3 * TRIALS) == (direct, after)
    assert before != after
    file.write_text("1.0")
    assert counted(Store(tmp_path / "run")) == (first, before)


def test_data_that_are_others_each_time_fail_the_cell() -> None:
    """They may be read again at any time."""
    made = iter(range(10**6))

    class Fickle(Pair, name="fickle"):
        adjacency = "any"

        @property
        def d0(self) -> Any:
            return np.zeros(1)

        @property
        def d1(self) -> Any:
            return np.full(1, 1.0 + next(made))

    plan = make_plan(load(document(pair={"use": "fickle"}), [*PLUGINS, Fickle]))
    (result,) = run_plan(plan)
    assert result.reason is not None
    assert "each time" in result.reason
