"""The [[expect]] rules."""

import pytest

SWEPT = """\
[sweep]
mechanism.epsilon = [1, 2.0]
pair.dim = [1, 2, 3]
"""


@pytest.fixture
def verdicts(load, base):
    """Expected verdicts by (ε, dim), for rules given as `where` and verdict."""

    def verdicts(*rules, **options):
        tables = [f'[[expect]]\nwhere = {where}\nverdict = "{said}"\n' for where, said in rules]
        cells = load(base + SWEPT + "".join(tables), **options).cells
        return {(c.mechanism.value.epsilon, c.pair.value.dim): c.expected for c in cells}

    return verdicts


def test_a_rule_without_conditions_is_for_every_cell(load, base):
    cells = load(base + SWEPT + '[[expect]]\nverdict = "consistent"\n').cells
    assert {cell.expected for cell in cells} == {"consistent"}


def test_the_last_rule_that_matches_counts(verdicts):
    found = verdicts(
        ('{ mechanism = "plain" }', "consistent"),
        ('{ "mechanism.epsilon" = 2, "pair.dim" = [2, 3.0] }', "violated"),
        ('{ "pair.dim" = 3 }', "inconclusive"),
    )
    assert found == {
        (1.0, 1): "consistent",
        (1.0, 2): "consistent",
        (1.0, 3): "inconclusive",
        (2.0, 1): "consistent",
        (2.0, 2): "violated",
        (2.0, 3): "inconclusive",
    }


@pytest.mark.parametrize(
    "where",
    [
        '{ "mechanism.epsilon" = 1 }',
        '{ "mechanism.epsilon" = 1.0 }',
        '{ "mechanism.epsilon" = [1.0, 7] }',
        "{ mechanism.epsilon = 1 }",
        '{ mechanism.epsilon = 1, attack = "guess", estimator = ["rate"], pair = "line" }',
        '{ mechanism.epsilon = 1, pair = "test/line" }',
    ],
)
def test_forms_of_where(where, verdicts):
    found = verdicts((where, "violated"))
    assert {point for point, verdict in found.items() if verdict} == {(1.0, d) for d in (1, 2, 3)}


def test_a_list_may_be_one_of_the_swept_values(load, base):
    text = base.replace('"plain"', '"rich"') + "[sweep]\nmechanism.shape = [[1], [2], [1, 2]]\n"
    rule = '[[expect]]\nwhere = {{ mechanism.shape = {} }}\nverdict = "violated"\n'
    one = load(text + rule.format("[1, 2]")).cells
    assert [cell.expected for cell in one] == [None, None, "violated"]
    two = load(text + rule.format("[[1], [2]]")).cells
    assert [cell.expected for cell in two] == ["violated", "violated", None]


WRONG = {
    '{ mechanism = "plan" }': (
        'expect[0].where.mechanism: no mechanism is called "plan"',
        "accepts: plain; did you mean 'plain'?",
    ),
    '{ mechanism = ["plain", 3] }': ("expect[0].where.mechanism[1]: no mechanism is called 3",),
    '{ pair = "variant" }': ('expect[0].where.pair: no pair is called "variant"',),
    "{ dim = 1 }": (
        "expect[0].where.dim: is neither a label nor swept",
        "accepts: mechanism, attack, estimator, pair, mechanism.epsilon, pair.dim; "
        "did you mean 'pair.dim'?",
    ),
    '{ "audit.seed" = 0 }': ('expect[0].where."audit.seed": is neither a label nor swept',),
    '{ "pair.dim" = 7 }': ("expect[0].where: matches no cell", "pair.dim takes: 1, 2, 3"),
    '{ "pair.dim" = true }': ("expect[0].where: matches no cell", "pair.dim takes: 1, 2, 3"),
    '{ "pair.dim" = "1" }': ("expect[0].where: matches no cell", "pair.dim takes: 1, 2, 3"),
    '{ "pair.dim" = [] }': ("expect[0].where: matches no cell",),
}


@pytest.mark.parametrize("where", WRONG)
def test_a_rule_that_means_nothing(where, base, mistakes):
    text = f'{base}{SWEPT}[[expect]]\nwhere = {where}\nverdict = "violated"'
    [message] = mistakes(text)
    first, *hints = WRONG[where]
    lines = message.split("\n")
    assert lines[0] == f"spec.toml:23: {first}"
    if hints:
        assert lines[2:] == [f"   {hint}" for hint in hints]


def test_overrides_may_leave_a_rule_without_cells(verdicts):
    rules = [('{ "pair.dim" = 3 }', "violated"), ('{ "mechanism.epsilon" = 1 }', "consistent")]
    assert verdicts(*rules, overrides=["pair.dim=1"]) == {(1.0, 1): "consistent", (2.0, 1): None}
    assert verdicts(*rules, overrides=["pair.dim=3"])[2.0, 3] == "violated"
    assert verdicts(*rules, overrides=["pair.dim=[3]"])[2.0, 3] == "violated"
    assert verdicts(*rules, overrides=["pair.dim=[8]"])[2.0, 8] is None
    # An integer where the sweep had one and a float that equals it are the same condition.
    assert verdicts(*rules, overrides=["mechanism.epsilon=1.0"])[1.0, 2] == "consistent"
