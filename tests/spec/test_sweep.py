"""Sweeps: their axes, their cells, what they leave out, and how quickly."""

import pytest

from dpframe import ApproxDP
from dpframe.errors import SpecError

TWO = """\
[[mechanism]]
use = "rich"
params.epsilon = 3.0

"""


@pytest.fixture
def two(base):
    """A spec with the mechanisms plain and rich."""
    return base.replace("[[attack]]", TWO + "[[attack]]")


def points(audit):
    return [(c.mechanism.label, c.mechanism.value.epsilon, c.pair.value.dim) for c in audit.cells]


def test_defaults(load, base):
    audit = load(base)
    [cell] = audit.cells
    assert (audit.name, audit.multiplicity, audit.skipped) == ("small", "holm", ())
    assert (audit.run.precision, audit.run.chunk, audit.run.device) == ("float32", None, None)
    assert (cell.trials, cell.seed, cell.confidence, cell.repeat) == (1000, 0, 0.95, 0)
    assert (cell.delta, cell.expected, cell.swept) == (0.0, None, ())
    assert (cell.mechanism.use, cell.mechanism.distribution, cell.mechanism.version) == (
        "plain",
        "test",
        "1.0",
    )


def test_order_is_mechanism_then_sweep_then_attack(load, two):
    text = two.replace("[[estimator]]", '[[attack]]\nuse = "look"\n[[estimator]]')
    audit = load(text + '[sweep]\n"mechanism.epsilon" = [2.0, 1.0]\npair.dim = [5, 3]\n')
    half = [(e, d) for e in (2.0, 1.0) for d in (5, 3) for _ in range(2)]
    assert points(audit) == [(m, *point) for m in ("plain", "rich") for point in half]
    assert [cell.attack.label for cell in audit.cells[:4]] == ["guess", "look"] * 2
    assert audit.cells[2].swept == (("mechanism.epsilon", 2.0), ("pair.dim", 3))


QUOTED = '[sweep]\n"mechanism.epsilon" = [1.0, 2.0]\n"pair.dim" = [1, 2]\n"audit.seed" = [1, 2]'
FORMS = [
    "[sweep]\nmechanism.epsilon = [1.0, 2.0]\npair.dim = [1, 2]\naudit.seed = [1, 2]",
    "[sweep.mechanism]\nepsilon = [1.0, 2.0]\n[sweep.pair]\ndim = [1, 2]\n"
    '[sweep]\n"audit.seed" = [1, 2]',
    "[sweep]\nmechanism = { epsilon = [1.0, 2.0] }\npair = { dim = [1, 2] }\n"
    "audit = { seed = [1, 2] }",
]


@pytest.mark.parametrize("form", FORMS)
def test_quoted_and_nested_forms_are_equal(form, load, base):
    assert load(base + form).cells == load(base + QUOTED).cells


def test_the_pair_fills_defaults_and_the_claim_its_delta(load, two):
    audit = load(two + "[sweep]\npair.dim = [2, 7]")
    by_dim = {c.pair.value.dim: c for c in audit.cells if c.mechanism.label == "rich"}
    assert by_dim[7].mechanism.value.sensitivity == 7.0
    assert by_dim[2].claim == ApproxDP(3.0, 1e-5)
    assert by_dim[2].delta == 1e-5
    audit = load(two.replace("trials", "delta = 0\ntrials"))
    assert {cell.delta for cell in audit.cells} == {0.0}


def test_no_claim_is_no_mistake(load, base):
    [cell] = load(base.replace('"plain"\nparams.epsilon = 1.0', '"fussy"')).cells
    assert (cell.claim, cell.delta) == (None, 0.0)


def test_audit_keys_are_swept(load, base):
    text = base.replace("trials = 1000\n", "")
    audit = load(text + "[sweep.audit]\ntrials = [10, 20]\nconfidence = [0.9]\ndelta = [0, 0.1]")
    assert [(c.trials, c.confidence, c.delta) for c in audit.cells] == [
        (10, 0.9, 0.0),
        (10, 0.9, 0.1),
        (20, 0.9, 0.0),
        (20, 0.9, 0.1),
    ]


def test_a_required_parameter_may_come_from_the_sweep(load, base):
    text = base.replace("params.epsilon = 1.0\n", "")
    assert len(load(text + "[sweep]\nmechanism.epsilon = [1, 2]").cells) == 2


def test_a_list_outside_the_sweep_is_a_list(load, base):
    text = base.replace('"plain"', '"rich"\nparams.shape = [1, 2]')
    [cell] = load(text).cells
    assert cell.mechanism.value.shape == (1, 2)
    audit = load(text + "[sweep]\nmechanism.shape = [[1, 2], []]")
    assert [cell.mechanism.value.shape for cell in audit.cells] == [(1, 2), ()]


def test_what_lacks_a_swept_parameter_is_skipped_with_the_reason(load, two):
    audit = load(two + '[sweep]\n"mechanism.mode" = ["zero", "keep"]')
    assert [cell.mechanism.label for cell in audit.cells] == ["rich", "rich"]
    [skip] = audit.skipped
    assert (skip.mechanism, skip.pair, skip.attack, skip.estimator) == (
        "plain",
        "line",
        "guess",
        "rate",
    )
    assert skip.reason == "mechanism 'plain' has no parameter 'mode', which the sweep varies"


def test_attacks_are_skipped_alike(load, base):
    text = base.replace("[[estimator]]", '[[attack]]\nuse = "look"\n[[estimator]]')
    audit = load(text + "[sweep]\nattack.threshold = [0, 1]")
    assert [cell.attack.value.threshold for cell in audit.cells] == [0.0, 1.0]
    assert [skip.attack for skip in audit.skipped] == ["look"]


SWEEPS = {
    "key that nothing has": (
        "mechanism.epsilom = [1]",
        "spec.toml:20: sweep.mechanism.epsilom: no mechanism of this spec has a parameter "
        "'epsilom'\n   20 | mechanism.epsilom = [1]\n"
        "   accepts: mechanism.epsilon; did you mean 'mechanism.epsilon'?",
    ),
    "key of nothing": (
        '"mechansm.epsilon" = [1]',
        'spec.toml:20: sweep."mechansm.epsilon": cannot be swept\n   20 | "mechansm.epsilon" = '
        "[1]\n   accepts: mechanism.epsilon, attack.threshold, pair.dim, audit.seed, audit.trials,"
        " audit.delta, audit.confidence; did you mean 'mechanism.epsilon'?",
    ),
    "key without a dot": ("epsilon = [1]", "spec.toml:20: sweep.epsilon: cannot be swept"),
    "key of the run": ("run.chunk = [1]", "spec.toml:20: sweep.run.chunk: cannot be swept"),
    "audit key": ("audit.name = ['a']", "spec.toml:20: sweep.audit.name: cannot be swept"),
    "empty table": ("mechanism = {}", "spec.toml:20: sweep.mechanism: "),
    "empty list": (
        "pair.dim = []",
        "spec.toml:20: sweep.pair.dim: is an empty list, so there is nothing to run",
    ),
    "scalar": ("pair.dim = 3", "spec.toml:20: sweep.pair.dim: should be a list of values, got 3"),
    "value": (
        "pair.dim = [1, 2, 0]",
        "spec.toml:20: sweep.pair.dim[2]: should be greater than or equal to 1, got 0",
    ),
    "value of the audit": (
        "audit.trials = [1, 0]",
        "spec.toml:20: sweep.audit.trials[1]: should be greater than or equal to 1, got 0",
    ),
    "repetition": (
        "mechanism.epsilon = [1, 2, 1.0]",
        "spec.toml:20: sweep.mechanism.epsilon[2]: 1.0 is already entry 0 of this list",
    ),
    "both forms": (
        '"pair.dim" = [1]\npair.dim = [2]',
        'spec.toml:21: sweep.pair.dim: is already swept by sweep."pair.dim"',
    ),
    "too many cells": (
        f"pair.dim = {list(range(1, 1102))}\nmechanism.epsilon = {list(range(1, 1102))}",
        "spec.toml:19: sweep: makes 1,212,201 cells; dpframe takes up to 200,000",
    ),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_mistakes(name, base, mistakes):
    sweep, message = SWEEPS[name]
    found = mistakes(f"{base}[sweep]\n{sweep}\n")
    assert len(found) == 1, found
    assert found[0].startswith(message)


def test_sweep_that_is_no_table(base, mistakes):
    [message] = mistakes("sweep = 3\n" + base)
    assert message.startswith("spec.toml:1: sweep: should be a table, got 3")


def test_wrong_value_that_the_sweep_replaces_is_still_wrong(base, mistakes):
    text = base.replace("= 1.0", '= "x"') + "[sweep]\nmechanism.epsilon = [1]"
    [message] = mistakes(text)
    assert message.startswith("spec.toml:12: mechanism[0].params.epsilon: should be a number")


def test_no_cell_left(mistakes, base):
    text = base.replace("[[attack]]", '[[mechanism]]\nuse = "fussy"\n[[attack]]')
    [message] = mistakes(text + '[sweep]\nmechanism.how = ["well"]\nmechanism.epsilon = [1]')
    assert message.startswith("spec.toml:21: sweep: no cell is left\n   21 | [sweep]\n   mechanism")


def test_repeats(load, base):
    cells = load(base, overrides=["audit.repeats=3"]).cells
    assert [cell.repeat for cell in cells] == [0, 1, 2]
    assert len({cell.id for cell in cells}) == 3
    assert cells[0].id == load(base).cells[0].id


@pytest.mark.parametrize(("dims", "repeats"), [(126, 1), (126, 20), (2500, 1)])
def test_many_cells_have_distinct_ids(dims, repeats, load, base):
    text = base + f"[sweep]\nmechanism.epsilon = [1, 2]\naudit.seed = {list(range(dims))}"
    cells = load(text, overrides=[f"audit.repeats={repeats}"]).cells
    assert len({cell.id for cell in cells}) == len(cells) == 2 * dims * repeats


def test_a_key_of_a_plugin_that_is_unknown_is_no_second_mistake(base, mistakes):
    text = base.replace('"plain"', '"plan"').replace("params.epsilon", "params.x")
    [message] = mistakes(text + "[sweep]\nmechanism.epsilon = [1]")
    assert message.startswith("spec.toml:11: mechanism[0].use: unknown mechanism 'plan'")


def test_values_that_the_sweep_completes_or_mends_are_no_mistake(load, base):
    rich = base.replace('"plain"\nparams.epsilon = 1.0', '"rich"\nparams.{}')
    swept = "[sweep]\nmechanism.epsilon = [1, 2]\nmechanism.mode = ['zero', 'keep']"
    assert len(load(rich.format("mode = 'keep'") + swept).cells) == 4
    # On its own, epsilon = 101 does not go with this mode.
    assert len(load(rich.format("mode = 'keep'\nparams.epsilon = 101") + swept).cells) == 4


def test_what_is_skipped_may_be_expected_all_the_same(load, two):
    """By rules about its labels, the last of which counts; a value it lacks is not about it."""

    def expected(*rules):
        tables = [f'[[expect]]\nwhere = {where}\nverdict = "{said}"\n' for where, said in rules]
        [skip] = load(two + '[sweep]\n"mechanism.mode" = ["keep"]\n' + "".join(tables)).skipped
        return skip.expected

    assert expected() is None
    assert expected(("{}", "consistent")) == "consistent"
    assert expected(("{}", "consistent"), ('{ attack = "guess" }', "violated")) == "violated"
    assert expected(('{ mechanism = "rich" }', "consistent")) is None
    assert expected(('{ "mechanism.mode" = "keep" }', "consistent")) is None


def test_a_rule_about_nothing_but_what_is_skipped_matches_no_cell(load, two):
    rule = '[[expect]]\nwhere = { mechanism = "plain" }\nverdict = "violated"\n'
    with pytest.raises(SpecError, match="matches no cell"):
        load(two + '[sweep]\n"mechanism.mode" = ["keep"]\n' + rule)
