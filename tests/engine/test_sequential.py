"""Extending a run after its verdict was shown is a second look, and is paid for."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_audits import ROWS, Spy, Stop, document, load, small_segments

from dpframe.commands import run
from dpframe.engine.run import quiet
from dpframe.record.looks import Looks

N = 64 * ROWS + 7
ONE = {"mechanism": [{"use": "flip", "params": {"epsilon": 0.9}}]}
TWO = {"sweep": {"mechanism.epsilon": [0.5, 0.9]}}


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPFRAME_CACHE", "off")


def shown(
    directory: Path,
    trials: int,
    progress: Any = quiet,
    *,
    resume: bool = True,
    warn: Any = print,
    **tables: Any,
) -> list[dict[str, Any]]:
    """Runs in a directory; the cells of the record."""
    audit = {"trials": trials, **tables.pop("audit", {})}
    loaded = load(document(audit=audit, **{**ONE, **tables}))
    # What a file would give: the text is part of what makes a run the same run.
    digest = f"{sorted(audit.items())}{sorted(tables.items())}"
    loaded = type(loaded)(**{**vars(loaded), "source": loaded.source._replace(sha256=digest)})

    def display(cells: int, draws: int) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext(progress)

    record = run.run(loaded, run.Invocation(out=directory, resume=resume), display, warn)
    cells: list[dict[str, Any]] = record.as_dict()["cells"]
    return cells


def listed(cells: list[dict[str, Any]]) -> list[list[int]]:
    (looks,) = {str([look["trials"] for look in cell["looks"]]) for cell in cells}
    found: list[list[int]] = [look["trials"] for look in cells[0]["looks"]]
    assert str(found) == looks
    return found


def level(cells: list[dict[str, Any]]) -> float:
    (confidence,) = {cell["estimate"]["confidence"] for cell in cells}
    return float(1 - confidence)


def noted(cells: list[dict[str, Any]]) -> bool:
    return all(
        any("look 2 " in note or "look 3 " in note for note in cell["estimate"]["notes"])
        for cell in cells
    )


def test_the_first_look_pays_nothing(tmp_path: Path) -> None:
    cells = shown(tmp_path, N)
    assert listed(cells) == [[N, N]]
    assert level(cells) == pytest.approx(0.05)
    assert not noted(cells)
    assert cells[0]["p_adjusted"] == cells[0]["p_value"]


@pytest.mark.parametrize("multiplicity", ["holm", "bonferroni"])
def test_the_second_look_is_at_a_sixth(multiplicity: str, tmp_path: Path) -> None:
    tables = {**TWO, "audit": {"multiplicity": multiplicity, "confidence": 0.9}}
    first = shown(tmp_path, N, **tables)
    assert level(first) == pytest.approx(0.1 / 2)
    second = shown(tmp_path, 3 * N, **tables)
    assert [cell["trials"] for cell in second] == [[3 * N, 3 * N]] * 2
    assert listed(second) == [[N, N], [3 * N, 3 * N]]
    assert level(second) == pytest.approx(0.1 / (6 * 2))
    assert noted(second)
    third = shown(tmp_path, 4 * N, **tables)
    assert listed(third) == [[N, N], [3 * N, 3 * N], [4 * N, 4 * N]]
    assert level(third) == pytest.approx(0.1 / (12 * 2))


def test_the_price_is_in_the_adjusted_p_value(tmp_path: Path) -> None:
    shown(tmp_path, N)
    (direct,) = shown(tmp_path / "other", 3 * N)
    (second,) = shown(tmp_path, 3 * N)
    assert second["counts"] == direct["counts"]
    assert second["p_value"] == direct["p_value"] == direct["p_adjusted"]
    assert second["p_adjusted"] == pytest.approx(min(1.0, 6 * direct["p_value"]))
    assert second["p_adjusted"] > direct["p_adjusted"]
    assert second["estimate"]["epsilon_lower"] < direct["estimate"]["epsilon_lower"]


def test_repeating_an_earlier_look_keeps_its_number(tmp_path: Path) -> None:
    first = shown(tmp_path, N)
    shown(tmp_path, 3 * N)
    again = shown(tmp_path, N)
    assert level(again) == pytest.approx(0.05)
    assert listed(again) == [[N, N], [3 * N, 3 * N]]
    assert again[0]["counts"] == first[0]["counts"]
    assert again[0]["p_adjusted"] == first[0]["p_adjusted"]
    assert level(shown(tmp_path, 3 * N)) == pytest.approx(0.05 / 6)
    assert level(shown(tmp_path, 2 * N)) == pytest.approx(0.05 / 12)


def test_an_identical_run_is_read_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shown(tmp_path, N)
    spy = Spy(monkeypatch)
    before = (tmp_path / "record.json").stat().st_mtime_ns
    assert shown(tmp_path, N) == first
    assert spy.drawn == []
    assert (tmp_path / "record.json").stat().st_mtime_ns == before


def test_resuming_an_unfinished_run_is_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        shown(tmp_path, N, Stop(3))
    assert not (tmp_path / "record.json").exists()
    assert list((tmp_path / "checkpoint").glob("*.json"))
    cells = shown(tmp_path, N)
    assert listed(cells) == [[N, N]]
    assert level(cells) == pytest.approx(0.05)


def test_a_stopped_run_says_that_its_counts_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    small_segments(monkeypatch)
    monkeypatch.setattr(os, "fsync", no_space)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        shown(tmp_path, N, Stop(3), warn=said.append)
    assert len(said) == 1
    assert "cannot write the checkpoint: No space left" in said[0]


def test_an_extension_that_was_interrupted_is_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments(monkeypatch)
    shown(tmp_path, N)
    with pytest.raises(KeyboardInterrupt):
        shown(tmp_path, 3 * N, Stop(3))
    cells = shown(tmp_path, 3 * N)
    assert listed(cells) == [[N, N], [3 * N, 3 * N]]
    assert level(cells) == pytest.approx(0.05 / 6)


@pytest.mark.parametrize(
    "other",
    [
        {"audit": {"seed": 99}},
        {"mechanism": [{"use": "flip", "params": {"epsilon": 0.8}}]},
        {"run": {"chunk": 2 * ROWS}},
    ],
    ids=["seed", "parameter", "chunk"],
)
def test_other_draws_or_another_cell_are_no_look(other: dict[str, Any], tmp_path: Path) -> None:
    shown(tmp_path, N)
    cells = shown(tmp_path, 3 * N, **other)
    assert listed(cells) == [[3 * N, 3 * N]]
    assert level(cells) == pytest.approx(0.05)


def test_a_new_cell_beside_an_old_one_pays_for_itself(tmp_path: Path) -> None:
    shown(tmp_path, N, sweep={"mechanism.epsilon": [0.9]})
    new, old = shown(tmp_path, 3 * N, **TWO)
    assert [len(cell["looks"]) for cell in (new, old)] == [1, 2]
    assert new["estimate"]["confidence"] == pytest.approx(1 - 0.05 / 2)
    assert old["estimate"]["confidence"] == pytest.approx(1 - 0.05 / 12)


def test_fresh_forgets(tmp_path: Path) -> None:
    first = shown(tmp_path, N)
    cells = shown(tmp_path, 3 * N, resume=False)
    assert listed(cells) == [[3 * N, 3 * N]]
    assert cells[0]["draw_group"] == first[0]["draw_group"]


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    shown(tmp_path, N)
    (tmp_path / "record.json").write_text("{")
    assert listed(shown(tmp_path, 3 * N)) == [[3 * N, 3 * N]]


@given(st.integers(2, 10**6))
def test_all_later_looks_together_cost_half_of_the_first(number: int) -> None:
    assert Looks(((1, 1),) * (number - 1), number).price == number * (number + 1)
    assert Looks().price == 1
    # 1/(2·3) + … + 1/(k(k + 1)) = 1/2 − 1/(k + 1)
    spent = sum(1 / Looks((), k).price for k in range(2, min(number, 500) + 1))
    assert spent == pytest.approx(0.5 - 1 / (min(number, 500) + 1))
