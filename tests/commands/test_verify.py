"""`dpframe verify` accepts honest runs, and finds forged blocks, counts and numbers."""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process
from support.command_line import dpframe

from dpframe.commands import run as running
from dpframe.commands.audit import load
from dpframe.commands.verify import NOT_CHOSEN, OTHER_BLOCKS, Verified, verify
from dpframe.count.checkpoint import BLOCKS, read_entries, write_entries
from dpframe.engine.run import quiet
from dpframe.errors import DpframeError
from dpframe.results import store as records
from dpframe.results.strict_json import digest_of
from dpframe.results.verdict import judged

SPEC = """
schema = 1
audit = { name = "verified", trials = 2100 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace" }]
attack = [{ use = "identity" }, { use = "majority-vote" }]
estimator = [{ use = "order-statistics" }, { use = "precision" }]
run = { chunk = 64, pilot = 200 }
sweep = { "mechanism.epsilon" = [1.0] }
"""

UNSEEDED = """
import numpy as np
import dpframe


class Coin(dpframe.HostMechanism, name="coin"):
    "Randomized response of a generator of its own."

    seedable = False

    def claim(self, pair):
        return dpframe.PureDP(2.0)

    def sample(self, rng, data, n):
        own = np.random.default_rng()
        honest = own.random((n, 1)) < 0.7
        return np.where(honest, data, 1 - data).astype(np.float32)
"""


def made(folder: Path, text: str = SPEC, blocks: int = 16, **how: Any) -> Path:
    """Run a spec and return the directory of the run."""
    folder.mkdir(exist_ok=True)
    spec = folder / "spec.toml"
    spec.write_text(text)
    invocation = running.Invocation(out=folder / "run", blocks=blocks)

    @contextlib.contextmanager
    def display(_cells: int, _draws: int) -> Any:
        yield quiet

    running.run(load(spec, **how), invocation, display)
    return folder / "run"


def checked(directory: Path, share: float = 0.1, **how: Any) -> Verified:
    return verify(directory, share, None, lambda path, given: load(path, given, **how))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("honest"))


@pytest.fixture
def copied(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "run")
    return tmp_path / "run"


def altered(directory: Path, change: Any) -> None:
    """Change a record, and sign it as its writer would."""
    file = directory / records.NAME
    contents = json.loads(file.read_text())
    change(contents)
    record = records.as_record(contents)
    cells = judged(record.cells, record.summary.m, record.audit.multiplicity)
    contents = record.model_copy(update={"cells": cells}).as_json()
    file.write_text(json.dumps({**contents, "digest": digest_of(contents)}))


def blocks(directory: Path) -> list[Path]:
    return sorted((directory / BLOCKS).glob("*.json"))


def test_an_honest_run_agrees(honest: Path) -> None:
    found = checked(honest)
    assert found.differences == []
    assert found.unchecked == {}
    assert len(found.checked) == 2
    # 2100 trials are 32 whole chunks, in 16 windows, and a tail, which is drawn again anyway.
    assert (found.blocks, found.drawn) == (16, 2)
    assert f"1 % with probability {1 - 0.99**2:.3g}" in "\n".join(found.lines())


def test_counts_with_blocks_are_those_without(honest: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "other", blocks=0)
    one, two = (records.load(directory) for directory in (honest, other))
    assert [cell.counts for cell in one.cells] == [cell.counts for cell in two.cells]


@pytest.mark.slow
def test_without_blocks_passes_are_drawn_again_as_a_whole(tmp_path: Path) -> None:
    text = SPEC.replace("2100", "2100, repeats = 3")
    directory = made(tmp_path, text, blocks=0)
    found = checked(directory, share=0.5)
    assert (found.blocks, found.drawn, len(found.checked)) == (3, 2, 4)
    assert found.differences == []
    assert set(found.unchecked.values()) == {NOT_CHOSEN}
    assert "2 cells NOT CHECKED" in "\n".join(found.lines())

    def change(contents: Any) -> None:
        for cell in contents["cells"]:
            if len(cell["counts"][0]) == 2:
                cell["counts"][0] = cell["counts"][0][::-1]

    altered(directory, change)
    assert any(": counts" in each for each in checked(directory, share=0.5).differences)


def test_blocks_are_made_for_a_run_that_is_complete_without(tmp_path: Path) -> None:
    made(tmp_path / "run", blocks=0)
    assert checked(made(tmp_path / "run", blocks=4)).blocks == 4


def test_a_forged_block_is_found_if_it_is_drawn(copied: Path) -> None:
    file = blocks(copied)[0]
    entries = read_entries(file)
    assert entries is not None
    same = [key for key in entries if len(entries[key].leaves[0][0]) == 2]
    # The sum stays as it was, so that nothing but the draws can tell.
    for key, step in zip(same[:2], (1, -1), strict=True):
        row = entries[key].leaves[0][0]
        row[0], row[1] = row[0] + step, row[1] - step
    write_entries(file, entries)
    found = checked(copied, share=1.0)
    assert found.drawn == found.blocks
    assert len(found.differences) == 2
    assert all("chunks" in each for each in found.differences)
    assert checked(copied, share=0.0).drawn == 1  # at least one


def test_draws_that_were_joined_in_one_window_are_always_drawn_again(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forger could join most draws in one block of several, which a small share hardly meets."""
    file = blocks(copied)[0]
    entries = read_entries(file)
    assert entries is not None
    for key in {name.partition("@")[0] for name in entries}:
        last = f"{key}@30-32"
        for start in range(8, 30, 2):
            part = entries.pop(f"{key}@{start}-{start + 2}")
            both = zip(entries[last].leaves, part.leaves, strict=True)
            leaves = [np.add(one, other).tolist() for one, other in both]
            entries[last] = entries[last]._replace(leaves=leaves)
        entries[f"{key}@8-32"] = entries.pop(last)
    write_entries(file, entries)
    verifying = importlib.import_module("dpframe.commands.verify")
    drawn, draw = [], verifying._draw

    def drawing(work: Any, chunks: range, *more: Any) -> None:
        drawn.append(chunks)
        draw(work, chunks, *more)

    monkeypatch.setattr(verifying, "_draw", drawing)
    for _ in range(4):
        found = checked(copied, share=0.0)
        assert (found.blocks, found.drawn, found.differences) == (5, 1, [])
        assert drawn[0] == range(8, 32)
        assert len(drawn) == 2
        drawn.clear()


def test_forged_counts_are_found_without_drawing_them(copied: Path) -> None:
    def change(contents: Any) -> None:
        rows = next(c for c in contents["cells"] if len(c["counts"][0]) == 2)["counts"]
        rows[0][0], rows[0][1] = rows[0][0] - 5, rows[0][1] + 5

    altered(copied, change)
    assert any(": counts" in each for each in checked(copied).differences)


@pytest.mark.parametrize("name", ["epsilon_lower", "p_value", "profile"])
def test_forged_numbers_are_found(copied: Path, name: str) -> None:
    def change(contents: Any) -> None:
        cell = contents["cells"][0]
        if name == "epsilon_lower":
            cell["estimate"].update(epsilon_lower=0.05, profile_lower=[])
            cell["slack"] = None
        elif name == "p_value":
            cell.update(p_value=cell["p_value"] * 0.99)
        else:
            cell["statistic"]["edges"][3] += 1e-3

    altered(copied, change)
    assert checked(copied).differences


def test_a_cell_that_the_spec_has_not_is_found(copied: Path) -> None:
    def change(contents: Any) -> None:
        contents["cells"][0]["id"] = "another"

    altered(copied, change)
    found = checked(copied)
    assert any(each.startswith("cell: another") for each in found.differences)
    assert len(found.differences) == 2  # the one that is missing too


def test_blocks_of_other_numbers_are_not_believed(copied: Path) -> None:
    file = blocks(copied)[0]
    entries = read_entries(file)
    assert entries is not None
    key = next(key for key in entries if len(entries[key].leaves[0][0]) == 2)
    entries[key] = entries[key]._replace(leaves=[[[-1, 129], [0, 128]]])
    write_entries(file, entries)
    with pytest.raises(DpframeError, match="impossible counts"):
        checked(copied)


def test_a_missing_block_is_named(copied: Path) -> None:
    file = blocks(copied)[0]
    entries = read_entries(file)
    assert entries is not None
    write_entries(file, {key: entry for key, entry in entries.items() if "@0-" not in key})
    with pytest.raises(DpframeError, match="chunks 0 to 1 are in no"):
        checked(copied)


def test_blocks_of_another_code_leave_their_cells_unchecked(copied: Path) -> None:
    file = blocks(copied)[0]
    entries = read_entries(file)
    assert entries is not None
    write_entries(file, {"x" + key[1:]: entry for key, entry in entries.items()})
    found = checked(copied)
    assert (found.differences, found.checked) == ([], set())
    assert set(found.unchecked.values()) == {OTHER_BLOCKS}


@pytest.mark.parametrize("number", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_damaged_folders_are_reported(copied: Path, number: int) -> None:
    rng = random.Random(24)
    files = [copied / records.NAME, *blocks(copied), copied / "looks.jsonl"]
    kept = {file: file.read_bytes() for file in files}
    for _ in range(number):
        file = rng.choice(files)
        content = bytearray(kept[file])
        for _ in range(rng.choice((1, 30))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        file.write_bytes(content[: rng.choice((len(content), len(content) // 2))])
        with contextlib.suppress(DpframeError):
            checked(copied, share=0.0)
        file.write_bytes(kept[file])


def test_another_spec_is_refused(copied: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(SPEC + "\n# changed\n")
    with pytest.raises(DpframeError, match="not the spec of this record"):
        verify(copied, 0.1, other, load)


@pytest.mark.usefixtures("coarse_bounds")
def test_bets_are_made_again_from_the_first_draw(tmp_path: Path) -> None:
    text = SPEC.replace(
        '[{ use = "order-statistics" }, { use = "precision" }]', '[{ use = "betting" }]'
    )
    directory = made(tmp_path / "bets", text.replace("2100", "300"))
    found = checked(directory)
    assert (found.blocks, found.drawn, len(found.checked)) == (1, 1, 2)
    assert (found.differences, found.unchecked) == ([], {})

    def change(contents: Any) -> None:
        contents["cells"][0]["estimate"]["wealth"][-1][1] += 0.01

    altered(directory, change)
    assert any("wealth" in each for each in checked(directory).differences)


def test_fresh_draws_of_a_box_without_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)
    monkeypatch.setattr(
        "dpframe.commands.verify.FALSE_ALARM", 1e-6
    )  # each test run tosses new coins
    plugin = tmp_path / "coin.py"
    plugin.write_text(UNSEEDED)
    text = """
        schema = 1
        audit = { name = "coin", trials = 480 }
        pair = { use = "zeros-ones" }
        mechanism = [{ use = "coin" }]
        attack = [{ use = "majority-vote" }]
        estimator = [{ use = "precision" }]
    """
    directory = made(tmp_path / "coin", text, plugins=[plugin])
    found = checked(directory, 0.5, plugins=[plugin])
    assert (found.differences, found.unchecked) == ([], {})
    assert (len(found.checked), found.blocks) == (1, 0)

    def change(contents: Any) -> None:
        contents["cells"][0]["counts"] = [[120, 360], [360, 120]]

    altered(directory, change)
    found = checked(directory, 0.5, plugins=[plugin])
    assert len(found.differences) == 2


def test_the_command(honest: Path) -> None:
    done = dpframe("verify", honest, "--share", "0.05", cwd=honest)
    assert done.returncode == 0, done.stderr
    assert "1 of 16 blocks drawn again" in done.stdout
    assert "2 cells checked" in done.stdout
    assert dpframe("verify", "none", cwd=honest).returncode == 2
