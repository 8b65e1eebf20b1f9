"""Every mistake that could make a wrong verdict is found by an ordinary test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from quality.mutants import MUTANTS, Mutant
from quality.plant import copied, survivor

if TYPE_CHECKING:
    from pathlib import Path


def test_the_list_is_whole() -> None:
    assert {mutant.number for mutant in MUTANTS} == set(range(1, 19))
    assert {mutant.number for mutant in MUTANTS if mutant.calibrate} == {1, 3, 7, 11, 14}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("copy") / "dpframe")


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}, {mutant.name}")
def test_a_planted_mistake_is_found(mutant: Mutant, copy: Path) -> None:
    assert survivor(mutant, copy) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}, {mutant.name}")
def test_every_mistake_can_still_be_planted(mutant: Mutant) -> None:
    """So that a change of the source is followed here, long before the slow tests run."""
    from quality.plant import ROOT

    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
