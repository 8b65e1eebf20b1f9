"""Extending a run after its verdict was shown is a second look, and is paid for."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import sys
import types
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st
from support.black_boxes import sample_in_this_process
from support.searches import Three
from support.small_audits import PLUGINS, ROWS, Spy, Stop, document, load, small_segments
from support.tiers import mostly_slow

from dpframe import (
    DecisionCounts,
    Estimate,
    Estimator,
    Gt,
    HostMechanism,
    Mechanism,
    Pair,
    PureDP,
    Statistic,
    clopper_pearson_upper,
    host_mechanism,
)
from dpframe.commands import run
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.streams import digest
from dpframe.engine.ledger import NAME, Ledger, Question
from dpframe.engine.run import quiet
from dpframe.errors import OutputError
from dpframe.interfaces.plugin_files import CODE
from dpframe.results.verdict import Looks

pytestmark = pytest.mark.usefixtures("coarse_bounds")

N = 12 * ROWS + 7
ONE = {"mechanism": [{"use": "flip", "params": {"epsilon": 0.9}}]}
TWO = {"sweep": {"mechanism.epsilon": [0.5, 0.9]}}


class Unclaimed(Mechanism, name="unclaimed"):
    """Claims nothing."""

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + jax.random.uniform(key, (n, *data.shape))


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPFRAME_CACHE", "off")


def shown(
    directory: Path,
    trials: int,
    progress: Any = quiet,
    *,
    resume: bool = True,
    warn: Any = print,
    plugins: list[Any] = PLUGINS,
    **tables: Any,
) -> list[dict[str, Any]]:
    """Runs in a directory; the cells of the record."""
    audit = {"trials": trials, **tables.pop("audit", {})}
    tables = {**ONE, **tables}
    content = {name: table for name, table in document(audit=audit, **tables).items() if table}
    loaded = load(content, plugins)
    # As from a file: the text is part of the identity of a run.
    digest = f"{sorted(audit.items())}{sorted(tables.items())}"
    loaded = type(loaded)(**{**vars(loaded), "source": loaded.source._replace(sha256=digest)})

    def display(cells: int, draws: int) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext(progress)

    record = run.run(loaded, run.Invocation(out=directory, resume=resume), display, warn)
    cells: list[dict[str, Any]] = record.as_dict()["cells"]
    return cells


def listed(cells: list[dict[str, Any]]) -> list[list[int]]:
    (looks,) = {str([look["trials"] for look in cell["looks"]]) for cell in cells}
    found: list[list[int]] = [look["trials"] for look in cells[0]["looks"]]
    assert str(found) == looks
    return found


def level(cells: list[dict[str, Any]]) -> float:
    (confidence,) = {cell["estimate"]["confidence"] for cell in cells}
    return float(1 - confidence)


def noted(cells: list[dict[str, Any]]) -> bool:
    return all(
        any("look 2 " in note or "look 3 " in note for note in cell["estimate"]["notes"])
        for cell in cells
    )


def test_the_first_look_pays_nothing(tmp_path: Path) -> None:
    cells = shown(tmp_path, N)
    assert listed(cells) == [[N, N]]
    assert level(cells) == pytest.approx(0.05)
    assert not noted(cells)
    assert cells[0]["p_adjusted"] == cells[0]["p_value"]


@pytest.mark.parametrize("multiplicity", ["holm", "bonferroni"])
def test_the_second_look_is_at_a_sixth(multiplicity: str, tmp_path: Path) -> None:
    tables = {**TWO, "audit": {"multiplicity": multiplicity, "confidence": 0.9}}
    first = shown(tmp_path, N, **tables)
    assert level(first) == pytest.approx(0.1 / 2)
    second = shown(tmp_path, 3 * N, **tables)
    assert [cell["trials"] for cell in second] == [[3 * N, 3 * N]] * 2
    assert listed(second) == [[N, N], [3 * N, 3 * N]]
    assert level(second) == pytest.approx(0.1 / (6 * 2))
    assert noted(second)
    third = shown(tmp_path, 4 * N, **tables)
    assert listed(third) == [[N, N], [3 * N, 3 * N], [4 * N, 4 * N]]
    assert level(third) == pytest.approx(0.1 / (12 * 2))


def test_the_price_is_in_the_adjusted_p_value(tmp_path: Path) -> None:
    shown(tmp_path, N)
    (direct,) = shown(tmp_path / "other", 3 * N)
    (second,) = shown(tmp_path, 3 * N)
    assert second["counts"] == direct["counts"]
    assert second["p_value"] == direct["p_value"] == direct["p_adjusted"]
    assert second["p_adjusted"] == pytest.approx(min(1.0, 6 * direct["p_value"]))
    assert second["p_adjusted"] > direct["p_adjusted"]
    assert second["estimate"]["epsilon_lower"] < direct["estimate"]["epsilon_lower"]


def test_bets_may_go_on_and_another_question_is_another_look(tmp_path: Path) -> None:
    bets = {"estimator": [{"use": "betting"}]}
    first = shown(tmp_path, N, **bets)
    longer = shown(tmp_path, 3 * N, **bets)
    assert level(first) == level(longer) == pytest.approx(0.05)
    assert not noted(longer)
    (other,) = shown(tmp_path, 3 * N, audit={"delta": 0.01}, **bets)
    assert level([other]) == pytest.approx(0.05 / 6)
    assert other["basis"]["look"] == 2
    assert other["looks"] is None  # for any number of trials
    assert noted([other])
    (fresh,) = shown(tmp_path / "other", 3 * N, audit={"delta": 0.01}, **bets)
    assert other["p_value"] == fresh["p_value"]
    assert other["p_adjusted"] == pytest.approx(min(1.0, 6 * fresh["p_adjusted"]))
    assert level(shown(tmp_path, 4 * N, **bets)) == pytest.approx(0.05)


def test_repeating_an_earlier_look_keeps_its_number(tmp_path: Path) -> None:
    first = shown(tmp_path, N)
    shown(tmp_path, 3 * N)
    again = shown(tmp_path, N)
    assert level(again) == pytest.approx(0.05)
    assert listed(again) == [[N, N], [3 * N, 3 * N]]
    assert again[0]["counts"] == first[0]["counts"]
    assert again[0]["p_adjusted"] == first[0]["p_adjusted"]
    assert level(shown(tmp_path, 3 * N)) == pytest.approx(0.05 / 6)
    assert level(shown(tmp_path, 2 * N)) == pytest.approx(0.05 / 12)


def test_an_identical_run_is_read_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shown(tmp_path, N)
    spy = Spy(monkeypatch)
    before = (tmp_path / "record.json").stat().st_mtime_ns
    assert shown(tmp_path, N) == first
    assert spy.drawn == []
    assert (tmp_path / "record.json").stat().st_mtime_ns == before


def test_resuming_an_unfinished_run_is_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        shown(tmp_path, N, Stop(3))
    assert not (tmp_path / "record.json").exists()
    assert list((tmp_path / "checkpoint").glob("*.json"))
    cells = shown(tmp_path, N)
    assert listed(cells) == [[N, N]]
    assert level(cells) == pytest.approx(0.05)


def test_a_stopped_run_says_that_its_counts_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    small_segments(monkeypatch)
    monkeypatch.setattr(os, "fsync", no_space)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        shown(tmp_path, N, Stop(3), warn=said.append)
    assert len(said) == 1
    assert "cannot write the checkpoint: No space left" in said[0]


def test_an_extension_that_was_interrupted_is_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments(monkeypatch)
    shown(tmp_path, N)
    with pytest.raises(KeyboardInterrupt):
        shown(tmp_path, 3 * N, Stop(3))
    cells = shown(tmp_path, 3 * N)
    assert listed(cells) == [[N, N], [3 * N, 3 * N]]
    assert level(cells) == pytest.approx(0.05 / 6)


def test_another_seed_is_no_look(tmp_path: Path) -> None:
    shown(tmp_path, N)
    cells = shown(tmp_path, 3 * N, audit={"seed": 99})
    assert listed(cells) == [[3 * N, 3 * N]]
    assert level(cells) == pytest.approx(0.05)


CHANGING = """
import jax
import numpy as np
from dpframe import HostMechanism, Mechanism, PureDP

class Box(HostMechanism, name="changing"):
    def claim(self, pair):
        return PureDP(CLAIM)

    def sample(self, rng, data, n):
        return data + rng.normal(scale=SCALE, size=(n, *np.shape(data)))

class Traced(Mechanism, name="changing-traced"):
    def claim(self, pair):
        return PureDP(CLAIM)

    def sample(self, key, data, n):
        return data + SCALE * jax.random.normal(key, (n, *data.shape))
"""


def changing(monkeypatch: pytest.MonkeyPatch, **constants: float) -> list[Any]:
    """A plugin module, as its author changes it between runs."""
    module = types.ModuleType("changing_plugin")
    values = {"CLAIM": 0.3, "SCALE": 1.0, **constants}
    vars(module).update({CODE: digest(values), **values})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(CHANGING, vars(module))
    return [*PLUGINS, Three, vars(module)["Box"], vars(module)["Traced"]]


CHANGES: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "code": ({"SCALE": 2.0}, {}),
    "claim": ({"CLAIM": 0.4}, {}),
    "precision": ({}, {"run": {"precision": "float64"}}),
    "chunk": ({}, {"run": {"chunk": 2 * ROWS}}),
    "prng": ({}, {"run": {"prng": "threefry2x32"}}),
    "multiplicity": ({}, {"audit": {"multiplicity": "bonferroni"}}),
    "confidence": ({}, {"audit": {"confidence": 0.9}}),
    "delta": ({}, {"audit": {"delta": 0.01}}),
    "trials": ({}, {"trials": 160}),
    "stop": ({}, {"run": {"stop": "decided"}}),
    "nothing": ({}, {}),
    "fresh": ({}, {"resume": False}),
}
GOES_ON = {
    "precision": {"nothing", "fresh"},
    "betting": {"nothing", "fresh", "trials", "stop"},
    "search": {"nothing", "fresh"},
}


EDITED = [
    (what, mechanism, how)
    for what, mechanism, how in itertools.product(CHANGES, ("changing", "changing-traced"), GOES_ON)
    # An estimator that does not bet refuses `stop`; a box draws the same in every precision.
    if (what, how) != ("stop", "precision")
    and (what not in ("precision", "prng") or mechanism != "changing" or how == "search")
]
# Bets and searches ask the same ledger: by default only what they answer differently.
OWN = {"code", "nothing", "trials", "stop", "precision"}
QUICK = [
    n
    for n, (what, of, how) in enumerate(EDITED)
    if (of == "changing" and (how == "precision" or what in OWN))
    or (what, how) == ("precision",) * 2
]
"""Ledgers do not know who draws."""


@pytest.mark.parametrize(("what", "mechanism", "how"), mostly_slow(EDITED, QUICK))
def test_no_second_look_is_free(
    what: str, mechanism: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was changed: the same answer again, bets that go on, or another look."""
    sample_in_this_process(monkeypatch)
    base: dict[str, Any] = {"mechanism": [{"use": mechanism}], "plugins": changing(monkeypatch)}
    if how == "search":
        base |= {"search": {"use": "three"}, "attack": [{"use": "logistic"}], "pair": None}
        base |= {"estimator": None}
    else:
        base |= {"estimator": [{"use": how}]}
    code, edit = CHANGES[what]
    (first,) = shown(tmp_path, **{"trials": 320, **base})
    assert first["status"] == "ok", first["reason"]
    plugins = changing(monkeypatch, **code)
    (second,) = shown(tmp_path, **{"trials": 320, **base, **edit, "plugins": plugins})
    looks = [cell["basis"]["look"] for cell in (first, second)]
    assert looks == [1, 1 if what in GOES_ON[how] else 2]
    factor = 2 if what == "confidence" else 1
    assert level([second]) == pytest.approx(level([first]) * factor / (1, 6)[looks[1] - 1])
    if looks[1] == 1 and what in ("nothing", "fresh"):
        assert [second[key] for key in ANSWER] == [first[key] for key in ANSWER]
    elif looks[1] == 2:
        assert any("start again in a new folder" in note for note in second["estimate"]["notes"])
    base["plugins"] = changing(monkeypatch)
    (third,) = shown(tmp_path, **{"trials": 320, **base})
    assert third["basis"]["look"] == 1
    assert [third[key] for key in ANSWER] == [first[key] for key in ANSWER]


@pytest.mark.parametrize("how", ["precision", "betting", "search"])
@pytest.mark.parametrize("mechanism", mostly_slow(["changing", "changing-traced"], ("changing",)))
def test_draws_that_nothing_told_to_be_others_are_a_look(
    mechanism: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that a mechanism calls was changed: no digest knows, but what is drawn does."""
    sample_in_this_process(monkeypatch)
    tables: dict[str, Any] = {"mechanism": [{"use": mechanism}], "estimator": [{"use": how}]}
    if how == "search":
        tables |= {"search": {"use": "three"}, "attack": [{"use": "logistic"}], "pair": None}
        tables["estimator"] = None
    found = []
    for scale in (1.0, 1.5, 1.0, 1.5):
        plugins = changing(monkeypatch, SCALE=scale)
        vars(sys.modules["changing_plugin"])[CODE] = "unchanged"
        (cell,) = shown(tmp_path, 320, plugins=plugins, resume=False, **tables)
        found.append(cell)
    assert [cell["basis"]["look"] for cell in found] == [1, 2, 1, 2]
    assert [level([cell]) for cell in found] == pytest.approx([0.05, 0.05 / 6] * 2)
    for key in ANSWER:
        assert (found[0][key], found[1][key]) == (found[2][key], found[3][key])


PARAMETER = {"mechanism": [{"use": "flip", "params": {"epsilon": 0.8}}]}
QUESTIONS: dict[str, dict[str, Any]] = {
    "parameter of the mechanism": PARAMETER,
    "attack": {"attack": [{"use": "majority-vote"}]},
    "parameter of the attack": {"attack": [{"use": "above", "params": {"threshold": 0.6}}]},
    "estimator": {"estimator": [{"use": "totals"}]},
    "a higher confidence": {"audit": {"confidence": 0.99}},
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_another_question_to_the_same_draws_is_a_look(what: str, tmp_path: Path) -> None:
    """Somebody who has seen the draws chooses the question; the number of trials need not
    change."""
    first = shown(tmp_path, N)
    cells = shown(tmp_path, N, **QUESTIONS[what])
    assert cells[0]["draw_group"] == first[0]["draw_group"]
    assert listed(cells) == [[N, N]] * 2
    error = 1 - QUESTIONS[what].get("audit", {}).get("confidence", 0.95)
    assert level(cells) == pytest.approx(error / 6)
    (again,) = shown(tmp_path, N)
    assert [again[key] for key in ANSWER] == [first[0][key] for key in ANSWER]


ANSWER = ("estimate", "p_value", "p_adjusted", "verdict", "reason")


SAME: dict[str, dict[str, Any]] = {
    "label": {"mechanism": [{**ONE["mechanism"][0], "label": "renamed"}]},
    "title": {"audit": {"name": "another"}},
    "expectation": {"expect": [{"where": {"mechanism": "flip"}, "verdict": "consistent"}]},
    "learning that nobody does": {"run": {"fit": 10, "pilot": 10}},
}


@pytest.mark.parametrize("what", SAME)
def test_the_same_question_is_no_look(what: str, tmp_path: Path) -> None:
    shown(tmp_path, N)
    cells = shown(tmp_path, N, **SAME[what])
    assert listed(cells) == [[N, N]]
    assert not noted(cells)


@pytest.mark.parametrize(
    "between",
    mostly_slow(
        [
            {"audit": {"seed": 99}},
            {"mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}]},
            {"mechanism": [{**ONE["mechanism"][0], "label": "renamed"}]},
            PARAMETER,
        ],
        (0, 3),
    ),
    ids=["seed", "mechanism", "label", "parameter"],
)
def test_what_was_run_in_between_resets_nothing(between: dict[str, Any], tmp_path: Path) -> None:
    shown(tmp_path, N)
    shown(tmp_path, N, **between)
    looks = listed(shown(tmp_path, 3 * N))
    assert looks[0] == [N, N]
    assert looks[-1] == [3 * N, 3 * N]
    assert len(looks) == (3 if between is PARAMETER else 2)


def test_cells_without_a_claim_and_without_a_bound_are_looked_at_too(tmp_path: Path) -> None:
    tables = {"mechanism": [{"use": "unclaimed"}], "estimator": [{"use": "positions"}]}
    for number in range(1, 5):
        cells = shown(tmp_path, number * N, plugins=[*PLUGINS, Unclaimed], **tables)
        assert len(listed(cells)) == number
    cells = shown(tmp_path, 5 * N, plugins=[*PLUGINS, Unclaimed], mechanism=tables["mechanism"])
    assert len(listed(cells)) == 5
    assert level(cells) == pytest.approx(0.05 / 30)


def test_a_new_cell_beside_an_old_one_asks_the_same_draws(tmp_path: Path) -> None:
    shown(tmp_path, N, sweep={"mechanism.epsilon": [0.9]})
    assert level(shown(tmp_path, N, **TWO)) == pytest.approx(0.05 / 12)
    assert level(shown(tmp_path, 3 * N, **TWO)) == pytest.approx(0.05 / 24)


def test_a_question_with_fewer_beside_it_is_a_look(tmp_path: Path) -> None:
    """Or the one of many cells that looked best would be judged as if it had been alone."""
    shown(tmp_path, N, **TWO)
    cells = shown(tmp_path, N)
    assert level(cells) == pytest.approx(0.05 / 6)


def test_fresh_forgets_counts_and_no_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shown(tmp_path, N)
    spy = Spy(monkeypatch)
    again = shown(tmp_path, N, resume=False)
    assert len(spy.whole_chunks()) == 2 * (N // ROWS)
    assert (listed(again), level(again)) == (listed(first), level(first))
    cells = shown(tmp_path, 3 * N, resume=False)
    assert listed(cells) == [[N, N], [3 * N, 3 * N]]


def test_looks_that_only_the_record_knows_of_count(tmp_path: Path) -> None:
    """The ledger was lost."""
    shown(tmp_path, N)
    shown(tmp_path, 2 * N)
    (tmp_path / NAME).unlink()
    cells = shown(tmp_path, 3 * N)
    assert listed(cells) == [[N, N], [2 * N, 2 * N], [3 * N, 3 * N]]


def test_looks_do_not_depend_on_the_record(tmp_path: Path) -> None:
    shown(tmp_path, N)
    (tmp_path / "record.json").write_text("{")
    assert listed(shown(tmp_path, 3 * N)) == [[N, N], [3 * N, 3 * N]]


def test_a_run_that_ended_early_has_shown_other_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments(monkeypatch)
    cells = shown(tmp_path, N, run={"seconds": 1e-9})
    assert cells[0]["trials"][0] < N
    assert listed(shown(tmp_path, N)) == [cells[0]["trials"], [N, N]]


def test_a_black_box_without_a_seed_has_other_draws_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)
    tables: Any = {"mechanism": [{"use": "unseeded"}], "plugins": [*PLUGINS, unseeded()]}
    shown(tmp_path, N, **tables)
    assert len(listed(shown(tmp_path, N, **tables))) == 1
    assert len(listed(shown(tmp_path, N, resume=False, **tables))) == 2


def unseeded(*, seedable: bool = False) -> Any:
    return host_mechanism(
        lambda rng, data, n: (
            data + (rng if seedable else np.random.default_rng()).normal(size=(n, *np.shape(data)))
        ),
        name="unseeded",
        claim=PureDP(1.0),
        seedable=seedable,
    )


@pytest.mark.parametrize(
    ("longer", "looks"),
    mostly_slow(
        [
            ({"trials": 112}, [1, 1, 1]),
            ({"trials": 112, "resume": False}, [1, 2, 2]),
            ({"trials": 80, "resume": False}, [1, 2, 2]),
            ({"trials": 112, "audit": {"seed": 99}}, [1, 2, 2]),
            ({"trials": 112, "run": {"chunk": 8}}, [1, 2, 2]),
            ({"trials": 100}, [1, 1, 2]),
        ],
        (0, 3, 5),
    ),
    ids=["goes on", "fresh", "fresh, as long", "seed", "chunk", "cut"],
)
def test_bets_on_a_box_without_a_seed_go_on_or_are_another_look(
    longer: dict[str, Any], looks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)
    tables: dict[str, Any] = {
        "mechanism": [{"use": "unseeded"}],
        "plugins": [*PLUGINS, unseeded()],
        "estimator": [{"use": "betting"}],
        "run": {"chunk": 16},
    }
    # Rounds end at 80, 112 and 128 for either size of a chunk, so that none is cut.
    told = [{"trials": 80}, longer, {**longer, "trials": 128, "resume": True}]
    found = [shown(tmp_path, **{**tables, **one}) for one in told]
    assert [cell["basis"]["look"] for (cell,) in found] == looks
    price = [1.0 if look == 1 else look * (look + 1.0) for look in looks]
    assert [level(cells) for cells in found] == pytest.approx([0.05 / one for one in price])


def test_bets_on_a_box_with_a_seed_go_on_wherever_they_were_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)
    tables: dict[str, Any] = {
        "mechanism": [{"use": "unseeded"}],
        "plugins": [*PLUGINS, unseeded(seedable=True)],
        "estimator": [{"use": "betting"}],
    }
    for trials in (75, 300, 330):
        (cell,) = shown(tmp_path, trials, **tables)
        assert cell["basis"]["look"] == 1


def test_bets_without_a_seed_that_showed_nothing_may_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)
    tables: dict[str, Any] = {
        "mechanism": [{"use": "unseeded"}],
        "plugins": [*PLUGINS, unseeded()],
        "estimator": [{"use": "betting"}],
        "run": {"chunk": 16},
    }
    with pytest.raises(KeyboardInterrupt):
        shown(tmp_path, 128, Stop(0), **tables)
    (cell,) = shown(tmp_path, 128, resume=False, **tables)
    assert cell["basis"]["look"] == 1


def test_a_run_on_data_that_have_changed_is_another(tmp_path: Path) -> None:
    """Its spec and its code are the same."""
    file = tmp_path / "table.txt"

    class Table(Pair, name="table"):
        adjacency = "replace the table"

        @property
        def d0(self) -> Any:
            return np.zeros(1)

        @property
        def d1(self) -> Any:
            return np.loadtxt(file, ndmin=1)

    found = []
    for text in ("1.0", "0.25", "1.0"):
        file.write_text(text)
        tables: Any = {"pair": {"use": "table"}, "plugins": [*PLUGINS, Table]}
        found += shown(tmp_path, N, **tables)
    first, changed, again = found
    assert changed["counts"] != first["counts"]
    assert changed["pair"]["digest"] != first["pair"]["digest"]
    assert [again[key] for key in ANSWER] == [first[key] for key in ANSWER]
    assert [len(cell["looks"]) for cell in found] == [1, 1, 1]


DRAWS = (1, "00ff", 0)


def kept(folder: Path, trials: int, draws: tuple[int, str, int] = DRAWS) -> Looks:
    """One run that asks one question."""
    ledger = Ledger(folder)
    looks = ledger.look(Question(draws, f"q{trials}", (trials, trials)), draws)
    ledger.write()
    return looks


def test_bets_that_continue_do_not_move_the_looks_of_other_questions(tmp_path: Path) -> None:
    rounds = "0123456789abcdef"
    for number, trials in ((1, 100), (2, 300)):
        ledger = Ledger(tmp_path)
        bets = Question(DRAWS, "bets", (trials, trials), rounds[: 8 * number])
        assert ledger.look(bets, DRAWS).number == 1
        assert ledger.look(Question(DRAWS, f"{trials}", (trials, trials)), DRAWS).number == number
        ledger.write()
    looks = Ledger(tmp_path).peek(Question(DRAWS, "900", (900, 900)), DRAWS)
    assert looks.earlier == ((100, 100), (300, 300))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for trials in (10, 20, 30):
        kept(tmp_path, trials)
    return tmp_path


def test_wherever_a_write_is_cut_no_look_is_given_back(folder: Path) -> None:
    """As a kill would, at any byte."""
    file = folder / NAME
    whole = file.read_bytes()
    assert kept(folder, 40).number == 4
    longer = file.read_bytes()
    for size in range(len(whole), len(longer) + 1):
        file.write_bytes(longer[:size])
        written = size > len(whole)  # before, nothing could have been shown
        assert kept(folder, 50).number == 4 + written
        assert kept(folder, 10).number == 1
        assert kept(folder, 60).number >= 5 + written


@pytest.mark.parametrize(
    "line", ["[4", "nonsense", '[0,[[1,"00ff",0],"q",[1,1],"",true]]', f"[{2**63},[]]"]
)
def test_an_unreadable_line_counts_as_a_look_at_all_draws(line: str, folder: Path) -> None:
    with (folder / NAME).open("a") as file:
        file.write(f"{line}\n")
    assert kept(folder, 30).number == 3
    assert kept(folder, 40).number == 5
    assert kept(folder, 1, (2, "00ff", 0)).number == 2


def test_the_record_has_the_looks_of_a_lost_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, {DRAWS: [(10, 10), (20, 20)]})
    assert ledger.look(Question((1, "evidence", 0), "q", (30, 30)), DRAWS).number == 3


def test_lines_are_added_and_never_changed(folder: Path) -> None:
    before = (folder / NAME).read_bytes()
    kept(folder, 20)
    assert (folder / NAME).read_bytes() == before
    kept(folder, 40)
    assert (folder / NAME).read_bytes().startswith(before)


def test_what_a_run_asks_of_the_same_draws_is_one_look(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    asked = [Question(DRAWS, question, (1, 1)) for question in "abcd"]
    assert [ledger.look(one, DRAWS).number for one in asked[:2]] == [1, 1]
    ledger.write()
    again = Ledger(tmp_path)
    assert [again.look(one, DRAWS).number for one in asked] == [1, 1, 2, 2]


def test_nothing_is_shown_that_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(tmp_path, N)
    before = (tmp_path / "record.json").read_bytes()
    shown(tmp_path, N, audit={"seed": 4})  # compiles and counts as usual
    (tmp_path / "record.json").write_bytes(before)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    with pytest.raises(OutputError, match="looks"):
        shown(tmp_path, 3 * N)
    assert (tmp_path / "record.json").read_bytes() == before


def test_the_look_is_written_before_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        assert (tmp_path / NAME).read_text().count("\n") == 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run.records, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            shown(tmp_path, N)
    assert listed(shown(tmp_path, 3 * N)) == [[N, N], [3 * N, 3 * N]]


def test_a_link_in_the_place_of_the_ledger_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "looks.jsonl").symlink_to(precious)
    with pytest.raises(OutputError, match="looks"):
        shown(tmp_path, N)
    assert precious.read_text() == "mine"


class Edge(Mechanism, name="edge"):
    """Always 1 on D′, and on D as often as its claim allows."""

    epsilon: Annotated[float, Gt(0)] = 0.5

    def claim(self, pair: Any) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        rare = jax.random.uniform(key, (n, 1)) < jnp.exp(-self.epsilon)
        return jnp.where(rare, 1.0, data)


class OneSided(Estimator, name="one-sided"):
    """Limits the rate of ones on D, with all of the error; on D′ they are known to be certain."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "always 1 on D′"

    def statistic(self) -> Statistic:
        return DecisionCounts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        zeros, ones = (int(n) for n in counts[0])
        most = clopper_pearson_upper(ones, zeros + ones, 1 - query.confidence)
        p = float(scipy.stats.binom.cdf(ones, zeros + ones, np.exp(-query.claim.epsilon)))
        p = max(p, 1e-300)
        return Estimate(0.0, epsilon_lower=-float(np.log(most)), p_value=p, p_resolved=p)

    def extreme(self, layout: Any, trials: Any) -> Any:
        return np.array([[trials[0], 0], [0, trials[1]]])


PEEKS, REPEATS, ERROR = 20, 100, 0.1


@pytest.mark.slow
def test_free_peeks_at_a_true_claim_cost_half_of_the_error_more(tmp_path: Path) -> None:
    """Each repeat is an audit of its own. False-alarm rate of this test below 1e-6."""
    refuted, would_be = np.zeros((2, REPEATS), bool)
    audit = {"confidence": 1 - ERROR, "multiplicity": "none", "repeats": REPEATS}
    for peek in range(1, PEEKS + 1):
        cells = shown(
            tmp_path,
            int(64 * 1.3**peek),
            audit=audit,
            mechanism=[{"use": "edge"}],
            estimator=[{"use": "one-sided"}],
            run={"chunk": 64},
            plugins=[*PLUGINS, Edge, OneSided],
        )
        refuted |= [cell["verdict"] == "violated" for cell in cells]
        would_be |= [cell["p_value"] <= ERROR for cell in cells]
        assert {cell["basis"]["look"] for cell in cells} == {peek}
    most = scipy.stats.binom.isf(1e-6, REPEATS, 1.5 * ERROR)
    assert refuted.sum() <= most
    assert would_be.sum() > most  # or the test would say nothing


@pytest.mark.slow
@given(st.integers(2, 10**6))
def test_all_later_looks_together_cost_half_of_the_first(number: int) -> None:
    assert Looks(((1, 1),) * (number - 1), number).price == number * (number + 1)
    assert Looks().price == 1
    # 1/(2·3) + … + 1/(k(k + 1)) = 1/2 − 1/(k + 1)
    spent = sum(1 / Looks((), k).price for k in range(2, min(number, 500) + 1))
    assert spent == pytest.approx(0.5 - 1 / (min(number, 500) + 1))


@pytest.mark.parametrize("other", [{"raises": "fail"}, {"limit": 2.0}, {"outputs": {"time": True}}])
def test_another_way_to_read_the_answers_of_a_box_is_a_look(
    other: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)

    class Answers(HostMechanism, name="answers-one-number"):
        """One number at a time."""

        def claim(self, pair: Any) -> PureDP:
            return PureDP(20.0)

        def release(self, rng: Any, data: Any) -> float:
            return float(np.sum(data) + rng.normal())

    asked: Any = {"plugins": [*PLUGINS, Answers], "run": {"chunk": 16}}
    for told, look in (({}, 1), (other, 2), ({}, 1)):
        box = {"use": "answers-one-number", **told}
        (cell,) = shown(tmp_path, 64, mechanism=[box], **asked)
        assert cell["basis"]["look"] == look


def test_calls_before_an_interruption_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[Any] = []

    def opened(*_: Any) -> Any:
        sources.append(InProcessWorkers())
        return contextlib.nullcontext(sources[-1])

    monkeypatch.setattr("dpframe.draw.local_executor.source_of", opened)
    tables: dict[str, Any] = {
        "mechanism": [{"use": "unseeded"}],
        "plugins": [*PLUGINS, unseeded(seedable=True)],
        "run": {"chunk": 16},
    }
    for at in (0, 0):
        with pytest.raises(KeyboardInterrupt):
            shown(tmp_path, 4000, Stop(at), **tables)
    shown(tmp_path, 4000, **tables)
    asked = [source.calls for source in sources]
    assert len(asked) == 3
    assert all(asked)
    summary = json.loads((tmp_path / "record.json").read_text())["summary"]
    assert summary["calls"] == sum(asked)
    shown(tmp_path, 5000, **tables)  # the next run counts anew
    summary = json.loads((tmp_path / "record.json").read_text())["summary"]
    assert summary["calls"] == sources[-1].calls
