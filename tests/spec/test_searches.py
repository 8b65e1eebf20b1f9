"""Searches: what a mechanism has of its own in place of [search]."""

import pytest

from dpframe.errors import SpecError
from dpframe.interfaces import registry as registries
from dpframe.spec import load_audit

SEARCH = """\
schema = 1
audit = { name = "small", trials = 1000 }

[search]
use = "patterns"
params = { length = 3, low = 0.0, high = 10.0, adjacency = "one-by-one" }

[[mechanism]]
use = "laplace"
label = "shared"
params = { epsilon = 1.0, sensitivity = 1.0 }

[[mechanism]]
use = "laplace"
label = "own"
params = { epsilon = 1.0, sensitivity = 1.0 }
search.params = { length = 2, high = 5.0 }

[[mechanism]]
use = "laplace"
label = "another"
params = { epsilon = 1.0, sensitivity = 1.0 }
search.use = "random"
search.params = { length = 4, low = 0.0, high = 1.0, adjacency = "one-by-one" }
"""
SHARED = SEARCH.partition("[search]")[2].partition("[[mechanism]]")[0]


def neighbourhoods(audit):
    return {
        cell.mechanism.label: (cell.search.neighbourhood.use, cell.search.neighbourhood.value)
        for cell in audit.cells
    }


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a spec of built-ins from its text."""
    monkeypatch.setenv("DPFRAME_NO_PLUGINS", "1")
    registry = registries.load()

    def load(text, **options):
        (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
        return load_audit(tmp_path / "spec.toml", registry=registry, **options)

    return load


def test_a_mechanism_goes_by_its_own_search_and_takes_the_rest_from_the_shared_one(load):
    found = neighbourhoods(load(SEARCH))
    assert {label: use for label, (use, _) in found.items()} == {
        "shared": "patterns",
        "own": "patterns",
        "another": "random",
    }
    values = {label: value for label, (_, value) in found.items()}
    assert (values["shared"].length, values["shared"].high) == (3, 10.0)
    assert (values["own"].length, values["own"].high, values["own"].low) == (2, 5.0, 0.0)
    assert (values["another"].length, values["another"].high) == (4, 1.0)


def test_cells_are_known_by_the_data_they_search_on(load):
    before, after = load(SEARCH), load(SEARCH.replace("length = 2", "length = 3"))
    same = [one.id == other.id for one, other in zip(before.cells, after.cells, strict=True)]
    assert same == [True, False, True]
    assert [cell.pair.value.d0.shape for cell in before.cells] == [(3,), (2,), (4,)]


def test_a_shared_search_that_nobody_goes_by_need_not_be_whole(load):
    text = SEARCH.replace(SHARED, '\nuse = "patterns"\n')
    whole = "search.params = { length = 2, low = 0.0, high = 5.0, adjacency = 'one-by-one' }"
    text = text.replace('label = "shared"', f'label = "shared"\n{whole}')
    text = text.replace("search.params = { length = 2, high = 5.0 }", whole)
    assert [cell.pair.value.d0.shape for cell in load(text).cells] == [(2,), (2,), (4,)]


def test_what_is_set_for_the_search_holds_for_all_that_have_it(load):
    values = neighbourhoods(load(SEARCH, overrides=["search.high=7.0"])).values()
    assert {value.high for _, value in values} == {7.0}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("length = 2, high", "lenght = 2, high", "mechanism[1].search.params.lenght: unknown"),
        ('search.use = "random"', 'search.use = "randon"', "unknown neighbourhood 'randon'"),
        ("search.params = { length = 2", "search.parms = { length = 2", "unknown key"),
        ('label = "own"', 'label = "shared"', "already used by mechanism[0]"),
    ],
)
def test_mistakes_are_told_where_they_are(old, new, said, load):
    with pytest.raises(SpecError) as caught:
        load(SEARCH.replace(old, new))
    assert said in str(caught.value)


def test_data_of_its_own_are_no_use_without_a_search(load):
    text = SEARCH.replace(f"[search]{SHARED}", '[pair]\nuse = "zeros-ones"\n\n')
    text += '[[attack]]\nuse = "identity"\n[[estimator]]\nuse = "precision"\n'
    with pytest.raises(SpecError) as caught:
        load(text)
    assert "mechanism[1].search: overrides keys of [search], which is missing" in str(caught.value)
