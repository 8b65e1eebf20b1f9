"""`--set`, `--trials` and `--seed`."""

import pytest

SWEPT = '[sweep]\nmechanism.epsilon = [1, 2]\n"pair.dim" = [3, 4]\naudit.seed = [1, 2]\n'


@pytest.fixture
def two(base):
    """A spec with the mechanisms plain and rich."""
    return base.replace("[[attack]]", '[[mechanism]]\nuse = "rich"\nparams.epsilon = 3\n[[attack]]')


def test_audit_and_run(load, base):
    overrides = ["audit.name=other", "audit.delta=1e-6", "run.precision=float64", "run.seconds=2"]
    audit = load(base, overrides=overrides)
    assert (audit.name, audit.cells[0].delta) == ("other", 1e-6)
    assert (audit.run.precision, audit.run.seconds) == ("float64", 2.0)


def test_a_scalar_sets_the_parameter_of_every_plugin_that_has_it(load, two):
    cells = load(two, overrides=["mechanism.epsilon = 5", "mechanism.mode=keep"]).cells
    assert [cell.mechanism.value.epsilon for cell in cells] == [5.0, 5.0]
    assert cells[1].mechanism.value.mode == "keep"
    assert load(two, overrides=["pair.dim=9"]).cells[0].pair.value.dim == 9
    assert load(two, overrides=["attack.threshold=0"]).cells[0].attack.value.threshold == 0.0


def test_a_scalar_replaces_a_sweep(load, base):
    cells = load(
        base + SWEPT, overrides=["mechanism.epsilon=7", "pair.dim=1", "audit.seed=5"]
    ).cells
    assert [(c.mechanism.value.epsilon, c.pair.value.dim, c.seed) for c in cells] == [(7.0, 1, 5)]
    assert cells[0].swept == ()


def test_a_list_replaces_the_values_of_a_sweep_in_its_place(load, base):
    cells = load(base + SWEPT, overrides=["mechanism.epsilon=[9]", "audit.seed=5"]).cells
    assert [cell.swept for cell in cells] == [
        (("mechanism.epsilon", 9), ("pair.dim", 3)),
        (("mechanism.epsilon", 9), ("pair.dim", 4)),
    ]


def test_a_list_on_a_plain_parameter_is_a_sweep(load, base):
    assert len(load(base, overrides=["pair.dim=[1, 2]", "audit.trials=[10, 20]"]).cells) == 4


def test_a_list_for_a_parameter_that_is_a_list(load, two):
    cells = load(two, overrides=["mechanism.shape=[1, 2]"]).cells
    assert [getattr(cell.mechanism.value, "shape", None) for cell in cells] == [None, (1, 2)]


def test_the_last_override_counts(load, base):
    text = base + SWEPT
    assert len(load(text, overrides=["pair.dim=1", "pair.dim=[5, 6, 7]"]).cells) == 12
    cells = load(text, overrides=["pair.dim=[5, 6, 7]", "pair.dim=1"]).cells
    assert {cell.pair.value.dim for cell in cells} == {1}


def test_trials_and_seed_come_last_and_replace_sweeps(load, base):
    text = base.replace("trials = 1000\n", "") + SWEPT + "audit.trials = [10, 20]"
    audit = load(text, overrides=["audit.trials=5"], trials=7, seed=3)
    assert {(cell.trials, cell.seed) for cell in audit.cells} == {(7, 3)}
    assert load(base.replace("trials = 1000\n", ""), trials=7).cells[0].trials == 7


def test_a_table_that_is_not_there_yet(load, base):
    assert load(base, overrides=["run.chunk=64"]).run.chunk == 64


@pytest.mark.parametrize(
    ("text", "value"),
    [("zero", "zero"), ('"zero"', "zero"), (" zero ", "zero"), ("'zero'", "zero")],
)
def test_values_are_toml_or_else_text(text, value, load, two):
    cells = load(two, overrides=[f"mechanism.mode={text}"]).cells
    assert cells[1].mechanism.value.mode == value


WRONG = {
    "foo": ["--set foo: should be KEY=VALUE"],
    "epsilon=1": [
        "--set epsilon=1: unknown key 'epsilon'\n"
        "   accepts: mechanism.X, attack.X, estimator.X, pair.X, search.X, audit.X, run.X, "
        "environments.X"
    ],
    "mechansm.x=1": [
        "--set mechansm.x=1: unknown key 'mechansm.x'\n   accepts: mechanism.X, attack.X, "
        "estimator.X, pair.X, search.X, audit.X, run.X, environments.X; did you mean 'mechanism'?"
    ],
    "mechanism.epsilom=1": [
        "--set mechanism.epsilom=1: no mechanism has a parameter 'epsilom'\n   accepts: epsilon, "
        "mode, sensitivity, shape, size; did you mean 'epsilon'?"
    ],
    "audit.trails=1": [
        "--set audit.trails=1: audit.trails: unknown key\n   accepts: name, seed, trials, delta, "
        "confidence, multiplicity, repeats; did you mean 'trials'?"
    ],
    "audit.trials=0": [
        "--set audit.trials=0: audit.trials: should be greater than or equal to 1, got 0"
    ],
    "audit.trials=[1,0]": [
        '--set audit.trials=[1,0]: sweep."audit.trials"[1]: should be greater than or equal to 1, '
        "got 0"
    ],
    "audit.name=[]": ["--set audit.name=[]: audit.name: should be a string, got []"],
    "mechanism.epsilon=0": [
        f"--set mechanism.epsilon=0: mechanism[{at}].params.epsilon: "
        "should be greater than 0, got 0"
        for at in (0, 1)
    ],
    "pair.dim=[]": [
        '--set pair.dim=[]: sweep."pair.dim": is an empty list, so there is nothing to run'
    ],
    "run.chunk=3": ["--set run.chunk=3: run.chunk: should be a power of two, got 3"],
    "pair.dim=1\nx = 2": [
        '--set pair.dim=1\\nx = 2: pair.params.dim: should be an integer, got "1\\nx = 2"'
    ],
}


@pytest.mark.parametrize("override", WRONG)
def test_mistakes_name_the_override(override, two, mistakes):
    assert mistakes(two, overrides=[override]) == WRONG[override]


def test_trials_and_seed_out_of_range(base, mistakes):
    assert set(mistakes(base, trials=0, seed=-1)) == {
        "--trials 0: audit.trials: should be greater than or equal to 1, got 0",
        "--seed -1: audit.seed: should be greater than or equal to 0, got -1",
    }


@pytest.mark.parametrize(
    "text",
    ["audit = 3", "pair = 3", "mechanism = 3", "mechanism = [3]", "sweep = 3", "run = []", ""],
)
def test_overrides_of_a_broken_document_end_in_messages(text, mistakes):
    overrides = ["audit.seed=1", "pair.dim=1", "mechanism.epsilon=1", "run.chunk=1", "pair.dim=[1]"]
    assert mistakes(text, overrides=overrides, trials=5)


def test_mistakes_in_the_file_and_in_overrides_together(base, mistakes):
    found = mistakes(base.replace("1000", "0"), overrides=["pair.dim=0", "x"])
    assert len(found) == 3
