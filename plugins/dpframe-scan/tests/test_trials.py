"""Find and call callables of a package that is written for these tests."""

from __future__ import annotations

import dataclasses
import time

import pytest
from dpframe_scan import data_plans, guesses, proposals, trials
from dpframe_scan.callables import Parameter, Target
from dpframe_scan.programs import adapter
from dpframe_scan.sources import source_of
from dpframe_scan.trials import Called, Interpreter


@pytest.fixture(scope="module")
def targets(interpreter: Interpreter) -> dict[str, Target]:
    found, _ = interpreter.targets()
    return {one.title: one for one in found}


def call(target: Target, interpreter: Interpreter) -> Called:
    return trials.call(target, interpreter, time.monotonic() + 600)


def test_callables_with_a_budget_are_found_under_their_shortest_name(
    targets: dict[str, Target],
) -> None:
    audited = sorted(one.name for one in targets.values() if one.is_audited)
    assert audited == [
        "tinydp.Laplace",
        "tinydp.Means",
        "tinydp.Report",
        "tinydp.accounting.composed",
        "tinydp.mechanisms.Accountant",
        "tinydp.tools.compute_sigma",
        "tinydp.tools.dp_sum",
        "tinydp.tools.licensed",
        "tinydp.tools.unit_sum",
        "tinydp.tools.wrong_sum",
    ]


def test_a_module_that_cannot_be_imported_is_named(interpreter: Interpreter) -> None:
    _, failed = interpreter.targets()
    (line,) = failed
    assert line.startswith("tinydp.broken: ModuleNotFoundError")


@pytest.mark.parametrize(
    ("name", "outcome", "reason"),
    [
        ("dp_sum", "release", ""),
        ("wrong_sum", "release", ""),
        ("Laplace", "release", ""),
        ("Report", "release", ""),
        ("Means", "release", ""),
        ("composed", "not a mechanism", "it accounts for budgets"),
        ("Accountant", "not a mechanism", "it accounts for budgets"),
        ("compute_sigma", "not a mechanism", "it computes a parameter"),
        ("licensed", "not called", "RuntimeError: no licence"),
    ],
)
def test_the_outcome_of_trial_calls(
    targets: dict[str, Target], interpreter: Interpreter, name: str, outcome: str, reason: str
) -> None:
    found = call(targets[name], interpreter)
    assert (found.outcome, found.reason[: len(reason)]) == (outcome, reason)


def test_documented_neighbours_and_bounds_are_used(
    targets: dict[str, Target], interpreter: Interpreter
) -> None:
    proposal = call(targets["dp_sum"], interpreter).proposal
    assert proposal is not None
    assert proposal.data.adjacency == "replace"
    assert "bounds=(0.0, 10.0)" in source_of(proposal)


def test_undocumented_neighbours_are_said_to_be_unknown(
    targets: dict[str, Target], interpreter: Interpreter
) -> None:
    proposal = call(targets["wrong_sum"], interpreter).proposal
    assert proposal is not None
    assert proposal.data.adjacency == "unknown"
    assert any(text.startswith("Neighbours are not documented") for text in proposal.sentences)


def test_a_callable_that_is_not_told_the_bounds_is_violated_only_if_it_allows_them(
    targets: dict[str, Target], interpreter: Interpreter
) -> None:
    told, untold = (call(targets[name], interpreter).proposal for name in ("dp_sum", "unit_sum"))
    assert told is not None
    assert told.conditions == ()
    assert untold is not None
    assert untold.conditions == (guesses.UNBOUNDED,)


def test_a_message_about_integers_changes_the_sensitivity(
    targets: dict[str, Target], interpreter: Interpreter
) -> None:
    proposal = call(targets["Laplace"], interpreter).proposal
    assert proposal is not None
    assert (proposal.arguments["sensitivity"], proposal.data.adjacency) == ("1", "sensitivity")


def test_a_local_report_has_neighbours_that_are_in_its_domain_from_0_or_from_1(
    targets: dict[str, Target], interpreter: Interpreter
) -> None:
    proposal = call(targets["Report"], interpreter).proposal
    assert proposal is not None
    assert (proposal.data.form, proposal.data.adjacency) == ("record", "any")
    assert proposal.data.schema[0]["categories"] == [1, 2, 3]


def test_a_model_releases_what_its_documentation_calls_an_attribute_but_no_training_labels(
    targets: dict[str, Target], interpreter: Interpreter
) -> None:
    proposal = call(targets["Means"], interpreter).proposal
    assert proposal is not None
    assert proposal.answer == ("theta_",)


def test_no_conversion_of_the_scan_itself_can_raise(targets: dict[str, Target]) -> None:
    plans = [one.data for one in proposals.proposals(targets["Means"])]
    (labelled,) = [one for one in plans if "dtype=int" in one.inputs["y"]]
    assert labelled.schema[-1] == data_plans.CLASSES
    whole = Parameter("values", "", True, None, "list[int]", "")
    context = data_plans.Context(targets["dp_sum"], "", frozenset())
    for plan in data_plans.data_plans([whole], context):
        if any("int" in text for text in plan.inputs.values()):
            (column,) = plan.schema
            assert (column["nan"], column["out_of_bounds"]) == (False, False)


def test_an_interpreter_that_hangs_is_started_again(
    targets: dict[str, Target], interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = call(targets["dp_sum"], interpreter).proposal
    assert proposal is not None
    endless = dataclasses.replace(proposal.data, inputs={"array": "[0 for _ in iter(int, 1)]"})
    monkeypatch.setattr(trials, "CALL_SECONDS", 0.2)
    outcome = interpreter.tried(dataclasses.replace(proposal, data=endless))
    assert outcome["raised"] == "TimeoutError"
    monkeypatch.setattr(trials, "CALL_SECONDS", 600.0)
    assert interpreter.tried(proposal)["random"]


def test_a_callable_that_rarely_changes_its_answer_is_random() -> None:
    source = (
        "import random\n\nseeded = random.Random(0)\n\n\n"
        "def release(data):\n    return data if seeded.random() < 0.95 else None\n"
    )
    assert adapter.tried(source, [0, 1])["random"]
    assert not adapter.tried("def release(data):\n    return data\n", [0, 1])["random"]


def test_the_address_of_an_object_is_no_answer() -> None:
    source = "kept = []\n\n\ndef release(data):\n    kept.append(object())\n    return kept[-1]\n"
    assert not adapter.tried(source, [0, 1])["random"]


@pytest.mark.parametrize(
    "made", ["[(1, 2)]", "((1, 2),)", "zip([1], [2])", "(one for one in [[1, 2]])"]
)
def test_the_type_of_a_sequence_is_no_part_of_an_answer(made: str) -> None:
    source = f"def release(data):\n    return {made}\n"
    assert adapter.prepare({"source": source}, [0])() == [[1, 2]]
