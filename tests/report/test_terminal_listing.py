"""Plugins, one plugin, a plan, and the progress display."""

import dataclasses
import io
import re

import pytest
from rich.console import Console

from dpframe.report.progress import ignore, run_progress
from dpframe.report.terminal.plan import render_plan
from dpframe.report.terminal.plugins import render_plugin, render_plugins


class Example:
    """Adds noise [bold]loudly[/bold].

    The second paragraph
    goes on.
    """


@dataclasses.dataclass
class Entry:
    kind: str
    name: str
    distribution: str = "dpframe"
    version: str = "0.1.0"
    cls: type = Example


@dataclasses.dataclass
class Broken:
    distribution: str = "acme"
    version: str = "2"
    what: str = "entry point 'acme'"
    error: str = "ImportError: no [red]torch"


@dataclasses.dataclass
class Parameter:
    name: str = "epsilon"
    type: str = "float"
    default: str = "required"
    bounds: str = "> 0"
    meaning: str = "The claim."


def printed(function, *arguments, width=80):
    console = Console(file=io.StringIO(), width=width, _environ={})
    function(*arguments, console)
    return console.file.getvalue()


def nothing(_):
    """Mechanisms and pairs exchange data of the listed kinds."""
    return {}


@pytest.mark.parametrize("width", [30, 60, 80, 140])
def test_names_of_plugins_are_whole_at_any_width(width):
    name = "a-mechanism-with-a-long-name"
    text = printed(render_plugins, [Entry("mechanism", name)], [], nothing, width=width)
    assert name in text
    assert max(map(len, text.splitlines())) <= width


def test_attacks_say_what_they_give_and_estimators_what_they_take():
    told = {"takes": ["decision", "score"], "bins": True, "raw_scores": True}
    sure = {"certifies": False, "assumption": "Gaussian scores"}
    said = {Example: told | sure | {"reference": "[Key2020, lemma 1]"}}
    entries = [Entry("estimator", "e")]
    wide = printed(render_plugins, entries, [], said.get, width=100)
    assert re.search(r"decisions, binned scores, raw scores +Adds noise", wide)
    narrow = printed(render_plugins, entries, [], said.get, width=25)
    assert "takes decisions, binned scores, raw scores" in " ".join(narrow.split())
    one = printed(render_plugin, entries[0], [], said[Example])
    assert "takes decisions, binned scores, raw scores\n" in one
    assert "certifies nothing; assumes Gaussian scores\nrests on [Key2020, lemma 1]\n" in one
    unknown = said[Example] | {"takes": None, "bins": None, "reference": None}
    assert "rests on" not in printed(render_plugin, entries[0], [], unknown)
    assert "takes not known" in printed(render_plugin, entries[0], [], unknown)
    attack = printed(render_plugins, [Entry("attack", "b")], [], lambda _: {"gives": "decision"})
    assert re.search(r"gives +what it is", attack)
    assert re.search(r"^b .* decisions ", attack, re.MULTILINE)
    many = printed(render_plugins, [Entry("attack", "b")], [], lambda _: {"gives": "canaries"})
    assert re.search(r"^b .* canaries ", many, re.MULTILINE)


def test_plugins():
    entries = [Entry("mechanism", "a"), Entry("attack", "b")]
    text = printed(render_plugins, entries, [Broken()], nothing)
    assert "Adds noise [bold]loudly[/bold]." in text
    assert "not loaded: acme 2, entry point 'acme': ImportError: no [red]torch" in text
    assert "second paragraph" not in text


def test_no_plugins():
    assert "no plugins" in printed(render_plugins, [], [], nothing)


def test_plugin():
    text = printed(render_plugin, Entry("mechanism", "a"), [Parameter()], {})
    assert "a · mechanism · dpframe 0.1.0" in text
    assert "The second paragraph goes on." in text
    for word in ("epsilon", "float", "required", "> 0", "The claim."):
        assert word in text
    assert "takes no parameters" in printed(render_plugin, Entry("mechanism", "a"), [], {})


@pytest.fixture
def plan():
    return {
        "name": "dptext",
        "cells": 252,
        "m": 252,
        "repeats": 1,
        "draw_groups": 36,
        "searches": 0,
        "draws": 720_000_000,
        "calls": 0,
        "memory_bytes": 300 * 2**20,
        "inconclusive": [{"reason": "laplace · precision: ε = 20", "cells": 6}],
        "power": [],
        "without_power": [],
        "confidence": 0.95,
        "multiplicity": "holm",
        "level": 0.05 / 252,
        "estimators": [
            {
                "label": "precision",
                "trials": 10_000_000,
                "delta": 0.0,
                "certifies": True,
                "assumption": "independent draws",
                "largest_epsilon": 13.8123,
                "largest_claim": 13.1,
            },
            {
                "label": "gdp-fit",
                "trials": 10_000_000,
                "delta": 1e-5,
                "certifies": False,
                "assumption": "Gaussian assumed",
                "largest_epsilon": None,
                "largest_claim": None,
            },
        ],
        "skipped": [{"reason": "laplace has no nan", "cells": 6}],
    }


def test_plan(plan):
    text = printed(render_plan, plan)
    assert "720 million, in 36 sets that cells share" in text
    assert "that cells share" not in printed(render_plan, plan | {"cells": 1, "draw_groups": 1})
    assert "2.0e-4 per cell (0.05 / 252; multiplicity holm)" in text
    assert "13.8  independent draws" in text
    assert "no bound" in text
    assert "? laplace · precision: ε = 20, 6 cells: could only be inconclusive" in text
    assert "skipped, 6 cells: laplace has no nan" in text


def test_plan_without_adjustment(plan):
    text = printed(render_plan, plan | {"multiplicity": "none", "level": 0.05})
    assert "Not adjusted for testing 252 claims" in text


def test_progress_is_silent_when_piped_or_quiet():
    piped = Console(file=io.StringIO())
    with run_progress(piped, 1, 1) as callback:
        callback(cells_done=1, draws_done=1, label="x")
    terminal = Console(file=io.StringIO(), force_terminal=True)
    with run_progress(terminal, 1, 1, quiet=True) as callback:
        assert callback is ignore
    assert piped.file.getvalue() == terminal.file.getvalue() == ""


@pytest.mark.parametrize("total", [100, 0])
def test_progress_shows_cells_and_leaves_nothing(total):
    environment = {"TERM": "xterm-256color"}
    console = Console(file=io.StringIO(), force_terminal=True, width=100, _environ=environment)
    with run_progress(console, 252, total) as callback:
        callback(cells_done=0, draws_done=10, label="first")
        callback(cells_done=7, draws_done=50, label="[red]adept")
        console.print("a message")
    text = console.file.getvalue()
    assert "a message" in text
    assert "\x1b[?25h" in text  # the cursor is back
