"""Every rule of the boundary, broken: one clear line, and nobody else's cell is touched."""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import json
import re
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from support import command_line
from support.faults_at_work import RUNNING
from support.faults_of_loading import LOADING
from support.faults_of_specs import SPEC
from support.faulty_plugins import ATTACK, FAILED, FINE, HEAD, SKIPPED, Fault, of
from support.tiers import mostly_slow

import dpframe
from dpframe.common import text
from dpframe.common.text import escape
from dpframe.errors import SpecError
from dpframe.interfaces import registry
from dpframe.interfaces.estimator import exchange
from dpframe.report.terminal.plugins import render_plugins
from dpframe.report.terminal.render import render
from dpframe.results.store import as_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GOOD = {"mechanism": "laplace", "attack": "majority-vote", "estimator": "precision"}


class Point:
    """An entry point of a distribution that is not really installed."""

    name = value = "bad_plugin"
    dist = types.SimpleNamespace(name="bad-plugin", version="1.0")

    def load(self) -> Any:
        return importlib.import_module("bad_plugin")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a plugin module, as far as the registry can see."""

    def install(source: str) -> None:
        (tmp_path / "bad_plugin.py").write_text(source)
        importlib.invalidate_caches()

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DPFRAME_NO_PLUGINS", raising=False)
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda *, group: [Point()] * (group == "dpframe")
    )
    sys.modules.pop("bad_plugin", None)
    yield install
    sys.modules.pop("bad_plugin", None)


def spec(fault: Fault) -> dict[str, Any]:
    """A good plugin of each kind, and the bad one beside it, or as the pair."""
    params: dict[str, Any] = {"epsilon": 1.0}
    document: dict[str, Any] = {
        "schema": 1,
        "audit": {"name": "faults", "trials": 256},
        "pair": {"use": "zeros-ones"},
        "run": {"chunk": 128, "fit": 128, "pilot": 128},
    }
    for kind, use in GOOD.items():
        document[kind] = [{"use": use, **({"params": params} if kind == "mechanism" else {})}]
    if fault.kind == "pair":
        document["pair"] = {"use": "bad"}
    else:
        own = {"params": eval(f"dict({fault.params})")} if fault.params else {}
        document[fault.kind].append({"use": "bad", **own})
    return document


def clean(text: str, says: str) -> None:
    """Nothing in it harms a terminal, and it says what it should."""
    assert escape(text, "\n") == text
    assert "Traceback" not in text
    assert re.search(says, text), text


@pytest.mark.parametrize("name", LOADING)
def test_a_plugin_that_cannot_be_loaded_is_a_line(name: str, installed: Any) -> None:
    fault = LOADING[name]
    installed(fault.source)
    found = registry.load()
    assert found.find("mechanism", "laplace")
    assert len(found.broken) == 1
    (broken,) = found.broken
    assert broken.distribution == "bad-plugin"
    assert "\n" not in broken.error
    clean(f"{broken.what}: {broken.error}", fault.says)
    file = io.StringIO()
    render_plugins(found.entries, found.broken, exchange, Console(file=file, width=200))
    clean(file.getvalue(), "bad-plugin")


@pytest.mark.parametrize("name", SPEC)
def test_a_plugin_that_breaks_on_its_parameters_is_a_mistake(name: str, installed: Any) -> None:
    fault = SPEC[name]
    installed(fault.source)
    with pytest.raises(SpecError) as caught:
        dpframe.audit(spec(fault))
    clean(str(caught.value), fault.says)


@pytest.mark.parametrize("name", mostly_slow(RUNNING, range(0, len(RUNNING), 5)))
def test_a_plugin_that_breaks_at_work_fails_its_own_cells(name: str, installed: Any) -> None:
    fault = RUNNING[name]
    installed(fault.source)
    record = dpframe.audit(spec(fault))
    mine = [c for c in record["cells"] if c[fault.kind]["use"] == "bad"]
    others = [c for c in record["cells"] if c[fault.kind]["use"] != "bad"]
    assert [cell["status"] for cell in others] == ["ok"]
    if fault.outcome == SKIPPED:
        (skip,) = record["skipped"]
        clean(skip["reason"], fault.says)
    else:
        (cell,) = mine
        assert cell["status"] == {FAILED: "failed", FINE: "ok"}[fault.outcome]
        if fault.outcome == FAILED:
            assert "\n" not in cell["reason"]
            clean(cell["reason"], fault.says)
    file = io.StringIO()
    render(as_record(record), Console(file=file, width=200))
    clean(file.getvalue(), "faults")


TOML = """\
schema = 1
[audit]
name = "faults"
trials = 256
[pair]
use = "zeros-ones"
[[mechanism]]
use = "laplace"
params.epsilon = 1.0
[[mechanism]]
use = "bad"
[[attack]]
use = "majority-vote"
[[estimator]]
use = "precision"
"""


@pytest.mark.parametrize("asked", [False, True])
def test_the_whole_traceback_is_there_for_the_asking(
    asked: bool, installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(text.SWITCH, "0")  # put back afterwards
    monkeypatch.setattr(text, "_printed", set())
    installed(RUNNING["sample raises"].source)
    (tmp_path / "spec.toml").write_text(TOML)
    done = command_line.dpframe(
        "run", "spec.toml", "--quiet", *(["--traceback"] if asked else []), cwd=tmp_path
    )
    assert done.returncode == 3
    assert ("Traceback" in done.stderr) == asked
    assert "Traceback" not in done.stdout
    said = " ".join(done.stdout.split())
    assert re.search(r"sample raised ZeroDivisionError: .* \(bad_plugin\.py:\d+\)", said)


@pytest.mark.slow
def test_a_box_that_ends_its_process_costs_one_cell(installed: Any, tmp_path: Path) -> None:
    """Exit code 3, as for whatever else fails a cell; the other one is in the record."""
    installed(of("host", FAILED, "", sample="__import__('os')._exit(0)").source)
    (tmp_path / "spec.toml").write_text(TOML)
    done = command_line.dpframe("run", "spec.toml", "--quiet", "--json", cwd=tmp_path)
    assert done.returncode == 3
    fine, ended = json.loads(done.stdout)["cells"]
    assert (fine["status"], fine["trials"]) == ("ok", [256, 256])
    assert ended["reason"] == "a worker process ended with exit code 0 while it sampled"


MIXED = """\
class Own(Pair, name="own"):
    adjacency = "replace one record"
    gap: float = 1.0

    @property
    def d0(self): return np.zeros(2)

    @property
    def d1(self): return np.full(2, self.gap)

dpframe_pairs = hookimpl(lambda: [Own])
"""
EQUAL_ONCE = (
    TOML.replace('use = "zeros-ones"', 'use = "own"')
    .replace('use = "bad"\n', 'use = "random-output"\nparams.epsilon = 1.0\n')
    .replace("params.epsilon = 1.0\n", "params = { epsilon = 1.0, sensitivity = 1.0 }\n", 1)
)


def test_cells_of_equal_datasets_are_skipped_and_said(installed: Any, tmp_path: Path) -> None:
    """A sweep may pass a value at which nothing differs; an expectation there is never met."""
    installed(HEAD + MIXED)
    reason = "D and D′ are equal, so there is nothing to test"
    swept = EQUAL_ONCE + '[sweep]\n"pair.gap" = [0.0, 1.0]\n'
    (tmp_path / "spec.toml").write_text(swept)
    checked = command_line.dpframe("check", "spec.toml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "2 cells, 2 skipped" in checked.stdout
    assert f"2 skipped: {reason}" in checked.stdout
    record = dpframe.audit(tmp_path / "spec.toml")
    assert [cell["swept"]["pair.gap"] for cell in record["cells"]] == [1.0, 1.0]
    assert [(skip["swept"], skip["reason"]) for skip in record["skipped"]] == [
        ({"pair.gap": 0.0}, reason)
    ] * 2
    expected = '[[expect]]\nwhere = { "pair.gap" = 0.0 }\nverdict = "consistent"\n'
    (tmp_path / "spec.toml").write_text(swept + expected)
    checked = command_line.dpframe("check", "spec.toml", cwd=tmp_path)
    assert checked.returncode == 2
    (tmp_path / "spec.toml").write_text(EQUAL_ONCE + '[sweep]\n"pair.gap" = [0.0]\n')
    checked = command_line.dpframe("check", "spec.toml", cwd=tmp_path)
    assert checked.returncode == 2
    assert checked.stderr.count(reason) == 1
    assert "no cell is left" in checked.stderr


def test_two_distributions_with_one_name_need_the_longer_one(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = HEAD + ATTACK + "dpframe_attacks = hookimpl(lambda: [Bad])\n"
    installed(source)
    (tmp_path / "worse_plugin.py").write_text(source)

    class Second(Point):
        dist = types.SimpleNamespace(name="worse-plugin", version="1.0")

        def load(self) -> Any:
            return importlib.import_module("worse_plugin")

    points = [Point(), Second()]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda *, group: points * (group == "dpframe")
    )
    fault = Fault("attack", "", "", "")
    with pytest.raises(SpecError, match="choose one of: bad-plugin/bad, worse-plugin/bad"):
        dpframe.audit(spec(fault))
    document = spec(fault)
    document["attack"][1]["use"] = "worse-plugin/bad"
    assert len(dpframe.audit(document)["cells"]) == 2
    sys.modules.pop("worse_plugin")
