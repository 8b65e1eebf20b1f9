"""Slips in training functions: `audit_training` raises, because a test would pass without it."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process

from dpframe import DpframeError, PureDP, audit_training

OUT = (np.linspace(0.0, 0.5, 20)[:, None],)
IN = (np.concatenate([OUT[0], [[1.0]]]),)


def noisy(seed: int, x: Any) -> float:
    return float(x.sum() + 50 * np.random.default_rng(seed).normal())


def misspelt_import(seed: int, x: Any) -> float:
    return float(importlib.import_module("no_such_library").fit(x))


def wrong_argument(seed: int, x: Any) -> float:
    return float(np.random.default_rng(seed).normal(size=x.shape, mean=0.0))


def raises_at_times(seed: int, x: Any) -> float:
    if seed % 2:
        raise FloatingPointError("overflow")
    return noisy(seed, x)


def raises_on_small_data(seed: int, x: Any) -> float:
    if len(x) == 20:
        raise IndexError("index 20 is out of bounds")
    return noisy(seed, x)


def no_return(seed: int, x: Any) -> None:
    noisy(seed, x)


def words(seed: int, x: Any) -> str:
    return "member" if noisy(seed, x) > 0 else "no member"


def constant(seed: int, x: Any) -> float:
    return 0.25


def ignores_the_model(seed: int, x: Any) -> bool:
    noisy(seed, x)
    return False


def diverged(seed: int, x: Any) -> float:
    return float("nan")


SLIPS = [
    (misspelt_import, {}, r"ModuleNotFoundError: No module named 'no_such_library'"),
    (wrong_argument, {}, r"TypeError: .*mean.* \(test_training.py:\d+\)"),
    (raises_at_times, {}, r"FloatingPointError: overflow \(test_training.py:\d+\)"),
    (raises_on_small_data, {}, r"IndexError: index 20 .*\(test_training.py:\d+\)"),
    (no_return, {}, r"returned None, forgot `return`\? \(test_training.py:\d+\)"),
    (words, {}, r"scores must be numbers \(test_training.py:\d+\)"),
    (diverged, {}, r"returned NaN; .* pass may_be_nan=True"),
    (diverged, {"may_be_nan": True}, r"returned NaN for all 24 models on D and on D′"),
    (constant, {}, r"returned the same number for all 24 models on D and on D′"),
    (ignores_the_model, {}, r"returned the same number for all 24 models"),
    (constant, {"estimators": ["threshold", "gdp"]}, r"nothing was tested"),
    (constant, {"claim": None}, r"nothing was tested"),
]


@pytest.mark.parametrize(("train", "more", "message"), SLIPS)
def test_a_function_whose_scores_test_nothing_is_no_green_test(
    train: Any, more: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_in_this_process(monkeypatch)
    with pytest.raises(DpframeError, match=rf"^{train.__name__}\b.*{message}"):
        audit_training(
            train, (OUT, IN), **{"claim": PureDP(1.0), "models": 24, "quiet": True, **more}
        )


def test_scores_of_models_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    (cell,) = audit_training(
        noisy, (OUT, IN), claim=PureDP(1.0), models=60, quiet=True, learn=10
    ).cells
    assert (cell.status, cell.verdict) == ("ok", "consistent")
