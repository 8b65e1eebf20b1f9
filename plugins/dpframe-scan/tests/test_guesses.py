"""Right callables that invite wrong guesses: each guess is a condition of a violation."""

from __future__ import annotations

import time

import pytest
import tomli
from dpframe_scan import findings, guesses, search, trials
from dpframe_scan.callables import Target
from dpframe_scan.trials import Called, Interpreter

SUMS = ("bounded_sum", "filled_sum")


@pytest.fixture(scope="module")
def targets(right: Interpreter) -> dict[str, Target]:
    found, _ = right.targets()
    return {one.title: one for one in found}


def call(target: Target, interpreter: Interpreter) -> Called:
    return trials.call(target, interpreter, time.monotonic() + 600)


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("repeated_count", guesses.GUESSED_DOMAIN),
        ("repeated_count", guesses.domain("m")),
        ("noisy_pair", guesses.GUESSED_DOMAIN),
        ("most_frequent", guesses.SCORES),
        ("histogram", guesses.NUMBERS),
        ("above", guesses.UNBOUNDED),
        ("of_sample", "it keeps its claim with sample_rate = 0.5"),
        ("copies", "it keeps its claim with size = 10"),
        ("shared", "it keeps its claim with sensitivity = 0.5"),
        ("gaussian_sum", guesses.PURE),
        ("columns", "epsilon is the budget of the whole answer"),
        ("classified_sums", guesses.CLASSES),
        ("degree_sum", "it promises this, although its documentation speaks of 'edge-level'"),
        ("encode", "it makes a release, and is no step before one"),
    ],
)
def test_what_is_not_documented_is_a_condition(
    targets: dict[str, Target], right: Interpreter, name: str, condition: str
) -> None:
    found = call(targets[name], right)
    assert found.outcome == "release"
    assert found.proposal is not None
    assert condition in found.proposal.conditions


def test_a_domain_that_an_exception_confirms_is_no_condition(
    targets: dict[str, Target], right: Interpreter
) -> None:
    proposal = call(targets["Client"], right).proposal
    assert proposal is not None
    assert proposal.conditions == ()


def test_both_bounds_are_passed_if_one_has_a_default(
    targets: dict[str, Target], right: Interpreter
) -> None:
    proposal = call(targets["bounded_sum"], right).proposal
    assert proposal is not None
    given = proposal.arguments
    assert (given["lower"], given["upper"]) == ("0.0", "10.0")


def test_a_delta_of_0_is_not_taken_for_a_promise_of_gaussian_noise(
    targets: dict[str, Target], right: Interpreter
) -> None:
    proposal = call(targets["gaussian_count"], right).proposal
    assert proposal is not None
    assert proposal.claim["delta"] > 0


def test_a_sentence_about_missing_records_names_no_neighbours(
    targets: dict[str, Target], right: Interpreter
) -> None:
    proposal = call(targets["filled_sum"], right).proposal
    assert proposal is not None
    assert proposal.data.adjacency == "unknown"


def test_no_option_that_switches_privacy_off_is_tried(
    targets: dict[str, Target], right: Interpreter
) -> None:
    assert call(targets["Switched"], right).variants == ()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("standardised", "eps: its default, 1e-08, is that of a numerical constant"),
        ("clusters", "eps: its documentation speaks of 'distance'"),
        ("regression", "epsilon: its documentation speaks of 'tube'"),
        ("solved", "epsilon: its documentation speaks of 'toleranc'"),
        ("huber", "delta: a δ without an ε is not documented as one"),
    ],
)
def test_an_epsilon_that_is_no_budget_is_listed_and_never_called(
    targets: dict[str, Target], right: Interpreter, name: str, reason: str
) -> None:
    found = call(targets[name], right)
    assert (found.outcome, found.reason) == ("not a budget", reason)


def test_a_callable_without_a_claim_of_its_own_is_not_called(
    targets: dict[str, Target], right: Interpreter
) -> None:
    found = call(targets["Converted"], right)
    assert found.outcome == "not called"
    assert "known to make a release: epsilon_of, privatise" in found.reason


def test_no_record_lies_beyond_bounds_that_the_caller_ensures(
    targets: dict[str, Target], right: Interpreter
) -> None:
    stages = {name: [*search.stages(call(targets[name], right))] for name in SUMS}
    assert stages == {"bounded_sum": ["within"], "filled_sum": ["within", "beyond"]}


def test_the_methods_of_a_builder_set_its_budget(
    targets: dict[str, Target], right: Interpreter
) -> None:
    found = call(targets["Builder"], right)
    assert found.outcome == "release"
    assert found.proposal is not None
    assert found.proposal.conditions == ()
    assert found.proposal.claim == {"epsilon": 1.0}
    assert [*found.proposal.setters] == ["set_epsilon.epsilon", "set_sensitivity.sensitivity"]
    text = findings.assumptions([found], "rightdp")
    assert findings.applied(found.proposal, "rightdp.Builder", tomli.loads(text)["rightdp.Builder"])


def test_modules_of_a_folder_without_an_init_are_found(
    targets: dict[str, Target], right: Interpreter
) -> None:
    assert call(targets["noisy"], right).outcome == "release"
