"""A time budget ends a cell, whichever of an author's methods hangs, and costs no other cell."""

from __future__ import annotations

import builtins
import importlib
import importlib.metadata
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.faulty_plugins import FAILED, MISTAKE, counting, of
from support.tiers import mostly_slow
from test_plugin_faults import Point, spec

import dpframe
from dpframe.common import machine
from dpframe.count import work
from dpframe.engine import schedule
from dpframe.errors import SpecError

HANG = "wait_for_the_end_of_the_test()"

AT_WORK = {
    "sample, while it is traced": of("mechanism", FAILED, "sample did not return", sample=HANG),
    "release, while it is traced": of("mechanism", FAILED, "did not", sample="", release=HANG),
    "may_be_nan": of("mechanism", FAILED, "may_be_nan did not return", may_be_nan=HANG),
    "rows": of("mechanism", FAILED, "rows did not return", rows=HANG),
    "truth": of("mechanism", FAILED, "truth did not return", truth=HANG),
    "score, while it is traced": of("attack", FAILED, "score did not return", score=HANG),
    "fit": of("attack", FAILED, "the time budget ran out.*; fit did not return", fit=HANG),
    "learns": of("attack", FAILED, "learns did not return", fit="return ()", learns=HANG),
    "unsuited": of("attack", FAILED, "unsuited did not return", unsuited=HANG),
    "statistic": of("estimator", FAILED, "statistic did not return", statistic=HANG),
    "bind": counting(FAILED, "; bind did not return", bind=HANG),
    "zero": counting(FAILED, "; zero did not return", zero=HANG),
    "update, while it is traced": counting(FAILED, "did not return|ended before", update=HANG),
    "describe": counting(FAILED, "describe did not return", describe=HANG),
    "estimate": of("estimator", FAILED, "estimate did not return", estimate=HANG),
    "extreme": of("estimator", FAILED, "extreme did not return", extreme=HANG),
    "certifies_against": of("estimator", FAILED, "certifies_against did", certifies_against=HANG),
}
IN_SPECS = {
    "check": of("attack", MISTAKE, "attack 'bad': check did not return", check=HANG),
    "resolve": of("mechanism", MISTAKE, "mechanism 'bad': resolve did not", resolve=HANG),
    "claim": of("mechanism", MISTAKE, "mechanism 'bad': claim did not return", claim=HANG),
    "D": of("pair", MISTAKE, "pair 'bad': D or D′ did not return", d0=HANG),
    "D′": of("pair", MISTAKE, "pair 'bad': D or D′ did not return", d1=HANG),
    "distance": of("pair", MISTAKE, "did not return", distance=HANG),
}


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Installs a plugin module, and lets go of what hangs in the end; nobody has much patience."""
    over = threading.Event()
    before = set(threading.enumerate())
    monkeypatch.setattr(builtins, "wait_for_the_end_of_the_test", over.wait, raising=False)
    monkeypatch.setattr(machine, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(work, "FIRST_OVERTIME_SECONDS", 0.5)
    monkeypatch.setattr(work, "OVERTIME_SECONDS", 0.5)
    monkeypatch.setattr(schedule, "FAREWELL_SECONDS", 0.05)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DPFRAME_NO_PLUGINS", raising=False)
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda *, group: [Point()] * (group == "dpframe")
    )

    def install(source: str) -> None:
        sys.modules.pop("bad_plugin", None)
        (tmp_path / "bad_plugin.py").write_text(source)
        importlib.invalidate_caches()

    yield install
    over.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
    sys.modules.pop("bad_plugin", None)


QUICK = ("sample, while it is traced", "fit", "estimate")
"""One for each place where a run waits for authors; the others are slow, since time has to pass."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in AT_WORK],
)
def test_a_method_that_hangs_fails_its_own_cells(name: str, hanging: Any) -> None:
    fault = AT_WORK[name]
    hanging(fault.source)
    document = spec(fault)
    document["run"]["seconds"] = 4.0 if name == "describe" else 1.0  # it is called after counting
    cells = dpframe.audit(document)["cells"]
    (own,) = [cell for cell in cells if cell[fault.kind]["use"] == "bad"]
    (other,) = [cell for cell in cells if cell is not own]
    assert (own["status"], own["verdict"]) == ("failed", None)
    assert re.search(fault.says, own["reason"]), own["reason"]
    assert other["status"] == "ok", other["reason"]
    assert other["trials"] == [256, 256]


@pytest.mark.parametrize("name", mostly_slow(IN_SPECS, (0,)))  # they need no programs
def test_a_method_that_hangs_before_there_are_cells_is_a_mistake(name: str, hanging: Any) -> None:
    fault = IN_SPECS[name]
    hanging(fault.source)
    document = spec(fault)
    document["run"]["seconds"] = 0.1
    with pytest.raises(SpecError) as caught:
        dpframe.audit(document)
    assert re.search(fault.says, str(caught.value)), str(caught.value)
