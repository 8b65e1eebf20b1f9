"""Audits of black boxes that answer with anything: exceptions, tables, lists, times."""

from __future__ import annotations

import re
import signal
from typing import Any

import numpy as np
import pytest
from support.black_boxes import cells, notes, record, spec
from support.tiers import mostly_slow

from dpframe import Attack, HostMechanism, PureDP
from dpframe.count.checkpoint import Store
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.pool import Workers
from dpframe.interfaces.attack import Answers

TRIALS = 640


class Raises(Attack, name="raises"):
    """Takes exceptions for signs of D′."""

    gives = "decision"

    def see(self, answers: Answers) -> Any:
        return answers.raised

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs


class Large(Attack, name="large"):
    """Takes large numbers for signs of D′; sees the numbers in the shape in which they came."""

    gives = "decision"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs.reshape(len(outputs), -1)[:, 0] > 0.5


class Together(Attack, name="together"):
    """Sees answers beside others."""

    gives = "decision"

    def see(self, answers: Answers) -> Any:
        return np.cumsum(answers.numbers[:, 0]) > 1

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs


class Answering(HostMechanism, name="answering"):
    """Does what its parameter says."""

    what: str = "raises"

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        high, noise = float(np.sum(data)) > 0, rng.random()
        match self.what:
            case "raises":
                if noise < 0.25 + 0.5 * high:
                    raise ValueError(f"{noise} is too small")
                return noise
            case "always raises":
                raise ValueError("never mind")
            case "raises only":
                raise ValueError("large" if high else "small")
            case "raises one of two":
                if high == (noise < 0.9):
                    raise KeyError(noise)
                raise ValueError(noise)
            case "answers four times":
                CALLS.append(data)
                if len(CALLS) > 4:
                    raise KeyError("gone")
                return 1.0
            case "reshapes":
                return np.append(data, noise).reshape(17, 1)
            case "says more":
                if noise < 0.5:
                    raise ValueError("large" if high else "small")
                return 1.0
            case "gives a zip":
                return zip([noise]) if high else [noise]
            case "has parts":
                return {"noise": noise, "each": [0.0, float(high)]}
            case "constant":
                return {"a": [1.0, None]}
            case "table":
                return {"noise": noise + high, "text": "x"}
            case "ignores the seed":
                return np.random.default_rng().random()
            case "unreadable":
                return iter([])
            case "memory":
                raise MemoryError
            case _:
                return noise + high


class Listing(HostMechanism, name="listing"):
    """Gives lists, and raises for some."""

    raises: bool = False

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        found: list[Any] = [float(x) for x in rng.random(n) + np.sum(data)]
        if self.raises:
            found = [ValueError("no") if x > 1.5 else x for x in found]
        return found


class Prepared(HostMechanism, name="prepared"):
    """Counts how often its state is built."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def prepare(self, data: Any) -> Any:
        if float(np.sum(data)) > 0:
            raise RuntimeError("cannot be built")
        BUILT.append(data)
        return {"mean": float(np.mean(data))}

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        return data["mean"] + rng.random()


BUILT: list[Any] = []
CALLS: list[Any] = []
PLUGINS: list[Any] = [Raises, Large, Together, Answering, Listing, Prepared]


def audited(attack: str, use: str = "answering", **params: Any) -> dict[str, Any]:
    table = {"use": use, "params": params}
    document = spec(table, attack=[{"use": attack}], trials=TRIALS)
    (cell,) = cells(document, plugins=PLUGINS)
    return cell


def rates(cell: dict[str, Any]) -> list[float]:
    """Shares of decisions for D′, on D and on D′."""
    assert cell["status"] == "ok", cell["reason"]
    (zero, one) = cell["counts"]
    return [zero[1] / sum(zero), one[1] / sum(one)]


def test_an_exception_is_an_answer():
    cell = audited("raises", what="raises")
    found = rates(cell)
    assert abs(found[0] - 0.25) < 0.1
    assert abs(found[1] - 0.75) < 0.1
    assert "an exception is an answer" in notes(cell)


def test_attacks_that_ask_for_nothing_see_the_numbers():
    assert rates(audited("large", what="number")) == pytest.approx([0.5, 1.0], abs=0.1)
    assert rates(audited("large", what="table")) == pytest.approx([0.5, 1.0], abs=0.1)
    assert rates(audited("large", use="listing")) == pytest.approx([0.5, 1.0], abs=0.1)


def test_a_list_may_hold_exceptions():
    found = rates(audited("raises", use="listing", raises=True))
    assert found == pytest.approx([0.0, 0.5], abs=0.1)


def test_state_is_built_once_for_each_lease_and_that_may_raise_too(monkeypatch):
    BUILT.clear()
    lend, leases = InProcessWorkers.lend, []
    monkeypatch.setattr(
        InProcessWorkers, "lend", lambda *given: (leases.append(1), lend(*given))[1]
    )
    assert rates(audited("raises", use="prepared")) == [0.0, 1.0]
    assert 1 <= len(BUILT) <= 2 * len(leases)  # for D and for D′


def test_answers_that_never_change_are_no_sign_of_a_fault():
    assert rates(audited("raises", what="constant")) == [0.0, 0.0]


def test_the_shares_of_exceptions_are_recorded_and_said_first():
    cell = audited("raises", what="raises")
    zero, one = cell["exceptions"]
    assert [round(TRIALS * share) for share in (zero, one)] == [row[1] for row in cell["counts"]]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("always raises", r"first .* answers.* ValueError: never mind \(.*py:\d+ in release\)"),
        ("raises only", r"first .* answers.*were exceptions.*: ValueError: (large|small) "),
        ("answers four times", "all answers on D and D′ were exceptions.*: KeyError: 'gone'"),
        ("ignores the seed", "gave different outputs when called again with the same seed"),
        (
            "unreadable",
            "were exceptions.* an answer cannot be read: .*list what to read in `attributes`",
        ),
        ("memory", "raised MemoryError"),
    ],
)
def test_what_can_not_be_counted(what, says):
    cell = audited("raises", what=what)
    assert cell["status"] == "failed"
    assert re.search(says, cell["reason"])


def test_exceptions_of_two_kinds_are_answers_even_if_there_are_no_others():
    """Also if an interrupted run goes on after its last draw."""
    document = spec({"use": "answering", "params": {"what": "raises one of two"}}, trials=TRIALS)
    document["mechanism"][0]["raises"] = "answer"
    document["attack"] = [{"use": "answers", "params": {"look": "kinds"}}]
    document["estimator"] = [{"use": "order-statistics"}]
    store, calls = Store(), []
    for _ in range(2):
        found = record(document, plugins=PLUGINS, store=store)
        (cell,) = found["cells"]
        assert cell["status"] == "ok", cell["reason"]
        assert cell["exceptions"] == [1.0, 1.0]
        calls.append(found["summary"]["calls"])
        assert 1.0 < cell["estimate"]["epsilon_lower"] < np.log(9)
    assert calls[1] < calls[0] - TRIALS


def test_what_is_seen_depends_on_one_answer_alone():
    cell = audited("together", what="number")
    assert cell["status"] == "failed"
    assert "it must look at every answer independently" in cell["reason"]


def asked(
    attack: str, use: str = "answering", what: str = "raises", **table: Any
) -> dict[str, Any]:
    """With more in the mechanism's table."""
    mechanism = {"use": use, "params": {"what": what} if use == "answering" else {}, **table}
    (cell,) = cells(
        spec(mechanism, attack=[{"use": attack}], trials=TRIALS), plugins=[*PLUGINS, Late, Slow]
    )
    return cell


class Late(HostMechanism, name="late"):
    """Raises when it is asked for many at once, and for some that it is asked for alone."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        if n > 1 or rng.random() < 0.5 * (np.sum(data) > 0):
            raise ValueError("too many")
        return rng.random((n, 2))


class Slow(Attack, name="slow"):
    """Takes answers for signs of D′ that took any time."""

    gives = "decision"

    def see(self, answers: Answers) -> Any:
        return answers.seconds > 0

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs


def test_the_spec_says_whether_an_exception_fails_its_cell():
    cell = asked("large", raises="fail")
    assert (cell["status"], cell["verdict"]) == ("failed", None)
    assert re.search("release raised ValueError: .* is too small", cell["reason"])
    cell = asked("large", use="late")
    assert re.search("sample raised ValueError: too many", cell["reason"])
    cell = asked("raises", use="late", raises="answer")
    assert rates(cell) == pytest.approx([0.0, 0.5], abs=0.1)


def test_answers_are_timed_where_the_spec_says_so():
    assert rates(asked("slow", what="number")) == [0.0, 0.0]
    cell = asked("slow", what="number", outputs={"time": True})
    assert rates(cell) == [1.0, 1.0]
    assert "evidence is valid only for this machine" in notes(cell)


class Deaf(HostMechanism, name="deaf"):
    """Does not come back, and hears no signal."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        while True:
            pass


@pytest.mark.slow
def test_what_nothing_interrupts_fails_its_cell(monkeypatch):
    monkeypatch.setattr("dpframe.draw.pool.EXTRA_SECONDS", 0.1)
    document = spec({"use": "deaf", "limit": 0.01}, attack=[{"use": "raises"}], trials=TRIALS)
    with Workers(2) as workers:
        (cell,) = cells(document, workers, plugins=[Raises, Deaf])
    assert cell["status"] == "failed"
    assert "longer than the 0.01 s allowed, and could not be interrupted" in cell["reason"]


class Arrays(HostMechanism, name="arrays"):
    """Gives something that NumPy takes for an array of numbers."""

    of: str

    def claim(self, pair: Any) -> PureDP:
        return PureDP(0.1)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        high, noise = float(np.sum(data)) > 0, rng.random(n)
        match self.of:
            case "the mask tells":
                return np.ma.array(noise, mask=np.full(n, high))
            case "the mask hides":
                return np.ma.array(np.full(n, float(high)), mask=np.ones(n, bool))
            case "rows of masks":
                return tuple(np.ma.array([x], mask=[high]) for x in noise)
            case "no time":
                return np.full(n, "NaT" if high else "2020", "M8[D]")
            case "tagged":
                return noise.view(Tagged)
            case "duck":
                return Duck(noise)
            case _:
                return noise.astype(np.longdouble) / 3


class Tagged(np.ndarray):
    """An array with a name of its own."""


class Duck:
    """An array, for NumPy."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


def of_arrays(of: str, *attacks: dict[str, Any]) -> list[dict[str, Any]]:
    document = spec({"use": "arrays", "params": {"of": of}}, trials=TRIALS)
    document["attack"], document["estimator"] = list(attacks), [{"use": "order-statistics"}]
    return cells(document, plugins=[Arrays])


LOOKS = [
    {"use": "answers", "label": look, "params": {"look": look}}
    for look in ("kinds", "values", "numbers")
]


@pytest.mark.parametrize(
    "of", mostly_slow(["the mask tells", "rows of masks", "no time"], ("rows of masks",))
)
def test_what_an_array_does_not_hold_is_part_of_it(of: str) -> None:
    """All in one audit: kinds, exact values and numbers see what is masked or missing."""
    for cell in of_arrays(of, *LOOKS):
        assert (cell["status"], cell["verdict"]) == ("ok", "violated"), cell["reason"]


def test_what_a_mask_hides_accuses_nobody() -> None:
    for cell in of_arrays("the mask hides", *LOOKS):
        assert cell["verdict"] in ("inconclusive", None), cell["reason"]  # all answers are one


@pytest.mark.parametrize("of", ["tagged", "duck"])
def test_what_may_hold_more_than_numbers_is_refused(of: str) -> None:
    for cell in of_arrays(of, {"use": "identity"}, LOOKS[0]):
        assert cell["status"] == "failed"
        assert "may contain more than numbers" in cell["reason"]


@pytest.mark.slow
def test_padding_between_numbers_is_no_change_of_outputs() -> None:
    for cell in of_arrays("long", {"use": "identity"}, *LOOKS):
        tested = cell["attack"]["label"] not in ("kinds", "values")  # equal in all answers
        verdict = "consistent" if tested else "inconclusive"
        assert (cell["status"], cell["verdict"]) == ("ok", verdict), cell["reason"]


def looked_at(what: str, look: str, **table: Any) -> dict[str, Any]:
    """One view of all answers."""
    mechanism = {"use": "answering", "params": {"what": what}, **table}
    document = spec(mechanism, trials=TRIALS)
    document["attack"] = [{"use": "answers", "params": {"look": look}}]
    document["estimator"] = [{"use": "order-statistics"}]
    (cell,) = cells(document, plugins=PLUGINS)
    return cell


@pytest.mark.parametrize("look", ["kinds", "values", "numbers"])
def test_a_mistake_of_a_box_is_no_verdict(look: str) -> None:
    """Its message holds the data, which tell D from D′ well."""
    cell = looked_at("reshapes", look)
    assert cell["status"] == "failed"
    assert "cannot reshape array" in cell["reason"]


@pytest.mark.parametrize("look", mostly_slow(["kinds", "values"], ("kinds",)))
def test_messages_count_only_if_they_are_asked_for(look: str) -> None:
    cell = looked_at("says more", look)
    assert cell["estimate"]["epsilon_lower"] == 0.0
    cell = looked_at("says more", look, outputs={"messages": True})
    assert cell["estimate"]["epsilon_lower"] > 0.5
    assert cell["asked"]["messages"] is True


def test_only_the_named_parts_of_an_answer_count() -> None:
    assert looked_at("has parts", "numbers")["estimate"]["epsilon_lower"] > 3
    cell = looked_at("has parts", "numbers", outputs={"only": ["noise"]})
    assert cell["estimate"]["epsilon_lower"] == 0.0
    assert cell["asked"]["only"] == ["noise"]
    cell = looked_at("has parts", "numbers", outputs={"only": ["noise", "each.-1"]})
    assert cell["estimate"]["epsilon_lower"] > 3


def test_a_part_that_no_answer_has_fails_the_cell() -> None:
    cell = looked_at("has parts", "numbers", outputs={"only": ["noise", "nose"]})
    assert cell["status"] == "failed"
    assert "no answer of the trial calls has the part 'nose' of outputs.only" in cell["reason"]


def test_the_type_of_what_cannot_be_read_tells_the_datasets_apart() -> None:
    cell = looked_at("gives a zip", "kinds")
    assert cell["status"] == "ok", cell["reason"]
    assert cell["estimate"]["epsilon_lower"] > 3
    assert cell["exceptions"] == [0.0, 1.0]
    failed = looked_at("gives a zip", "kinds", raises="fail")
    assert "an answer cannot be read" in failed["reason"]
