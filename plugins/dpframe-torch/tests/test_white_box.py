"""Gradient canaries: their slots, their scores, and the mistakes that they find in one run."""

import numpy as np
import pytest
import torch
from dpframe_torch import Canaries
from scipy import stats
from torch_support import DELTA, Script, table


def script(seed=0, noise=1.0, number=300, records=600, **options):
    torch.manual_seed(seed)
    canaries = Canaries(table(records), number, "random-gradient", seed=seed, out=None)
    return Script(canaries, noise=noise, batch=80, width=200, **options)


def test_a_canary_contributes_its_direction_clipped_and_others_are_left_alone():
    one = script(noise=0.0)
    canaries, optimizer = one.canaries, one.optimizer
    canaries.watch(one.model, optimizer)
    watched = canaries.watched.gradients
    x, y = next(iter(one.loader))
    torch.nn.functional.cross_entropy(one.model(x), y).backward()
    before = [p.grad_sample.clone() for p in optimizer.params]
    slots = canaries.watched.pending[0][1]
    optimizer.clip_and_accumulate()
    inside = slots >= 0
    assert 10 < inside.sum() < 50
    norms = torch.zeros(len(x))
    for p, old in zip(optimizer.params, before, strict=True):
        assert torch.equal(p.grad_sample[~inside], old[~inside])
        norms += p.grad_sample.flatten(1).square().sum(1)
    assert torch.allclose(norms[inside].sqrt(), torch.tensor(10.0))
    place = watched.chosen[0]
    flat = optimizer.params[place].grad_sample.flatten(1)[inside]
    own = flat.gather(1, watched.inner[slots[inside]]) * watched.signs[slots[inside]]
    assert torch.allclose(own.sum(1), torch.tensor(10.0))
    members = np.array([c == "1" for c in canaries.state["members"]])
    assert members[slots[inside].numpy()].all()


def test_scores_of_members_are_likelihood_ratios():
    """Members score higher, and a correct script is consistent with its claim."""
    found = script(seed=1).train(4)
    audit = found.audit()
    scores = found.canaries.watched.gradients.scores()
    members = found.canaries.members
    assert scores[members].mean() > scores[~members].mean()
    assert audit.epsilon_lower > 0
    assert audit.verdict == "consistent"
    assert audit.warnings == []


def test_directions_over_several_parameters_are_found_again():
    canaries = Canaries(table(), 60, "random-gradient", seed=0, out=None)
    one = Script(canaries, width=4, noise=0.3, batch=100).train(3)
    assert len(canaries.watched.gradients.chosen) > 1
    scores = canaries.watched.gradients.scores()
    canaries.audit(one.model)
    members = canaries.members
    assert scores[members].mean() > scores[~members].mean() + 1


def silent(one):
    """Noise off, accounted for as before."""
    from opacus.optimizers import DPOptimizer

    def add_noise():
        optimizer.noise_multiplier, kept = 0.0, optimizer.noise_multiplier
        DPOptimizer.add_noise(optimizer)
        optimizer.noise_multiplier = kept

    optimizer = one.optimizer
    optimizer.add_noise = add_noise


def halved(one):
    from opacus.optimizers import DPOptimizer

    def add_noise():
        optimizer.noise_multiplier /= 2
        DPOptimizer.add_noise(optimizer)
        optimizer.noise_multiplier *= 2

    optimizer = one.optimizer
    optimizer.add_noise = add_noise


def unclipped(one):
    """Gradients of single records are summed as they are."""

    def clip_and_accumulate():
        for p in optimizer.params:
            p.summed_grad = p.grad_sample.sum(0)

    optimizer = one.optimizer
    optimizer.clip_and_accumulate = clip_and_accumulate


def clipped_after_averaging(one):
    """The mean gradient is clipped, and not every record's; the noise is that of a clipped mean."""

    def clip_and_accumulate():
        rows = max(1, len(optimizer.params[0].grad_sample))
        means = [p.grad_sample.sum(0) / rows for p in optimizer.params]
        norm = torch.cat([one.flatten() for one in means]).norm()
        for p, mean in zip(optimizer.params, means, strict=True):
            p.summed_grad = mean * rows * min(1.0, optimizer.max_grad_norm / float(norm))

    optimizer = one.optimizer
    optimizer.clip_and_accumulate = clip_and_accumulate


def many_epochs(one):
    """Trained six times as long as accounted for."""
    hook = one.optimizer.step_hook
    count = iter(range(10**9))
    one.optimizer.attach_step_hook(lambda o: hook(o) if next(count) % 6 == 0 else None)


FOUND = {
    "noise off": silent,
    "unclipped": unclipped,
    "clipped after averaging": clipped_after_averaging,
}


@pytest.mark.parametrize("mistake", FOUND)
def test_one_run_refutes_the_claim_of_a_script_with_a_mistake(mistake):
    one = script(seed=2, noise=2.0)
    FOUND[mistake](one)
    found = one.train(4).audit(confidence=0.999)
    assert found.verdict == "violated", (found.epsilon_lower, found["rows"][0]["p_value"])


def test_halved_noise_is_named_although_one_run_need_not_refute_it():
    one = script(seed=2)
    halved(one)
    assert any("0.5 times the standard deviation" in w for w in one.train(3).audit().warnings)


def test_steps_that_were_not_accounted_for_are_named():
    one = script(seed=2)
    many_epochs(one)
    assert any("the accountant counted" in w for w in one.train(3).audit().warnings)


@pytest.mark.parametrize(
    ("runs", "noise"),
    [
        (12, 8.0),
        pytest.param(200, 8.0, marks=pytest.mark.slow),
        pytest.param(200, 1.0, marks=pytest.mark.slow),
    ],
)
def test_opacus_as_released_is_refuted_by_chance_alone(runs, noise):
    """Claims are violated, and bounds above the accountant's ε, as rarely as 95 % confidence says.

    False-alarm rate below 1e-6 for each of the two counts: 27 of 200 runs are allowed, 6 of 12. ε
    is about 0.2 (σ = 8) and 5 (σ = 1). No run gets a warning.
    """
    violated = above = 0
    for seed in range(runs):
        one = script(seed=seed, noise=noise, number=200, records=400).train(2)
        epsilon = one.engine.get_epsilon(DELTA)
        found = one.canaries.audit(one.model, epsilon, DELTA, engine=one.engine)
        violated += found.verdict == "violated"
        above += found.epsilon_lower > epsilon
        assert found.warnings == []
    allowed = int(stats.binom.isf(1e-6, runs, 0.05))
    assert violated <= allowed
    assert above <= allowed
