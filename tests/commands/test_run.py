"""A run beside the record of an earlier one: taken as it is, gone on from, or not trusted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dpframe
from support.damage import damaged
from support.tiers import mostly_slow

from dpframe.results.model import Record
from dpframe.results.store import as_record, dumps

SPEC = """schema = 1
[audit]
name = "t"
trials = {trials}
seed = 3
[pair]
use = "zeros-ones"
params.dim = 4
[[mechanism]]
use = "dptext"
params.epsilon = 1.0
[[attack]]
use = "majority-vote"
[[attack]]
use = "identity"
[[estimator]]
use = "precision"
[[expect]]
where = {where}
verdict = "violated"
"""
VOTE = '{ attack = "majority-vote" }'


def run(directory: Path, trials: int = 4000, where: str = VOTE) -> tuple[int, str, str]:
    (directory / "spec.toml").write_text(SPEC.format(trials=trials, where=where))
    done = dpframe("run", "spec.toml", "--out", ".", cwd=directory)
    return done.returncode, done.stdout, done.stderr


def record(directory: Path) -> Record:
    return as_record(json.loads((directory / "record.json").read_text()))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    directory = tmp_path_factory.mktemp("finished")
    code, _, err = run(directory)
    assert (code, err) == (0, "")
    return directory, record(directory)


def test_what_was_run_is_read(finished: tuple[Path, Record]) -> None:
    directory, found = finished
    assert run(directory)[0] == 0
    assert record(directory) == found


DAMAGES: list[Callable[[dict[str, Any]], object]] = [
    lambda r: r["cells"].clear(),
    lambda r: r["cells"][0].pop("id"),
    lambda r: r["cells"].__setitem__(0, None),
    lambda r: r.update(cells=None),
    lambda r: r["cells"][0].update(trials="many"),
    lambda r: r["cells"][0].update(verdict="consistent", expected=None),
    lambda r: r["cells"][0].update(looks=[None]),
    lambda r: r["cells"][0].update(expected=None),
    lambda r: r["summary"].update(violated=0),
]


@pytest.mark.parametrize("number", mostly_slow(range(len(DAMAGES)), (0, 3, 6)))
def test_a_damaged_record_is_worked_out_anew(finished: tuple[Path, Record], number: int) -> None:
    directory, found = finished
    contents = json.loads(dumps(found))
    DAMAGES[number](contents)
    (directory / "record.json").write_text(json.dumps(contents))
    shown = dpframe("show", ".", cwd=directory)
    assert shown.returncode == 2
    code, _, err = run(directory)
    assert code == 0
    assert err.startswith(shown.stderr.strip())  # one damage, one name for it
    assert "computed again" in err
    assert same(record(directory), found)


def test_whatever_lies_there_a_run_ends_as_it_should(finished: tuple[Path, Record]) -> None:
    directory, found = finished
    whole = dumps(found)
    for seed in range(8):
        (directory / "record.json").write_bytes(damaged(whole, random.Random(seed)))
        code, _, err = run(directory)
        assert code == 0, (seed, err)
        assert same(record(directory), found), seed


def same(one: Record, other: Record) -> bool:
    """True if two records have the same content, costs aside."""
    zero = {"seconds": 0.0}
    return [cell.model_copy(update=zero) for cell in one.cells] == [
        cell.model_copy(update=zero) for cell in other.cells
    ]


def test_a_directory_in_the_place_of_the_record_is_said(tmp_path: Path) -> None:
    (tmp_path / "record.json").mkdir()
    code, _, err = run(tmp_path)
    assert code == 2
    assert "cannot write the record" in err


def test_an_expectation_on_a_skipped_cell_is_not_met(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, where="{}")
    assert code == 1
    text = " ".join(out.split())
    assert "identity · precision: expected violated, but skipped: identity: takes single" in text
    assert "Expectations: 1 of 2 met, 1 skipped." in text
    assert dpframe("show", ".", cwd=tmp_path).stdout == out


def test_a_run_of_nothing_is_no_success(tmp_path: Path) -> None:
    spec = SPEC.format(trials=100, where="{}").replace('[[attack]]\nuse = "majority-vote"\n', "")
    spec = spec.partition("[[expect]]")[0]
    (tmp_path / "spec.toml").write_text(spec)
    done = dpframe("run", "spec.toml", "--out", ".", cwd=tmp_path)
    assert done.returncode == 3
    assert "No claim was tested" in done.stdout
    assert record(tmp_path).skipped[0].reason.startswith("identity: takes single numbers")
