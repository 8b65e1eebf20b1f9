"""Slips around runs: shards of black boxes, boxes that change their process, broken packages."""

from __future__ import annotations

import functools
import itertools
import json
import random
import threading
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from support.black_boxes import sample_in_this_process
from support.command_line import dpframe, worked

from dpframe import (
    AccountedDP,
    DpframeError,
    assert_dp,
    audit_training,
    search_violation,
)
from dpframe.draw.in_process import InProcessWorkers
from dpframe.errors import UndecidedError, ViolationError

SPEC = """schema = 1
[audit]
name = "t"
trials = 3_000
[pair]
use = "values"
params = { d0 = 0.0, d1 = 1.0 }
"""
BOX = """
[[mechanism]]
use = "laplace-numpy"
params = { epsilon = 1.0, sensitivity = 1.0 }
"""
JUDGED = """
[[attack]]
use = "answers"
[[estimator]]
use = "threshold"
"""
ODD = """
import resource
import dpframe

class Raises(dpframe.HostMechanism, name="raises"):
    "A box with exceptions of several kinds, most of them rare."
    claim = lambda self, pair: dpframe.PureDP(1.0)
    def release(self, rng, data):
        u = rng.random()
        if u < .01 + .05 * float(data):
            raise (KeyError if u < .001 else ValueError)("no answer")
        return float(data) + rng.laplace(scale=2.0)

class Rude(dpframe.HostMechanism, name="rude"):
    "A box that changes a limit of its process."
    claim = lambda self, pair: dpframe.PureDP(1.0)
    def release(self, rng, data):
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
        return float(data) + rng.laplace(scale=2.0)
"""


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpframe.pytest._workers", InProcessWorkers)
    sample_in_this_process(monkeypatch)


def cells_of(folder: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads((folder / "record.json").read_text())["cells"]
    for cell in cells:
        del cell["seconds"]
    return cells


@pytest.mark.parametrize("box", [BOX, '[[mechanism]]\nuse = "raises"\nraises = "answer"\n'])
def test_shards_of_black_boxes_are_merged(box: str, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC + box + JUDGED)
    (tmp_path / "odd.py").write_text(ODD)
    plugin = ("--plugin", "odd.py", "--quiet")
    for number in (1, 2):
        words = ("run", "spec.toml", "--shard", f"{number}/2", "--out", str(number), *plugin)
        done = dpframe(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = dpframe("merge", "2", "1", "--out", "merged", *plugin, cwd=tmp_path)
    whole = dpframe("run", "spec.toml", "--out", "whole", *plugin, cwd=tmp_path)
    assert done.returncode == whole.returncode, done.stderr
    assert cells_of(tmp_path / "merged") == cells_of(tmp_path / "whole")


def test_a_box_that_lowers_a_limit_fails_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # it would lower that of this process
    rude = '[[mechanism]]\nuse = "rude"\n'
    (tmp_path / "spec.toml").write_text(SPEC + rude + BOX + JUDGED)
    (tmp_path / "odd.py").write_text(ODD)
    words = ("run", "spec.toml", "--plugin", "odd.py", "--out", "run", "--quiet")
    done = dpframe(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [cell["status"] for cell in cells_of(tmp_path / "run")] == ["ok", "ok"]


GAUSSIAN = dp_accounting.GaussianDpEvent(1.0)
SPECIAL, RESIZED, REPLACED = (
    AccountedDP(GAUSSIAN, 1e-2, relation=one)
    for one in ("replace-special", "add-or-remove-one", "replace-one")
)
TABLE, SCHEMA = np.array([0.1, 0.5, -0.3]), [{"low": -1.0, "high": 1.0}]


def clipped_sum(rng: np.random.Generator, values: Any) -> float:
    return float(np.clip(np.nan_to_num(values), -1, 1).sum() + rng.normal())


@pytest.mark.parametrize(
    ("claim", "adjacency", "relation"),
    [
        (SPECIAL, "replace", "replace-special"),
        (SPECIAL, "add-remove", "replace-special"),
        (SPECIAL, "either", "replace-special"),
        (RESIZED, "replace", "add-or-remove-one"),
        (RESIZED, "either", "add-or-remove-one"),
        (RESIZED, "zero-out", "add-or-remove-one"),
        (REPLACED, "add-remove", "replace-one"),
        (REPLACED, "either", "replace-one"),
    ],
)
def test_neighbours_of_another_relation_are_refused(
    claim: AccountedDP, adjacency: str, relation: str
) -> None:
    with pytest.raises(DpframeError) as refused:
        search_violation(clipped_sum, TABLE, schema=SCHEMA, adjacency=adjacency, claim=claim)
    assert f"the claim is for neighbours by {relation}" in str(refused.value)
    assert f"adjacency: {adjacency}" in str(refused.value)


CLAIMS = """
import dp_accounting
import numpy as np
import dpframe

class Accounted(dpframe.HostMechanism, name="accounted"):
    "A sum with a claim of an accountant."
    relation: str
    "Neighbours of the claim."
    def claim(self, pair):
        return dpframe.AccountedDP(dp_accounting.GaussianDpEvent(1.0), 1e-2, self.relation)
    def release(self, rng, data):
        return float(np.sum(data) + rng.normal())
"""


@pytest.mark.parametrize(
    ("pairs", "relation"),
    [
        ('[pair]\nuse = "values"\nparams = { d0 = [0.5, 1.0], d1 = [0.5, -1.0], '
         'adjacency = "replace one record" }', "replace-special"),
        ('[pair]\nuse = "records"\nparams = { table = [0.5, 1.0], edit = { remove = 0 } }',
         "replace-one"),
        ('[search]\nuse = "records"\nparams = { table = [0.5, 1.0], adjacency = "either" }',
         "add-or-remove-one"),
    ],
)  # fmt: skip
def test_specs_of_another_relation_are_mistakes(pairs: str, relation: str, tmp_path: Path) -> None:
    (tmp_path / "claims.py").write_text(CLAIMS)
    audit = 'schema = 1\n[audit]\nname = "t"\ntrials = 1_000\n'
    box = f'\n[[mechanism]]\nuse = "accounted"\nparams.relation = "{relation}"\n'
    judged = JUDGED if pairs.startswith("[pair]") else ""
    (tmp_path / "spec.toml").write_text(audit + pairs + box + judged)
    done = dpframe("run", "spec.toml", "--plugin", "claims.py", "--quiet", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"the claim is for neighbours by {relation}" in done.stderr


@pytest.mark.parametrize(
    ("claim", "d0", "d1"),
    [
        (SPECIAL, [1.0, 2.0], [1.0]),
        (REPLACED, np.zeros(3), np.zeros(4)),
        (SPECIAL, [{"x": 1.0}, {"x": 2.0}], [{"x": 1.0}, {"x": -2.0}]),
        (RESIZED, [(1.0,), (2.0,)], [(1.0,), (-2.0,)]),
        (SPECIAL, (np.ones((2, 2)), np.zeros(2)), (np.array([[1, 1], [1, -1]]), np.zeros(2))),
    ],
)
def test_datasets_that_contradict_the_relation_are_refused(
    claim: AccountedDP, d0: Any, d1: Any
) -> None:
    with pytest.raises(DpframeError, match=r"it is for neighbours by .*, but D"):
        assert_dp(lambda rng, data: rng.normal(), d0=d0, d1=d1, claim=claim)
    if isinstance(d0, tuple) or isinstance(d0[0], dict | tuple):
        return
    with pytest.raises(DpframeError, match=r"it is for neighbours by .*, but D"):
        audit_training(lambda seed, *data: 0.0, ((d0, d0), (d1, d1)), models=40, claim=claim)


def test_a_replaced_entry_under_a_claim_of_added_records_is_asked_about() -> None:
    asked = "claim is for neighbours by add-or-remove-one .*one entry of D is replaced by another"
    claim = AccountedDP(dp_accounting.GaussianDpEvent(8.0))
    with pytest.raises(ViolationError, match=asked):
        assert_dp(clipped_sum, d0=[-1.0, 0.2], d1=[1.0, 0.2], claim=claim, trials=2_000)


def test_datasets_that_may_be_of_the_relation_are_not_refused() -> None:
    d0, d1 = (np.ones((2, 2)), np.zeros(2)), (np.array([[1, 1], [0, 0]]), np.zeros(2))
    found = assert_dp(lambda rng, data: rng.normal(), d0=d0, d1=d1, claim=SPECIAL, trials=500)
    assert found.cells[0].verdict != "violated"


def shuffled_epoch(rng: np.random.Generator, values: Any, *, good: bool = False) -> Any:
    """Five batches of two of ten records, shuffled, but accounted as Poisson samples."""
    v = np.clip(values, -1, 1)
    order = rng.permutation(len(v)).reshape(5, 2)
    sums = [v[rng.random(len(v)) < 0.2].sum() if good else v[one].sum() for one in order]
    return np.array(sums) + rng.normal(size=5)


@pytest.mark.slow
@pytest.mark.parametrize("good", [False, True])
def test_an_epoch_accounted_as_poisson_is_found_under_zero_out(good: bool) -> None:
    step = dp_accounting.PoissonSampledDpEvent(0.2, GAUSSIAN)
    claim = AccountedDP(dp_accounting.SelfComposedDpEvent(step, 5), 1e-2, "replace-special")
    asked: Any = {"schema": SCHEMA, "adjacency": "zero-out", "beyond": False, "claim": claim}
    release = functools.partial(shuffled_epoch, good=good)
    table = np.array([1.0] * 9 + [-1.0])
    if good:
        found = search_violation(release, table, **asked, trials=1_500)
        assert found.cells[0].verdict == "consistent"
        assert found.cells[0].pair.relation == "zero out one record"
        return
    with pytest.raises(ViolationError, match=r"zeroed out"):
        search_violation(release, table, **asked)


def test_the_null_record_may_be_given_and_is_needed_for_categories() -> None:
    def release(rng: np.random.Generator, rows: Any) -> float:
        return sum(row["age"] for row in rows if row["sex"] != "none") + rng.laplace(scale=90.0)

    table = [{"age": 31, "sex": "m"}, {"age": 47, "sex": "f"}]
    asked: Any = {"adjacency": "zero-out", "beyond": False, "epsilon": 1.0, "trials": 500}
    with pytest.raises(DpframeError, match=r"null: .*column sex has categories"):
        search_violation(release, table, **asked)
    null = {"age": 0, "sex": "none"}
    found = search_violation(release, table, **asked, null=null)
    pair = found.cells[0].pair
    assert pair.params["edit"]["by"] == [0, "none"]


def test_an_early_refutation_without_a_seed_is_confirmed() -> None:
    calls, lock = itertools.count(), threading.Lock()  # a lock keeps it in this process

    def leaks_at_first(data: Any) -> float:
        """Tell D from D′ in the first 40 releases on D′ only."""
        with lock:
            return float(data[0] == 1 and next(calls) < 40) + random.random() / 4

    with pytest.raises(UndecidedError, match="drift"):
        assert_dp(leaks_at_first, d0=[0], d1=[1], epsilon=0.5, trials=2_000)


def always_leaks(data: Any) -> float:
    return float(data[0]) + random.random() / 4


def test_a_leak_without_a_seed_is_confirmed_within_few_draws() -> None:
    with pytest.raises(ViolationError) as violated:
        assert_dp(always_leaks, d0=[0], d1=[1], epsilon=0.5, trials=20_000)
    cell = violated.value.record.cells[0]
    assert cell.trials[0] < 5_000
    assert not any("drift" in note for note in cell.estimate.notes)


def test_too_few_draws_to_confirm_are_said() -> None:
    with pytest.raises(ViolationError) as violated:
        assert_dp(always_leaks, d0=[0], d1=[1], epsilon=0.5, trials=40)
    notes = violated.value.record.cells[0].estimate.notes
    assert any("the black box takes no seed and may have drifted" in one for one in notes)


def leaks_twice(data: Any) -> float | str:
    if any(value != value for value in data):
        return "unknown"
    return random.random() - 1e6 * (max(data, default=0) > 1)


def test_a_confirmed_finding_does_not_end_a_search_for_more() -> None:
    table, asked = [0.1, 0.4, 0.9], {"schema": [(0, 1)], "adjacency": "replace", "epsilon": 1.0}
    with pytest.raises(ViolationError) as violated:
        search_violation(leaks_twice, table, **asked, findings=9, trials=2_500)  # type: ignore[arg-type]
    (cell,) = violated.value.record.cells
    assert len(cell.search.findings) == 1
    assert cell.search.coverage.ended_by == "trials"


METADATA = "Metadata-Version: 2.1\nName: odd-plugin\nVersion: 1.0\n"
POINTS = "[dpframe]\nodd = odd_plugin\n"


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"entry_points.txt": "[dpframe]\nodd = \xff"}, "entry_points.txt: UnicodeDecodeError"),
        ({"entry_points.txt": "[console_scripts]\nodd = \xff"}, "UnicodeDecodeError"),
        ({"entry_points.txt": "[dpframe]\nodd_plugin\n"}, "line 2, 'odd_plugin'"),
        ({"entry_points.txt": "[dpframe\nodd_plugin\n"}, "line 1, '[dpframe'"),
        ({"entry_points.txt": "[dpframe]\nodd =\n"}, "line 2, 'odd ='"),
        ({"entry_points.txt": "[dpframe]\nodd = a b:c:d\n"}, "line 2, 'odd = a b:c:d'"),
        ({"METADATA": METADATA + "Summary: \xff\n"}, "METADATA: UnicodeDecodeError"),
        ({"METADATA": "Metadata-Version: 2.1\nVersion: 1.0\n"}, "METADATA has no Name"),
        ({"METADATA": "Metadata-Version: 2.1\nName: odd-plugin\n"}, "METADATA has no Version"),
        ({"METADATA": ""}, "METADATA has no Name"),
    ],
)
def test_a_broken_distribution_is_a_line_in_plugins(
    files: dict[str, str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "odd_plugin-1.0.dist-info"
    info.mkdir()
    for name, text in ({"METADATA": METADATA, "entry_points.txt": POINTS} | files).items():
        (info / name).write_bytes(text.encode("latin-1"))
    (tmp_path / "odd_plugin.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DPFRAME_NO_PLUGINS", raising=False)
    done = worked("plugins", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "not loaded: odd_plugin 1.0, " in words
    assert named in words


def test_a_broken_distribution_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "odd_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_bytes(b"[console_scripts]\nodd = \xff\n")
    (tmp_path / "spec.toml").write_text(SPEC + BOX + JUDGED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DPFRAME_NO_PLUGINS", raising=False)
    done = worked("run", "spec.toml", "--out", "run", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_pair_without_memory_is_lost_and_no_other() -> None:
    def half_the_noise(rng: Any, values: Any) -> float:
        if np.isnan(values).any():
            raise MemoryError("a table of NaN")
        return float(np.clip(values, 0, 1).sum()) + rng.laplace(scale=0.6)

    with pytest.raises(ViolationError) as caught:
        search_violation(
            half_the_noise,
            np.array([0.1, 0.4, 0.9]),
            schema=[{"low": 0, "high": 1}],
            adjacency="add-remove",
            epsilon=1.0,
        )
    (cell,) = caught.value.record.cells
    assert cell.search.coverage.lost > 0
    assert "a table of NaN" in " ".join(cell.estimate.notes)
    assert "nan" not in str(caught.value)


def test_a_box_without_memory_at_any_pair_is_not_judged() -> None:
    def exhausted(rng: Any, values: Any) -> float:
        raise MemoryError(f"{len(values)} values")

    with pytest.raises(UndecidedError, match="MemoryError: 1 values"):
        assert_dp(exhausted, d0=[0.0], d1=[1.0], epsilon=1.0)
