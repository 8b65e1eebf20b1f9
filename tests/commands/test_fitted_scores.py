"""`dpframe.audit_training` of estimators with `fit`: what is scored, and what is refused."""

import copy
from typing import Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process

from dpframe import DpframeError, PureDP, audit_training
from dpframe.commands.fitted_scores import training_of

X, Y = np.linspace(0.0, 1.0, 20)[:, None], np.arange(20) % 2
OUT, IN = (X, Y), (np.vstack([X, [[9.0]]]), np.append(Y, 1))


class Mean:
    """An estimator in scikit-learn's style: predicts the noisy mean of y."""

    def __init__(self, scale: float = 1.0, random_state: Any = None) -> None:
        self.scale, self.random_state = scale, random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"scale": self.scale, "random_state": self.random_state}

    def set_params(self, **given: Any) -> "Mean":
        vars(self).update(given)
        return self

    def fit(self, x: Any, y: Any) -> "Mean":
        noise = np.random.default_rng(self.random_state).laplace(0, self.scale)
        self.mean_ = float(np.sum(np.clip(y, 0, 1))) + noise
        return self

    def predict(self, x: Any) -> Any:
        return np.full(len(x), self.mean_)


class Nested(Mean):
    """An estimator with another one in it."""

    def __init__(self, inner: Mean) -> None:
        super().__init__()
        self.inner = inner

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        inner = {f"inner__{key}": value for key, value in self.inner.get_params().items()}
        return {"inner": self.inner, **inner}

    def set_params(self, **given: Any) -> "Nested":
        self.inner.set_params(**{key.removeprefix("inner__"): one for key, one in given.items()})
        return self

    def fit(self, x: Any, y: Any) -> "Nested":
        self.mean_ = self.inner.fit(x, y).mean_
        return self


class Constant:
    """A model with the given outputs."""

    def __init__(self, **outputs: Any) -> None:
        self.__dict__.update({name: lambda x, o=out: o for name, out in outputs.items()})

    def fit(self, x: Any, y: Any) -> None:
        self.classes_ = np.array([0, 1, 2] if hasattr(self, "three") else [0, 1])


def score(model: Any, pair: Any = (OUT, IN), seed: int = 1) -> float:
    return training_of(model, pair)(seed, *copy.deepcopy(pair[1]))


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"decision_function": np.array([2.0]), "predict_proba": np.array([[0.9, 0.1]])}, 2.0),
        ({"decision_function": np.array([[1.0, 4.0, 3.0]]), "three": None}, 1.0),
        ({"predict_proba": np.array([[0.2, 0.8]])}, np.log(4.0)),
        ({"predict_proba": np.array([[1.0, 0.0]])}, np.log(1e-300)),
        ({"predict": np.array([1])}, 1.0),
        ({"predict": np.array([0])}, 0.0),
    ],
)
def test_a_classifier_is_scored_by_the_label_of_the_record(outputs: Any, expected: float) -> None:
    assert score(Constant(**outputs)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("pair", "sign"),
    [
        ((OUT, IN), 1.0),
        ((IN, OUT), -1.0),  # the record is removed
        (((X, Y), (X, np.where(np.arange(20) == 3, 0, Y))), 0.0),  # it is replaced
        (((np.ones((2, 1), int), np.ones(2, int)), (np.ones((3, 1)), np.ones(3))), 1.0),
    ],
)
def test_a_number_is_scored_by_its_squared_error(pair: Any, sign: float) -> None:
    model = Mean(scale=0.0)
    total = pair[1][1].sum()
    expected = sign * -((total - 1.0) ** 2) if sign else -(total**2) + (total - 1.0) ** 2
    assert score(model, pair) == pytest.approx(expected)


@pytest.mark.parametrize("model", [Mean(), Nested(Mean(random_state=3)), Mean(random_state=7)])
def test_random_states_come_from_the_seed(model: Any) -> None:
    assert score(model, seed=1) == score(model, seed=1) != score(model, seed=2)
    assert not hasattr(model, "mean_")  # a copy was fitted


@pytest.mark.parametrize(
    ("model", "pair", "words"),
    [
        (Mean().fit(X, Y), (OUT, IN), "this Mean is fitted already"),
        (Nested(Mean().fit(X, Y)), (OUT, IN), "this Nested is fitted already"),
        (Constant(), (OUT, IN), "no decision_function, predict_proba or predict"),
        (Mean(), (OUT, (IN[0], Y)), r"D′ has X of shape \(21, 1\) and y of shape \(20,\)"),
        (Mean(), (X, IN[0]), "D of an estimator is"),
        (Mean(), ((X, Y), (X, 1 - Y)), "20 are only in D and 20 only in D′"),
        (Mean(), ((X, Y), (X[2:], Y[2:])), "2 are only in D and 0 only in D′"),
    ],
)
def test_what_is_refused(model: Any, pair: Any, words: str) -> None:
    with pytest.raises(DpframeError, match=words):
        audit_training(model, pair, quiet=True)


def test_a_class_and_a_second_claim_are_refused() -> None:
    with pytest.raises(DpframeError, match=r"Mean is a class; pass an estimator, Mean\(\)"):
        audit_training(Mean, (OUT, IN))
    with pytest.raises(DpframeError, match="epsilon: a claim is given too"):
        audit_training(Mean(), (OUT, IN), epsilon=1.0, claim=PureDP(1.0))
    with pytest.raises(DpframeError, match="epsilon"):
        audit_training(Mean(), (OUT, IN), epsilon=-1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "consistent"), (0.1, "violated")])
def test_an_audit_in_one_call(scale: float, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    record = audit_training(Mean(scale), (OUT, IN), epsilon=1.0, models=200, quiet=True)
    assert record.cells[0].verdict == verdict
    assert record.cells[0].mechanism.use == "Mean"
