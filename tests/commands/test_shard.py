"""Parts of a run: whatever order they come in, their sum is the run; and nothing else is summed."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dpframe

SPEC = """schema = 1
[audit]
name = "t"
trials = 5_005
seed = 3
[pair]
use = "zeros-ones"
params.dim = 2
[[mechanism]]
use = "laplace-half-scale"
params.epsilon = 1.0
[[attack]]
use = "logistic"
[[estimator]]
use = "order-statistics"
[[estimator]]
use = "betting"
[run]
fit = 500
pilot = 500
chunk = 256
"""
SEARCH = """schema = 1
[audit]
name = "s"
trials = 6_000
[search]
use = "patterns"
params = { length = 2, low = 0.0, high = 1.0 }
[[mechanism]]
use = "laplace-half-scale"
params = { epsilon = 1.0, sensitivity = 1.0 }
[[mechanism]]
use = "laplace"
params = { epsilon = 1.0, sensitivity = 2.0 }
"""
PARTS = 3


def call(*words: Any, cwd: Path) -> tuple[int, str]:
    done = dpframe(*map(str, words), "--quiet", cwd=cwd)
    return done.returncode, done.stdout + done.stderr


def told(directory: Path) -> Any:
    """A record without what differs from run to run."""
    found = json.loads((directory / "record.json").read_text())
    del found["digest"], found["summary"]["seconds"], found["summary"]["peak_rss_bytes"]
    for cell in found["cells"]:
        cell.pop("seconds"), cell.pop("estimate_seconds", None)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, coarse_bounds_of_module: None) -> Path:
    """All shards of one run, and the run itself."""
    place = tmp_path_factory.mktemp("shards")
    (place / "spec.toml").write_text(SPEC)
    for number in range(1, PARTS + 1):
        words = ("run", "spec.toml", "--shard", f"{number}/{PARTS}", "--out", f"{number}")
        code, printed = call(*words, cwd=place)
        assert (code, f"shard {number}/{PARTS} is counted" in printed) == (0, True), printed
    assert call("run", "spec.toml", "--out", "whole", cwd=place)[0] == 1
    return place


def test_shards_in_any_order_are_the_run(place: Path) -> None:
    order = random.Random(5).sample(range(1, PARTS + 1), PARTS)
    code, printed = call("merge", *order, "--out", "merged", cwd=place)
    assert code == 1, printed  # as the run's: a claim is violated
    assert told(place / "merged") == told(place / "whole")
    assert "violated" in printed


def test_a_shard_counts_its_part_and_judges_nothing(place: Path) -> None:
    assert not (place / "1" / "record.json").exists()
    entries = {}
    for number in range(1, PARTS + 1):
        for file in (place / f"{number}" / "checkpoint").glob("*.json"):
            entries.update(json.loads(file.read_text())["entries"])
    windows = {key.partition("@")[2] for key in entries if "@" in key}
    assert windows == {"0-6", "6-12", "12-19"}
    # One of the cell that bets, in the shard that holds its rounds.
    assert sum(key.startswith("rounds-") for key in entries) == 1


def test_a_killed_shard_goes_on(place: Path, tmp_path: Path) -> None:
    """With counts of a part of its chunks, it comes to the same."""
    shutil.copytree(place / "2", tmp_path / "2")
    manifest = json.loads((tmp_path / "2" / "shard.json").read_text())
    assert manifest["complete"]
    for file in (tmp_path / "2" / "checkpoint").glob("*.json"):
        file.unlink()
        break
    shutil.copy(place / "spec.toml", tmp_path)
    assert call("run", "spec.toml", "--shard", "2/3", "--out", "2", cwd=tmp_path)[0] == 0
    for file in (place / "2" / "checkpoint").glob("*.json"):
        assert (tmp_path / "2" / "checkpoint" / file.name).read_text() == file.read_text()


def refused(place: Path, *shards: Any) -> str:
    code, printed = call("merge", *shards, "--out", "none", cwd=place)
    assert code == 2
    assert not (place / "none" / "record.json").exists()
    return printed


def rewritten(folder: Path, to: Path, **content: Any) -> Path:
    """Return a shard with another manifest, as another machine would have written it."""
    from dpframe.results.strict_json import digest_of

    shutil.copytree(folder, to)
    manifest = {**json.loads((to / "shard.json").read_text()), **content}
    del manifest["digest"]
    (to / "shard.json").write_text(json.dumps({**manifest, "digest": digest_of(manifest)}))
    return to


def test_counts_of_other_code_are_not_judged_here(place: Path, tmp_path: Path) -> None:
    """All shards agree with each other, and not with this machine."""
    manifest = json.loads((place / "1" / "shard.json").read_text())
    others = {
        "versions": ({**manifest["versions"], "jax": "0.0.1"}, "versions (jax)"),
        "plugins": (
            [{**manifest["plugins"][0], "code": "0"}, *manifest["plugins"][1:]],
            f"the code of plugins ({manifest['plugins'][0]['name']})",
        ),
    }
    for key, (other, says) in others.items():
        shards = [
            rewritten(place / f"{number}", tmp_path / f"{key}{number}", **{key: other})
            for number in range(1, PARTS + 1)
        ]
        assert f"the shards differ from this machine in {says}" in refused(place, *shards)


def test_what_is_no_whole_run_is_refused(place: Path, tmp_path: Path) -> None:
    assert "of 3 shards 1 are missing: 2" in refused(place, 1, 3)
    assert "are both shard 1/3" in refused(place, 1, 2, 3, 1)
    assert "has no shard" in refused(place, 1, 2, "whole")

    def changed(name: str, **content: Any) -> Path:
        return rewritten(place / "3", tmp_path / name, **content)

    manifest = json.loads((place / "3" / "shard.json").read_text())
    versions = {**manifest["versions"], "jax": "0.0.1"}
    plugins = [{**manifest["plugins"][0], "code": "0"}, *manifest["plugins"][1:]]
    spec = {**manifest["spec"], "sha256": "0"}
    assert "versions (jax)" in refused(place, 1, 2, changed("jax", versions=versions))
    assert "the code of plugins (" in refused(place, 1, 2, changed("code", plugins=plugins))
    assert "differ in the seed" in refused(place, 1, 2, changed("seed", seed=4))
    assert "differ in the spec" in refused(place, 1, 2, changed("spec", spec=spec))
    assert "not complete" in refused(place, 1, 2, changed("half", complete=False))
    assert "cut in the same way" in refused(place, 1, 2, changed("cut", shard=[3, 4]))
    altered = changed("altered")
    (altered / "shard.json").write_text((altered / "shard.json").read_text().replace("3", "4", 1))
    assert "shard.json: was altered" in refused(place, 1, 2, altered)


def test_gaps_and_overlaps_are_refused(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "2", tmp_path / "2")
    for file in (tmp_path / "2" / "checkpoint").glob("*.json"):
        file.unlink()
    assert "are in no shard" in refused(place, 1, tmp_path / "2", 3)
    for file in (place / "2" / "checkpoint").glob("*.json"):
        content = json.loads(file.read_text())
        other = {key.replace("@6-12", "@5-12"): entry for key, entry in content["entries"].items()}
        from dpframe.draw.streams import digest

        content |= {"entries": other, "digest": digest(other, 16)}
        (tmp_path / "2" / "checkpoint" / file.name).write_text(json.dumps(content))
    assert "chunks from 5 on are in two shards" in refused(place, 1, tmp_path / "2", 3)


@pytest.mark.parametrize("words", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_a_shard_is_one_of_several(place: Path, words: str) -> None:
    code, printed = call("run", "spec.toml", f"--shard={words}", cwd=place)
    assert (code, "should be the number of the shard" in printed) == (2, True)


def test_a_directory_holds_one_shard(place: Path) -> None:
    assert call("run", "spec.toml", "--shard", "1/3", "--out", "whole", cwd=place)[0] == 2
    assert call("run", "spec.toml", "--shard", "2/3", "--out", "1", cwd=place)[0] == 2


@pytest.mark.slow
def test_searches_go_to_one_shard_each(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SEARCH)
    for number in (1, 2):
        assert (
            call("run", "spec.toml", "--shard", f"{number}/2", "--out", number, cwd=tmp_path)[0]
            == 0
        )
    whole = call("run", "spec.toml", "--out", "whole", cwd=tmp_path)
    merged = call("merge", 2, 1, "--out", "merged", cwd=tmp_path)
    assert whole[0] == merged[0]
    assert told(tmp_path / "merged") == told(tmp_path / "whole")
