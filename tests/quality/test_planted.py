"""The mistakes of `plant.py`, which tries all of them, are still those that it means."""

from __future__ import annotations

import pytest
from quality.mutants import MUTANTS, Mutant
from quality.plant import FIFTHS, ROOT, fifth


def test_the_list_is_whole() -> None:
    assert {mutant.number for mutant in MUTANTS} == set(range(1, 56))
    assert {mutant.number for mutant in MUTANTS if mutant.calibrate} == {1, 3}


def test_the_fifths_are_all_of_them() -> None:
    numbers = [number for part in range(FIFTHS) for number in fifth(part)]
    assert sorted(numbers) == sorted({mutant.number for mutant in MUTANTS})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}, {mutant.name}")
def test_every_mistake_can_still_be_planted(mutant: Mutant) -> None:
    """So that a change of the source is followed here, long before any is planted."""
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
