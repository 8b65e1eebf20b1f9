"""Results are those of before: runs, encodings and keys in tests/golden."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from golden import runs
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("usual_chunks")

SOME = (
    ROOT / "specs" / "quick.toml",
    ROOT / "plugins" / "dpframe-textbook" / "specs" / "search-stability.toml",
)


def differences_of(spec) -> list[str]:
    if plugin := runs.missing_plugin(spec):
        pytest.skip(f"{plugin} is not installed")
    return runs.compare(spec.stem, runs.run(spec))


@pytest.mark.parametrize("spec", SOME, ids=lambda spec: spec.stem)
def test_a_spec_finds_what_it_found(spec) -> None:
    assert differences_of(spec) == []


@pytest.mark.parametrize("name", runs.OTHERS)
def test_codes_and_keys_are_what_they_were(name) -> None:
    make, _ = runs.OTHERS[name]
    assert runs.compare(name, make()) == []


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest) -> list[str]:
    """Return the differences of all specs that are asked for.

    One process compares them. It is not this one, because it sets XLA's flags before JAX starts.
    """
    asked = [
        item.callspec.params["spec"]
        for item in request.session.items
        if item.path == request.path and "told" in item.fixturenames
    ]
    specs = [spec for spec in asked if not runs.missing_plugin(spec)]
    if not specs:
        return []
    script = [sys.executable, str(runs.GOLDEN / "runs.py"), *map(str, specs)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    *lines, last = done.stdout.splitlines() or [""]
    assert last.endswith(f" of {len(specs)} specs: {len(lines)} differences"), done.stderr
    assert sum(len(lines_of(spec, lines)) for spec in specs) == len(lines), lines
    return lines


def lines_of(spec: Path, lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith((f"{spec.stem} |", f"{spec.stem}:"))]


def some(specs: Sequence[Path]) -> Any:
    return pytest.mark.parametrize(
        "spec", [s for s in specs if s not in SOME], ids=lambda s: s.stem
    )


@pytest.mark.slow
@some(runs.BUILTIN)
def test_every_spec_finds_what_it_found(spec, told) -> None:
    assert lines_of(spec, told) == []


@pytest.mark.slow
@some([*runs.TEXTBOOK, *runs.DPSGD])
def test_every_spec_of_a_plugin_finds_what_it_found(spec, told) -> None:
    if plugin := runs.missing_plugin(spec):
        pytest.skip(f"{plugin} is not installed; .ci/run extras has it")
    assert lines_of(spec, told) == []


def test_a_difference_is_told_with_its_place() -> None:
    stored = {"cells": {"a": {"counts": [1, 2], "p_value": 0.5, "trials": [5, 5]}}, "seed": 0}
    now = {"cells": {"a": {"counts": [1, 3], "p_value": 0.5 + 1e-12, "trials": [5]}}, "seed": 0.0}
    assert runs.differences(stored, now, 1e-9) == [
        "cells | a | counts | 1: stored 2, now 3",
        "cells | a | trials: stored [5, 5], now [5]",
        "seed: stored 0, now 0.0",
    ]
    assert len(runs.differences(stored, now, 0.0)) == 4


def test_the_last_digit_of_a_score_in_an_event_may_differ() -> None:
    def told(*events: str) -> int:
        return len(runs.differences(*({"witness": event} for event in events), 1e-9))

    assert told("scores 0.0389456 or more", "scores 0.0389457 or more") == 0
    assert told("scores 0.0389456 or more", "scores 0.0389468 or more") == 1
    assert told("scores 0.0389456 or more", "scores 0.0389456 or less") == 1
    assert told("entry 3 is 1", "entry 2 is 1") == 1


def test_a_cell_that_is_gone_or_new_is_told() -> None:
    told = runs.differences({"cells": {"a": 1}}, {"cells": {"b": 1}}, 1e-9)
    assert told == ['cells | a: stored 1, now "absent"', 'cells | b: stored "absent", now 1']
