"""`dpframe.audit_training`: a plain function becomes an audit, or is refused with a reason."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process

from dpframe import DpframeError, GaussianDP, Pair, PureDP, audit_training
from dpframe.commands.audit_training import training
from dpframe.results.model import Record

if TYPE_CHECKING:
    from pathlib import Path

X, Y = np.linspace(0.0, 0.5, 20)[:, None], np.arange(20) % 2
OUT, IN = (X, Y), (np.concatenate([X, [[1.0]]]), np.append(Y, 1))
"""Without and with a record: the datasets differ in size."""


def train(seed: int, x: Any, y: Any, *, noise: float = 1.0) -> float:
    """The sum of what is clipped to [0, 1], with Gaussian noise: 1-GDP at noise 1."""
    total = np.clip(x, 0, 1).sum() + noise * np.random.default_rng(seed).normal()
    x[:] = 0  # its own copy
    return float(total) - 5.0


def audited(function: Any = train, pair: Any = (OUT, IN), **more: Any) -> Record:
    return audit_training(function, pair, **{"models": 40, "quiet": True, **more})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("training")


@pytest.mark.slow
def test_a_record_that_goes_on_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    # Far above what is true: the draws follow from the code of this folder, and are others soon.
    arguments = {"claim": GaussianDP(4.0), "out": folder, "models": 32}
    first = audited(**arguments)
    (cell,) = first.cells
    assert isinstance(first, Record)
    assert (cell.status, cell.trials) == ("ok", [32, 32])
    assert cell.verdict != "violated"
    assert cell.mechanism.use == "train"
    again = audited(**arguments)
    assert (again.digest, again.summary.seconds) == (first.digest, first.summary.seconds)
    more = audited(**{**arguments, "models": 48})
    assert more.cells[0].trials == [48, 48]
    assert first.summary.calls is not None
    assert more.summary.calls is not None
    assert first.summary.calls >= 2 * 32
    assert more.summary.calls < 2 * 48  # the first 32 of each are not trained again
    other = audited(functools.partial(train, noise=0.1), **arguments)
    assert other.summary.calls is not None
    assert other.summary.calls >= 2 * 32
    assert other.cells[0].draw_group != cell.draw_group


def test_no_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)  # the slow tests of `workers` have models of their own
    record = audited(functools.partial(train, noise=0.01), claim=GaussianDP(1.0), models=60)
    (cell,) = record.cells
    assert cell.verdict == "violated"
    assert cell.estimate is not None
    assert cell.estimate.epsilon_lower is not None
    assert cell.estimate.epsilon_lower > 1.5
    assert cell.claim is not None
    assert cell.estimate.delta == 1e-5


def test_a_pair_and_several_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)

    class Two(Pair, name="two"):
        adjacency = "replace one record"

        @property
        def d0(self) -> Any:
            return np.zeros(2)

        @property
        def d1(self) -> Any:
            return np.ones(2)

    def two(seed: int, x: Any) -> Any:
        noise = np.random.default_rng(seed).normal(size=2)
        return 4 * x.mean() + noise

    record = audited(two, Two(), attack="logistic", models=60, estimators=["threshold", "gdp"])
    assert [cell.estimator.use for cell in record.cells] == ["threshold", "gdp"]
    assert record.cells[0].estimate is not None
    assert record.cells[0].estimate.epsilon > 1
    assert record.cells[0].verdict is None
    with pytest.raises(DpframeError, match=r"nothing was audited: .*single numbers"):
        audited(two, Two())


def forgetful(seed: int, x: Any, y: Any) -> float:
    return float(np.random.default_rng().normal())


def test_a_function_that_ignores_its_seed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    with pytest.raises(DpframeError, match="pass seedable=False"):
        audited(forgetful, models=8)
    assert audited(forgetful, models=12, seedable=False).cells[0].status == "ok"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"function": 3}, "train: 3 is neither a function nor an estimator"),
        ({"function": lambda seed: 0.0}, "called with a seed and the 2 parts of a dataset"),
        ({"pair": (OUT, IN, IN)}, "should be two datasets"),
        ({"pair": (OUT, (X.copy(), Y))}, "D and D′ are equal"),
        ({"models": 0}, "models: 0 is not a positive number of models"),
        ({"models": 2.5}, "models: 2.5"),
        ({"learn": 0}, "learn: 0"),
        ({"seconds": -1}, "seconds: -1"),
        ({"estimators": "gdp"}, "a list of names"),
        ({"estimators": ["gdq"]}, "did you mean 'gdp'"),
        ({"attack": 3}, "neither a name nor an attack"),
        ({"confidence": 2.0}, "confidence"),
        ({"function": functools.partial(train, noise=(n for n in ()))}, "sent to a worker"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DpframeError, match=message.replace("?", r"\?")):
        audited(**arguments)


def test_what_the_digest_of_a_function_knows() -> None:
    scale = 1.0

    def inner(seed: int, x: Any, y: Any) -> float:
        return scale * seed

    def code(function: Any) -> str:
        made = training(function, (OUT, IN), claim=PureDP(1.0), seedable=True, may_be_nan=False)
        return made.code

    before = code(inner)
    assert code(inner) == before
    scale = 2.0
    assert code(functools.partial(train, noise=2.0)) != code(functools.partial(train, noise=1.0))
    assert code(train) == code(train)
    local = training(train, (OUT, IN), claim=None, seedable=True, may_be_nan=False)
    wider = training(train, (OUT, (IN[0] + 1, IN[1])), claim=None, seedable=True, may_be_nan=False)
    assert local.digest != wider.digest
    assert code(inner) != before


RECORDS = np.random.default_rng(0).uniform(0, 0.1, (20, 5)) * [1, 1, 1, 1, 0]
LABELS = (RECORDS.sum(axis=1) > 0.2).astype(float)
WITHOUT = RECORDS, LABELS
WITH = np.vstack([RECORDS, [0, 0, 0, 0, 1]]), np.append(LABELS, 1.0)
"""Without and with a record that validates, but does not train; it alone has the last feature."""


def best_of(seed: int, x: Any, y: Any, *, k: int) -> float:
    """The weight of the last feature in the best of k models of DP-SGD, by accuracy."""
    rng = np.random.default_rng(seed)
    w = np.zeros((k, 5))
    for _ in range(4):
        errors = 1 / (1 + np.exp(-w @ x[:15].T)) - y[:15]  # inputs are shorter than 1: clipped
        w -= 0.1 * (errors @ x[:15] + 4.0 * rng.normal(size=w.shape))
    accuracy = ((w @ x[15:].T > 0) == y[15:]).mean(axis=1)
    return float(w[accuracy.argmax(), 4])


@pytest.mark.parametrize(("k", "verdict"), [(1, "consistent"), (40, "violated")])
def test_a_choice_among_trainings_is_a_part_of_what_is_audited(
    monkeypatch: pytest.MonkeyPatch, k: int, verdict: str
) -> None:
    """One training is 0.5-GDP; the best of 40 tells of a record in the validation data alone."""
    sample_in_this_process(monkeypatch)
    function = functools.partial(best_of, k=k)
    record = audited(function, (WITHOUT, WITH), claim=GaussianDP(0.5), models=150)
    assert record.cells[0].verdict == verdict
