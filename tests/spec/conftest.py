"""Plugins small enough to read at a glance, and helpers that load specs naming them."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import numpy as np
import pytest

from dpframe import ApproxDP, Attack, Estimator, Ge, Gt, Le, Mechanism, Pair, PureDP
from dpframe.errors import SpecError
from dpframe.interfaces.registry import Entry, Registry
from dpframe.spec import load_audit


class Plain(Mechanism, name="plain"):
    epsilon: Annotated[float, Gt(0)]
    """The claim."""

    def claim(self, pair):
        return PureDP(self.epsilon)

    def sample(self, key, data, n):
        raise NotImplementedError


class Rich(Mechanism, name="rich"):
    """Has a parameter of every sort."""

    epsilon: Annotated[float, Gt(0)]
    """The claim."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """Default: the l1 distance of the pair."""
    mode: Literal["zero", "keep"] = "zero"
    shape: tuple[int, ...] = ()
    size: int | str = 1
    rounds = 3

    def check(self):
        if self.mode == "keep" and self.epsilon > 100:
            raise ValueError("mode 'keep' needs epsilon of at most 100")

    def resolve(self, pair):
        sensitivity = pair.distance(1) if self.sensitivity is None else self.sensitivity
        return dataclasses.replace(self, sensitivity=sensitivity)

    def claim(self, pair):
        return ApproxDP(self.epsilon, 1e-5)

    def sample(self, key, data, n):
        raise NotImplementedError


class Fussy(Mechanism, name="fussy"):
    """Its own code fails in the way that `how` says."""

    how: str = "well"

    def resolve(self, pair):
        if self.how == "refuses" and pair.dim > 1:
            raise ValueError("needs dim = 1")
        if self.how == "crashes":
            raise KeyError("lost")
        return "not a mechanism" if self.how == "resolves to text" else self

    def claim(self, pair):
        return "private" if self.how == "claims text" else None

    def sample(self, key, data, n):
        raise NotImplementedError


class Line(Pair, name="line"):
    adjacency = "replace"
    dim: Annotated[int, Ge(1)] = 1

    @property
    def d0(self):
        return np.zeros(self.dim)

    @property
    def d1(self):
        return np.ones(self.dim)


class Guess(Attack, name="guess"):
    gives = "decision"

    threshold: Annotated[float, Ge(0), Le(1)] = 0.5

    def score(self, state, outputs):
        raise NotImplementedError


class Look(Attack, name="look"):
    gives = "score"

    def score(self, state, outputs):
        raise NotImplementedError


class Rate(Estimator, name="rate"):
    certifies = False
    assumption = "none"

    def statistic(self):
        raise NotImplementedError

    def estimate(self, layout, counts, query):
        raise NotImplementedError


CLASSES = (Plain, Rich, Fussy, Line, Guess, Look, Rate)

SPEC = """\
schema = 1

[audit]
name = "small"
trials = 1000

[pair]
use = "line"

[[mechanism]]
use = "plain"
params.epsilon = 1.0

[[attack]]
use = "guess"

[[estimator]]
use = "rate"
"""


@pytest.fixture
def registry():
    return Registry(tuple(Entry(cls.kind, cls.name, "test", "1.0", cls) for cls in CLASSES))


@pytest.fixture
def base():
    """A spec of 18 lines that is right."""
    return SPEC


@pytest.fixture
def load(registry, tmp_path, monkeypatch):
    """Loads a spec from its text; it is called spec.toml."""
    monkeypatch.chdir(tmp_path)

    def load(text, **options):
        (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
        return load_audit("spec.toml", registry=registry, **options)

    return load


@pytest.fixture
def mistakes(load):
    """The messages that a wrong spec gives."""

    def mistakes(text, **options):
        with pytest.raises(SpecError) as caught:
            load(text, **options)
        return caught.value.problems

    return mistakes
