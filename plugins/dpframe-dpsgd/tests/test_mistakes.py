"""Mistakes are found, and no violation is reported for the correct trainer.

Every audit has confidence .9999, at fixed seeds.
"""

import pytest
from dpsgd_support import held_out
from dpsgd_support.audits import verdict, white_box

OTHERS = (1, 2)


def test_a_planted_mistake_is_found_with_few_models():
    record = white_box("dpsgd-mistaken", mistakes=["noise-reused"], models=100)
    assert verdict(record) == "violated"


def test_a_mistake_that_no_attack_was_written_for_is_found():
    found = held_out.OneBiasSilent
    assert verdict(white_box(found.name, plugins=[found], models=100)) == "violated"


# One test for all seeds of a mistake, because compiling its trainer takes longer than an audit.


@pytest.mark.slow
@pytest.mark.parametrize("mistake", held_out.GRADIENT, ids=lambda cls: cls.name)
def test_others_are_found_too(mistake):
    models = 2000 if mistake is held_out.VarianceSigma else 500
    for seed in OTHERS:
        record = white_box(mistake.name, plugins=[mistake], models=models, seed=seed)
        assert verdict(record) == "violated", seed


@pytest.mark.slow
@pytest.mark.parametrize("mistake", held_out.RECORD, ids=lambda cls: cls.name)
def test_mistakes_on_the_way_of_a_record_are_found(mistake):
    # Gradients of records are some 2 to 4 long, so only a smaller C clips them.
    for seed in OTHERS:
        record = white_box(
            mistake.name, plugins=[mistake], models=500, seed=seed, canary="mislabelled", clip=0.5
        )
        assert verdict(record) == "violated", seed
