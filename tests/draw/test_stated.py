"""Losses computed from the distribution that a mechanism states."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from dpframe import (
    ApproxDP,
    GaussianDP,
    HostMechanism,
    Mechanism,
    PureDP,
    UndecidedError,
    Values,
    ViolationError,
    assert_dp,
    audit,
    exit_code,
)
from dpframe.builtin.program import Program
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.pool import Workers
from dpframe.draw.stated import StatedCheck
from dpframe.draw.streams import EVAL, Stream
from dpframe.errors import CellError
from dpframe.interfaces.mechanism import consent
from dpframe.report import findings, verdict_text
from dpframe.report.witness import as_tables
from dpframe.spec.audit import RunSettings

RANGE = 100.0  # of clipped logits; the loss of their softmax is at most 2 · RANGE / temperature
WORDS = ["ant", "bee", "cat"]
PLACES = 20


def logs_of(scores: Any) -> Any:
    return special.log_softmax(np.asarray(scores, np.float64), axis=-1)


class Choice(HostMechanism):
    """A choice of a word by clipped scores, which are the data."""

    epsilon: float = 2 * RANGE
    answer: ClassVar[Any] = staticmethod(lambda logs: dict(zip(WORDS, logs.tolist(), strict=True)))

    def claim(self, pair: Any) -> Any:
        return PureDP(self.epsilon)

    def choices(self, data: Any) -> Any:
        return self.answer(logs_of(np.clip(data, 0, RANGE)))

    def release(self, rng: Any, data: Any) -> Any:
        return WORDS[rng.choice(3, p=np.exp(logs_of(np.clip(data, 0, RANGE))))]


class Softmax(Choice, name="softmax"):
    """The right choice."""


FAR = Values(d0=[0.0, RANGE, RANGE], d1=[RANGE, 0.0, 0.0])
LOSS = RANGE + np.log(2)


def check(mechanism: Any, pair: Any = FAR) -> Any:
    stream = Stream(0, "group", 0, EVAL)
    return StatedCheck(mechanism, InProcessWorkers(), RunSettings(), stream).compare(pair)


def test_the_loss_is_computed() -> None:
    stated = check(Softmax(epsilon=101.0))
    assert stated.loss == pytest.approx(LOSS)
    assert (stated.exceeding, stated.pairs, stated.places) == (0, 1, 1)
    assert stated.draws == 1000
    assert stated.p_value > 1e-3
    assert "output 'ant'" in stated.words


def test_a_loss_above_the_claim() -> None:
    stated = check(Softmax(epsilon=100.0))
    assert stated.exceeding == 1
    assert stated.words.endswith("claimed 100")


@pytest.mark.parametrize("form", [np.asarray, list, lambda logs: [logs], lambda logs: logs[None]])
def test_forms_of_a_statement(form: Any) -> None:
    class Numbered(Choice, name="numbered"):
        def release(self, rng: Any, data: Any) -> Any:
            return WORDS.index(Softmax.release(self, rng, data))

    Numbered.answer = staticmethod(form)
    assert check(Numbered()).loss == pytest.approx(LOSS)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.exp, "add up to"),
        (lambda logs: logs - 1, "add up to 0.367879"),
        (lambda logs: None, "choices returns logarithms .* it returned NoneType"),
        (lambda logs: ["a", "b"], "some are not numbers"),
        (lambda logs: dict(zip(["ant", "bee"], logs[:2], strict=True)), "add up to|not state"),
        (lambda logs: np.array([0.0]), "not state an output"),
        (lambda logs: logs_of(np.random.default_rng().normal(size=3)), "two different|not state"),
    ],
)
def test_a_statement_that_cannot_be_used(answer: Any, message: str) -> None:
    class Wrong(Choice, name="wrong"):
        pass

    Wrong.answer = staticmethod(answer)
    with pytest.raises(CellError, match=message):
        check(Wrong())


def test_a_mechanism_that_samples_something_else() -> None:
    class Hotter(Choice, name="hotter"):
        def release(self, rng: Any, data: Any) -> Any:
            return WORDS[rng.choice(3, p=np.exp(logs_of(np.clip(data, 0, RANGE) / 50)))]

    near = Values(d0=[0.0, 1.0, 1.0], d1=[1.0, 0.0, 0.0])
    assert check(Softmax(), near).exceeding == 0
    with pytest.raises(CellError, match="does not sample from the distribution"):
        check(Hotter(), near)


def test_a_probability_that_float32_rounds_to_zero_is_not_impossible() -> None:
    class Rounded(Choice, name="rounded"):
        def choices(self, data: Any) -> Any:
            with np.errstate(divide="ignore", under="ignore"):
                chances = np.exp(logs_of(data)).astype(np.float32)
                return dict(zip(WORDS, np.log(chances), strict=True))

    far = Values(d0=[0.0, 105.0, 105.0], d1=[105.0, 0.0, 0.0])
    stated = check(Rounded(epsilon=106.0), far)  # the loss is 105 + ln 2
    assert stated.exceeding == 0
    assert stated.loss == 104


def test_the_rounding_of_half_precision_is_no_excess() -> None:
    class Half(Choice, name="half"):
        def choices(self, data: Any) -> Any:
            logs = logs_of(np.clip(data, 0, RANGE))
            return (logs * (1 + 5e-4)).astype(np.float16)

        def release(self, rng: Any, data: Any) -> Any:
            return WORDS.index(Softmax.release(self, rng, data))

    assert check(Half(epsilon=LOSS)).exceeding == 0
    assert check(Half(epsilon=LOSS - 1)).exceeding == 1


@pytest.mark.parametrize(("delta", "exceeding"), [(0.6, 0), (1e-6, 1)])
def test_a_claim_with_delta(delta: float, exceeding: int) -> None:
    class Approximate(Choice, name="approximate"):
        def claim(self, pair: Any) -> Any:
            return ApproxDP(1.0, delta)

    # δ(1) is .598, the part of the first word that e times its probability on D does not cover.
    stated = check(Approximate(), Values(d0=[0.0, 1.0, 1.0], d1=[3.0, 0.0, 0.0]))
    assert stated.exceeding == exceeding
    assert "δ is" in stated.words


@pytest.mark.parametrize(("mu", "exceeding"), [(3.0, 0), (0.5, 1)])
def test_a_claim_that_is_a_curve(mu: float, exceeding: int) -> None:
    class Gaussian(Choice, name="gaussian"):
        def claim(self, pair: Any) -> Any:
            return GaussianDP(mu)

    assert check(Gaussian(), Values(d0=[0.0, 1.0, 1.0], d1=[1.0, 0.0, 0.0])).exceeding == exceeding


class Sentence(Mechanism, name="sentence"):
    """A word for each place, drawn by JAX."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(self.epsilon)

    def choices(self, data: Any) -> Any:
        return jax.nn.log_softmax(jnp.clip(data, 0, RANGE), axis=-1)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        words = jax.random.categorical(key, jnp.clip(data, 0, RANGE), shape=(n, PLACES))
        return words.astype(data.dtype)


@pytest.mark.parametrize(
    ("epsilon", "verdict"), [(RANGE * PLACES + 1, "consistent"), (RANGE * PLACES - 1, "violated")]
)
def test_an_audit_of_a_fixed_pair(epsilon: float, verdict: str) -> None:
    spec = {
        "schema": 1,
        "audit": {"name": "stated", "trials": 1000},
        "pair": {
            "use": "values",
            "params": {"d0": [[0.0, RANGE]] * PLACES, "d1": [[RANGE, 0.0]] * PLACES},
        },
        "mechanism": [{"use": "sentence", "params": {"epsilon": epsilon}}],
        "attack": [{"use": "learned"}],
        "estimator": [{"use": "order-statistics"}],
        "run": {"fit": 100},
        "expect": [{"verdict": verdict}],
    }
    record = audit(spec, plugins=[Sentence])
    (cell,) = record.cells
    assert cell.status == "ok", cell.reason
    assert cell.verdict == "inconclusive"
    assert cell.stated.loss == pytest.approx(RANGE * PLACES)
    assert exit_code(record) == 0
    words = {
        "consistent": "No violation found for the claim, computed from the stated distribution",
        "violated": "The claim is violated, computed from the stated distribution",
    }
    assert words[verdict] in str(verdict_text.headline(record))
    found = [str(one) for one in findings.findings(record)]
    assert any("computed from" in one for one in found)
    (reason,) = (one for one in found if one.startswith("Reason"))
    assert reason.startswith(f"Reason: the loss is {RANGE * PLACES:.5g}")


def test_draws_that_found_nothing_do_not_explain_a_computed_violation() -> None:
    class Rare(HostMechanism, name="rare"):
        """A coin, and an output that almost never occurs, with a large loss."""

        def claim(self, pair: Any) -> PureDP:
            return PureDP(3.0)

        def choices(self, data: Any) -> Any:
            rare, often = (1e-6, 0.6) if data else (1e-12, 0.4)
            return np.log([1 - often - rare, often, rare])

        def release(self, rng: Any, data: Any) -> int:
            return int(rng.random() < (0.6 if data else 0.4))

    spec = {
        "schema": 1,
        "audit": {"name": "rare", "trials": 1000},
        "pair": {"use": "values", "params": {"d0": 0, "d1": 1, "adjacency": "replace"}},
        "mechanism": [{"use": "rare"}],
        "attack": [{"use": "answers"}],
        "estimator": [{"use": "order-statistics"}],
    }
    record = audit(spec, plugins=[Rare])
    (cell,) = record.cells
    assert cell.verdict == "consistent"
    assert cell.stated.verdict == "violated"
    assert cell.estimate.epsilon_lower < 1
    found = " ".join(map(str, findings.findings(record)))
    assert "Reason: the loss is 13.816, the most at output 2" in found
    assert "No violation found means" not in found


def test_a_program_states_its_choices(tmp_path: Any) -> None:
    path = tmp_path / "coin.py"
    path.write_text(
        "import random\n"
        "from math import log\n"
        "def prepare(params, data):\n"
        "    return lambda: 'heads' if random.random() < data else 'tails'\n"
        "def choices(params, data):\n"
        "    return {'heads': log(data), 'tails': log(1 - data)}\n"
    )
    consent(path)
    mechanism = Program.from_params({"module": str(path), "epsilon": 1.0})
    with Workers(1) as workers:
        stream = Stream(0, "group", 0, EVAL)
        stated = StatedCheck(mechanism, workers, RunSettings(), stream)
        record = stated.compare(Values(d0=0.75, d1=0.25))
    assert record.loss == pytest.approx(np.log(3))
    assert record.exceeding == 1


def test_search_of_a_test_ends_with_what_was_computed(tmp_path: Any) -> None:
    choice = Softmax()

    def release(rng: Any, data: Any) -> Any:
        return choice.release(rng, data)

    def audited(epsilon: float) -> Any:
        return assert_dp(
            release,
            d0=FAR.d0,
            d1=FAR.d1,
            epsilon=epsilon,
            choices=choice.choices,
            trials=500,
            out=tmp_path,
        )

    (cell,) = audited(LOSS + 1).cells
    assert cell.verdict == "inconclusive"
    assert verdict_text.state(cell) == "consistent"
    with pytest.raises(ViolationError, match="computed from the stated distribution") as found:
        audited(RANGE)
    (cell,) = found.value.record.cells
    assert cell.verdict == "inconclusive"
    assert as_tables(cell)["expect"] == [{"verdict": "violated"}]
    assert exit_code(found.value.record) == 1


def test_a_wrong_statement_is_not_green(tmp_path: Any) -> None:
    choice = Softmax()
    with pytest.raises(UndecidedError, match="does not state an output"):
        assert_dp(
            choice.release,
            d0=FAR.d0,
            d1=FAR.d1,
            epsilon=1000.0,
            choices=lambda data: {"ant": 0.0},
            trials=500,
            out=tmp_path,
        )
