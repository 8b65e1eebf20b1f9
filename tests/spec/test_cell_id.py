"""Ids: the same cell keeps its id, another cell has another one."""

import re

import pytest

from dpframe.spec.audit import cell_ids


@pytest.fixture
def ids(load):
    def ids(text, **options):
        return {cell.id for cell in load(text, **options).cells}

    return ids


def test_slug(load, base):
    text = base.replace('"plain"', '"plain"\nlabel = "DPText, π: NaN → zero"')
    [first, second] = load(text + "[sweep]\nmechanism.epsilon = [0.1, 10]").cells
    assert re.fullmatch(r"dptext-nan-zero-guess-rate-epsilon-0\.1-[0-9a-f]{12}", first.id)
    assert second.id.startswith("dptext-nan-zero-guess-rate-epsilon-10-")


def test_position_and_common_settings_do_not_count(ids, base):
    swept = base + "[sweep]\nmechanism.epsilon = [1, 2]\npair.dim = [1, 2]\n"
    turned = base + "[sweep]\npair.dim = [2, 1]\nmechanism.epsilon = [2, 1]\n"
    moved = swept.replace("[[mechanism]]", '[[mechanism]]\nuse = "fussy"\n[[mechanism]]')
    settings = ["audit.confidence=0.9", "audit.delta=0.1", "run.chunk=64"]
    assert ids(swept, overrides=settings, trials=5, seed=6) == ids(swept)
    assert {re.sub(r"[a-z].*-", "", one) for one in ids(turned)} == {
        re.sub(r"[a-z].*-", "", one) for one in ids(swept)
    }, "the order of axes changes the slug at most"
    assert ids(moved.replace("mechanism.epsilon = [1, 2]\n", "")) >= ids(
        swept.replace("mechanism.epsilon = [1, 2]\n", "")
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= 1.0", "= 1.5"),
        ('"plain"', '"plain"\nlabel = "other"'),
        ('use = "plain"', 'use = "rich"\nlabel = "plain"'),
        ('"line"', '"line"\nparams.dim = 2'),
        ('"guess"', '"guess"\nparams.threshold = 0.25'),
        ('use = "rate"', 'use = "rate"\n[sweep]\naudit.seed = [0]'),
    ],
)
def test_what_a_cell_is_counts(old, new, ids, base):
    assert ids(base).isdisjoint(ids(base.replace(old, new)))


def test_equal_numbers_are_the_same_cell(ids, base):
    sweep = "[sweep]\nmechanism.epsilon = [{}]\n"
    assert ids(base + sweep.format("1, 20")) == ids(base + sweep.format("1.0, 2e1"))


def test_equal_slugs_differ_in_the_hash():
    [one] = cell_ids(["a b"], [], [], 1)
    [other] = cell_ids(["a-b"], [], [], 1)
    assert one != other
    assert one[:3] == other[:3]
    assert "-r7-" in cell_ids(["a"], [], [], 8)[7]


def test_ids_are_file_names_of_bounded_length():
    ids = cell_ids(["/" * 50, "ü" * 300], [], [("mechanism.mode", "../x")], 1_001)
    assert re.fullmatch(r"[a-z0-9.-]{1,127}", ids[-1])


def test_golden():
    """A change of ids loses every stored comparison: it needs a reason and a changelog entry."""
    what = ["laplace", "vote", "precision"], [["x", {"epsilon": 0.1}]], [("p.d", 2)]
    assert cell_ids(*what, 1) == ["laplace-vote-precision-d-2-3a0d3221398d"]
