"""Many repeats at once are the audits that the engine runs one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process
from support.known_truths import KNOWN, spec

import dpframe
from dpframe.commands import audit
from dpframe.commands.calibrate import SETTINGS
from dpframe.draw.streams import EVAL, FIT, PILOT
from dpframe.testing import experiment
from dpframe.testing.experiment import Experiments, experiments_of


@pytest.fixture(autouse=True)
def _without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)


SILENT = {"params": {"claimed": False}}
"""A claim may change what an estimator looks at; calibrations keep it back."""

EVERYTHING = {
    "audit": {"delta": 1e-5},
    "mechanism": [{"use": "shifted", **SILENT}],
    "attack": [{"use": "first"}, {"use": "beyond"}, {"use": "centred"}],
    "estimator": [{"use": "precision"}, {"use": "greedy"}, {"use": "order-statistics"}],
}

BLACK_BOX = {
    "audit": {"delta": 1e-5},
    "mechanism": [{"use": "boxed"}],
    "attack": [{"use": "beyond"}],
    "estimator": [{"use": "precision"}],
}

BLOCKS = {
    "audit": {"delta": 1e-5},
    "mechanism": [{"use": "shifted"}],
    "attack": [{"use": "beyond"}, {"use": "centred"}],
    "estimator": [{"use": "precision"}, {"use": "greedy"}],
}


def arranged(document: dict[str, Any], trials: int | None = None) -> Experiments:
    loaded = audit.load(document, SETTINGS, trials, None, KNOWN)
    return experiments_of([audit.make_plan(loaded)])


def lows(found: Experiments, repeats: int, **how: Any) -> list[np.ndarray]:
    outcomes = experiment.repeated(found.experiments, repeats, **{"workers": 1, **how})
    assert all(one.reason is None for own in outcomes for one in own)
    return [one.lows for own in outcomes for one in own]


@pytest.mark.parametrize(("document", "repeats"), [(EVERYTHING, 3), (BLACK_BOX, 2)])
def test_repeats_are_those_of_the_engine(document: dict[str, Any], repeats: int) -> None:
    """The same draws, pilots and fits, so bounds differ by rounding alone."""
    trials = 200
    found = arranged(spec(**document))
    outcomes = lows(found, repeats)
    parts = [part for one in found.experiments for part in one.parts]
    ours = {
        (part.cell.mechanism.use, part.cell.attack.use, part.cell.estimator.use): low
        for part, low in zip(parts, outcomes, strict=True)
        if not part.raw
    }
    (rows,) = {one.the_pass.rows for one in found.experiments}
    assert rows == (16 if document is BLACK_BOX else 256)
    settings = [f"audit.repeats={repeats}", f"run.chunk={rows}", f"run.pilot={trials}"]
    settings += ['audit.multiplicity="none"', f"run.fit={trials}"]
    record = dpframe.audit(spec(**document), overrides=settings, plugins=KNOWN)
    theirs: dict[Any, list[float]] = {}
    for cell in record["cells"]:
        key = tuple(cell[part]["use"] for part in ("mechanism", "attack", "estimator"))
        theirs.setdefault(key, []).append(cell["estimate"]["epsilon_lower"])
    assert ours.keys() == theirs.keys()
    assert len(ours) == len(document["attack"]) * 2 - 1  # decisions go to one estimator alone
    for key, values in theirs.items():
        # A float that is rounded the other way may move a count by one.
        assert ours[key] == pytest.approx(values, abs=0.02), key
        assert len(set(values)) > 1


@pytest.mark.parametrize("trials", [200, pytest.param(3000, marks=pytest.mark.slow)])
def test_blocks_do_not_matter(trials: int) -> None:
    """Three chunks of 1024 at 3,000 trials, a part of one at 200."""
    found = arranged(spec(**BLOCKS, run={"chunk": 1024, "pilot": 150, "fit": 50}), trials)
    assert {(one.run.pilot, one.run.fit, one.the_pass.rows) for one in found.experiments} == {
        (150, 50, 1024)
    }
    whole = lows(found, 11)
    for mine, theirs in zip(lows(found, 9, block=4), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs[:9])


@pytest.mark.slow
def test_processes_do_not_matter() -> None:
    found = arranged(spec(**BLOCKS))
    whole = lows(found, 11, block=4)
    for mine, theirs in zip(lows(found, 11, block=4, workers=2), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_every_draw_is_made_once() -> None:
    """Repeats, streams, datasets and seeds never share a draw, and the same seed gives the same."""
    seen: list[Any] = []
    for seed in (5, 6):
        found = arranged(spec(**{**BLOCKS, "audit": {"seed": seed, "delta": 1e-5}}))
        (one, *_) = found.experiments
        draws = [one.draws(repeat) for repeat in range(3)]
        for stream, index in itertools.product((FIT, PILOT, EVAL), (0, 1)):
            outputs = np.stack([repeat.outputs(stream, 0)[index] for repeat in draws])
            seen.append(outputs - one.the_pass.pair.d1 * index)
            again = one.draws(1).outputs(stream, 0)[index]
            np.testing.assert_array_equal(outputs[1], again)
    noise = np.concatenate([piece.ravel() for piece in seen])
    # Numbers between 2 and 4 are 2⁻²² apart; a few of 7,200 coincide by chance.
    assert len(noise) == 7200
    assert len(np.unique(noise)) > 7150


@pytest.mark.slow
def test_raw_scores_are_a_line_of_their_own() -> None:
    document = spec(mechanism=[{"use": "shifted"}], attack=[{"use": "first"}],
                    estimator=[{"use": "order-statistics"}, {"use": "greedy"}])  # fmt: skip
    found = arranged(document)
    (only,) = found.experiments
    assert [(part.cell.estimator.use, part.raw) for part in only.parts] == [
        ("order-statistics", False), ("order-statistics", True), ("greedy", False),
    ]  # fmt: skip
    streaming, raw, _ = lows(found, 30)
    assert not np.array_equal(streaming, raw)
    assert abs(streaming.mean() - raw.mean()) < 0.3


def test_processes_are_left_out_where_they_cannot_help(monkeypatch: pytest.MonkeyPatch) -> None:
    found = arranged(spec())

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a process")

    expected = lows(found, 3)
    monkeypatch.setattr(experiment, "ProcessPoolExecutor", refuse)
    np.testing.assert_array_equal(lows(found, 3, workers=None), expected)  # too small
    with pytest.raises(AssertionError, match="a process"):
        lows(found, 3, workers=2)
    monkeypatch.setattr("pickle.dumps", refuse)
    np.testing.assert_array_equal(lows(found, 3, workers=2), expected)
