"""Every command of the gallery draws something."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
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
        few = [*few, "--set", "mechanism.epsilon=[0.1, 1.0]", "--set", "pair.dim=[1, 8]"]
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


@pytest.fixture
def pictures(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.delenv("FIFTH", raising=False)  # of CI
    yield importlib.import_module("pictures")
    sys.modules.pop("pictures", None)


def test_the_site_shows_a_picture_below_each_command(pictures, tmp_path, monkeypatch):
    """The figures of the whole gallery but training; the slow tier looks at their content."""
    drawn = []

    def answer(*words, codes):
        drawn.append(words)
        if words[0] != "run":
            Path(pictures._name(words)).write_text("<svg/>")
            return f"Table: 1\n{pictures._name(words)}: What is\nshown."
        return ""

    monkeypatch.setattr(pictures, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(pictures, "_dpframe", answer)
    shown = pictures.with_pictures(PAGE, PAGE)
    runs = {f"runs/{Path(spec).stem}" for spec in RUNS if not spec.startswith("plugins/")}
    plots = [words for words in COMMANDS if words[1] == "plot" and words[2] in runs]
    names = [words[words.index("-o") + 1] for words in plots]
    names.append("power.svg")  # of a plan
    found = re.findall(r"```{figure} (\S+)\n:alt: What is shown.\n", shown)
    assert sorted(Path(path).name for path in found) == sorted(names)
    kept = [tmp_path / "kept" / Path(path).relative_to("/_pictures") for path in found]
    assert all(path.is_file() for path in kept)
    before = len(drawn)
    assert pictures.with_pictures(PAGE, PAGE) == shown
    assert len(drawn) == before  # kept
    pictures.with_pictures(PAGE, PAGE + " ")
    assert len(drawn) == 2 * before
    assert not any(path.exists() for path in kept)  # older ones are not hoarded


def test_the_fifths_draw_the_whole_gallery_together(pictures, monkeypatch):
    ran = []
    monkeypatch.setattr(pictures, "_draw", lambda runs, plots, folder: ran.append(runs))
    monkeypatch.setattr(pictures, "_drawing", lambda page: [])
    for fifth in "01234":
        monkeypatch.setenv("FIFTH", fifth)
        assert not [*pictures.pictures(PAGE)]
    specs = [words[1] for part in ran for words in part]
    assert sorted(specs) == sorted(spec for spec in RUNS if not spec.startswith("plugins/"))
    assert all(ran)


def test_other_pages_show_the_same_pictures_under_their_own_names(pictures, monkeypatch):
    known = ("plot", "runs/a", "--kind", "scores")
    drawn = {known: pictures.Drawn("/_pictures/x/a.svg", "What is shown.")}
    monkeypatch.setattr(pictures, "pictures", lambda gallery: drawn.items())
    block = "```sh\ndpframe plot runs/a -o b.svg --kind {}\n```\n"
    assert "/_pictures/x/a.svg" in pictures.with_pictures(block.format("scores"), PAGE)
    for other in (block.format("profile"), "```sh\ndpframe plot runs/a\n```\n", "dpframe plot"):
        assert pictures.with_pictures(other, PAGE).strip() == other.strip()


def test_a_command_that_fails_fails_the_site(pictures):
    with pytest.raises(RuntimeError, match="plot nowhere"):
        pictures._dpframe("plot", "nowhere", codes=(0,))
