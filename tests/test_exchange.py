"""Classes say which data plugins give and take, also those of third parties."""

from __future__ import annotations

from typing import Any, ClassVar

from dpframe import Attack, BinCounts, DecisionCounts, Estimator, Mechanism, Statistic
from dpframe.interfaces import registry
from dpframe.interfaces.estimator import exchange


class Both(BinCounts):
    accepts: ClassVar[frozenset[str]] = frozenset({"decision", "score"})


class Base(Estimator):
    certifies = False
    assumption = "nothing"

    def estimate(self, layout: Any, counts: Any, query: Any) -> Any:
        raise NotImplementedError


class Defaults(Base, name="exchange-defaults"):
    """By an instance."""

    bins: int = 3

    def statistic(self) -> Statistic:
        return Both()


class Required(Base, name="exchange-required"):
    """By the annotation, since there is no instance."""

    bins: int

    def statistic(self) -> DecisionCounts:
        return DecisionCounts()

    def estimate_scores(self, scores: Any, query: Any, rng: Any) -> Any:
        raise NotImplementedError


class Silent(Base, name="exchange-silent"):
    """By nothing."""

    bins: int

    def statistic(self) -> Statistic:
        return DecisionCounts()


class Broken(Base, name="exchange-broken"):
    """By nothing, since it fails."""

    def statistic(self) -> Statistic:
        raise SystemExit(1)


def told(cls: type[Any]) -> tuple[Any, Any, Any]:
    found = exchange(cls)
    return found["takes"], found["bins"], found["raw_scores"]


def test_an_estimator_takes_what_its_statistic_accepts() -> None:
    assert told(Defaults) == (["decision", "score"], True, False)
    assert told(Required) == (["decision"], False, True)
    assert told(Silent) == (None, None, False)
    assert told(Broken) == (None, None, False)
    assert exchange(Defaults)["certifies"] is False
    assert exchange(Defaults)["assumption"] == "nothing"
    assert exchange(Defaults)["reference"] is None


def test_an_attack_gives_and_a_mechanism_neither() -> None:
    class Scoring(Attack, name="exchange-scoring"):
        gives = "score"

        def score(self, state: Any, outputs: Any) -> Any:
            return outputs

    assert exchange(Scoring) == {"gives": "score"}
    assert exchange(Mechanism) == {}


def test_the_catalog_tells_it_of_every_attack_and_estimator() -> None:
    plugins = registry.catalog(registry.load())["plugins"]
    assert {p["gives"] for p in plugins if p["kind"] == "attack"} == {
        "canaries",
        "decision",
        "score",
    }
    estimators = {p["name"]: p for p in plugins if p["kind"] == "estimator"}
    assert all(p["takes"] for p in estimators.values())
    assert estimators["precision"]["takes"] == ["decision"]
    assert estimators["order-statistics"]["raw_scores"]
    assert estimators["one-run"]["reference"].startswith("[Steinke2023]")
    assert not any("gives" in p or "takes" in p for p in plugins if p["kind"] == "mechanism")
