"""Every command of the gallery draws something."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support import ROOT
from support.command_line import dpframe as command

from dpframe.report.figures.gallery import KINDS

PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line) for line in re.findall(r"^dpframe .*$", PAGE, flags=re.MULTILINE)]
RUNS = list(dict.fromkeys(words[2] for words in COMMANDS if words[1] == "run"))

TRAINED_LITTLE = (
    *("audit.trials=60", "run.pilot=30", "mechanism.width=8", "pair.records=40"),
    *("mechanism.steps=3", "mechanism.batch=10"),
)


def test_every_kind_is_in_the_gallery_and_every_run_is_drawn():
    shown = {words[words.index("--kind") + 1] for words in COMMANDS if "--kind" in words}
    assert shown == set(KINDS)
    for spec in RUNS:
        assert (ROOT / spec).is_file()
    drawn = {words[2] for words in COMMANDS if words[1] == "plot"}
    assert drawn == {"runs/" + re.search(r"([^/]*)\.toml", spec)[1] for spec in RUNS}


@pytest.mark.slow
@pytest.mark.parametrize("spec", RUNS)
def test_the_commands_work(spec, tmp_path):
    name = re.search(r"([^/]*)\.toml", spec)[1]
    few = ["--trials", "4000"]
    if name == "dptext-decided":  # the page draws one of 42 settings
        few = [*few, "--set", "mechanism.epsilon=[1.0]", "--set", "pair.dim=[8]"]
    if spec.startswith("plugins/"):
        pytest.importorskip("dpframe_dpsgd")
        few = [word for change in TRAINED_LITTLE for word in ("--set", change)]
        few = [*few, *(["--set", "run.fit=30"] if name in ("figure-08", "figure-10") else [])]
    few = [*few, "--out", f"runs/{name}", "--quiet"]
    for folder in ("specs", "plugins"):  # numbers from elsewhere lie beside the specs
        (tmp_path / folder).symlink_to(ROOT / folder)
    done = command("run", ROOT / spec, *few, cwd=tmp_path)
    assert done.returncode in {0, 1}, done.stderr
    for words in COMMANDS:
        if words[1] == "plot" and words[2] == f"runs/{name}":
            done = command(*words[1:], cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            assert (tmp_path / words[words.index("-o") + 1]).stat().st_size > 5_000


def test_every_command_below_the_introduction_has_its_picture_on_the_page():
    parts = PAGE.partition("## The loss over a sweep")[2]
    drawn = re.findall(r"(?:-o|--report) (\S+\.svg)", parts)
    shown = [Path(name) for name in re.findall(r"\]\(images/(\S+\.svg)\)", parts)]
    assert sorted(path.name for path in shown) == sorted(set(drawn))
    folder = ROOT / "docs" / "images"
    assert all((folder / path).stat().st_size > 5_000 for path in shown)
    kept = {path.relative_to(folder) for path in (folder / "gallery").iterdir()}
    assert kept <= set(shown)
