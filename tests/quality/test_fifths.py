"""The fifths of the slow tests: together they are all of them, and a run says which one it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from quality import fifths, plant
from quality.mutants import MUTANTS
from support.processes import run
from support.tiers import mostly_slow

SUITE = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("number", range({count}))
def test_slow(number):
    pass

def test_quick():
    raise AssertionError
"""


def played(folder: Path, count: int, *options: str) -> tuple[int, str]:
    """Runs a suite with some slow tests, which loads the plugin as those of `plugins/` do."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\naddopts = -q -m 'not slow'\n")
    (folder / "test_them.py").write_text(SUITE.format(count=count))
    words = ("-m", "pytest", "-p", "no:dpframe", "-p", "no:cacheprovider", "-p", "fifths")
    done = run(*words, *options, cwd=folder, PYTHONPATH=str(Path(fifths.__file__).parent))
    return done.returncode, done.stdout


def test_the_fifth_of_a_name_is_the_same_everywhere() -> None:
    names = [f"tests/test_a.py::test_b[{n}]" for n in range(5)]
    assert [fifths.fifth_of(name) for name in names] == [4, 0, 3, 4, 3]
    names = [f"tests/test_a.py::test_{letter}" for letter in "abcde"]
    assert [fifths.fifth_of(name) for name in names] == [2, 4, 1, 4, 0]


def test_tests_that_share_a_fixture_share_a_fifth() -> None:
    for n in range(20):
        one, other = (fifths.fifth_of(f"tests/test_a.py::test_{name}[{n}]") for name in "bc")
        assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("processes", mostly_slow(["0", "2"], [0]))
def test_a_run_says_how_many_tests_of_how_many(processes: str, tmp_path: Path) -> None:
    mine = [n for n in range(20) if fifths.fifth_of(f"test_them.py::test_slow[{n}]") == 3]
    code, out = played(tmp_path, 20, "-m", "slow", "--fifth", "3", "-n", processes)
    assert code == 0
    assert f"fifth 3 (of 0 to 4): {len(mine)} of 20 tests" in out
    assert f"{len(mine)} passed" in out


@pytest.mark.slow
def test_a_fifth_without_tests_passes_and_a_suite_without_tests_does_not(tmp_path: Path) -> None:
    other = (fifths.fifth_of("test_them.py::test_slow[0]") + 1) % fifths.FIFTHS
    code, out = played(tmp_path, 1, "-m", "slow", "--fifth", str(other))
    assert (code, "0 of 1 tests" in out) == (0, True)
    code, _ = played(tmp_path, 0, "-m", "no_such_mark", "--fifth", "0")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.slow
def test_no_test_is_left_out_unless_a_fifth_is_asked_for(tmp_path: Path) -> None:
    code, out = played(tmp_path, 20, "-m", "slow")
    assert code == 0
    assert "20 passed" in out
    assert "fifth" not in out


def test_five_fifths_of_tests_are_all_of_them(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    chosen = [fifths.split(items, fifth) for fifth in range(fifths.FIFTHS)]
    assert sorted(item.nodeid for one, _ in chosen for item in one) == sorted(
        item.nodeid for item in items
    )
    for one, others in chosen:
        assert len(one) + len(others) == len(items)


def test_five_fifths_of_the_planted_mistakes_are_all_of_them() -> None:
    numbers = [number for fifth in range(fifths.FIFTHS) for number in plant.fifth(fifth)]
    assert sorted(numbers) == sorted({mutant.number for mutant in MUTANTS})
