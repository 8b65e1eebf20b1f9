"""Slips around runs: shards of black boxes, boxes that change their process, broken packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dpframe, worked

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


def test_a_box_that_lowers_a_limit_fails_no_other(tmp_path: Path) -> None:
    rude = '[[mechanism]]\nuse = "rude"\n'
    (tmp_path / "spec.toml").write_text(SPEC + rude + BOX + JUDGED)
    (tmp_path / "odd.py").write_text(ODD)
    words = ("run", "spec.toml", "--plugin", "odd.py", "--out", "run", "--quiet")
    done = dpframe(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [cell["status"] for cell in cells_of(tmp_path / "run")] == ["ok", "ok"]


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
