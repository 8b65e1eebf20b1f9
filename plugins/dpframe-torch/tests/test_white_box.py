"""Gradient canaries: their slots, their scores, and the mistakes that they find in one run."""

import itertools

import numpy as np
import pytest
import torch
from dpframe_torch import Canaries
from scipy import stats
from torch_support import DELTA, Script, mistakes, steps, table
from torch_support.mistakes import script

from dpframe import plot


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


def test_noise_is_estimated_where_no_canary_is_so_that_scores_are_independent():
    """The other values of a step's release change no score, whoever is in them."""
    one = script(seed=1, number=250).train(2)
    gradients = one.canaries.watched.gradients
    assert gradients.has_controls
    assert len(gradients.signs) == 250 + 50
    assert gradients.scores().shape == (250,)
    audit = one.audit()
    assert audit["independent"]["supported"] is True
    assert audit["independent"]["mu_lower"] > 0
    assumed = one.audit(assume="independent")
    assert [row["estimator"]["label"] for row in assumed["rows"]] == ["one-run-independent"]
    assert assumed["training"]["look"] == 2
    losses = one.audit(score="loss")
    assert losses["independent"]["supported"] is False


def bets_of(one):
    return one.canaries.watched.gradients.step_bets()


def test_bets_on_steps_refute_noise_that_is_too_small_and_keep_the_right_one():
    """Right noise is refuted in more than 5 of 8 trainings with probability below 1e-6."""
    right = [bets_of(script(seed=seed).train(4)) for seed in range(8)]
    assert all(one["steps"] == len(one["wealth"]) > 20 for one in right)
    assert sum(one["refuted_at"] is not None for one in right) <= 5
    small = script(seed=0)
    mistakes.halved(small)
    small.train(4)
    audit = small.canaries.audit(small.model)
    assert audit["step_bets"]["refuted_at"] is not None
    assert audit["step_bets"]["p_value"] <= 0.05
    assert "Bets refute the stated noise" in str(audit)
    assert audit.picture().caption  # the wealth is another kind of figure
    assert "steps" in plot(dict(audit), "wealth").axes[0].get_xlabel()


def test_what_other_records_add_is_measured_in_directions_without_a_canary():
    """Against the sums of gradients without the rows of canaries, direction by direction."""
    one = script(noise=0.5, number=40, records=200)
    canaries, optimizer = one.canaries, one.optimizer
    canaries.watch(one.model, optimizer)
    watched = canaries.watched.gradients
    parts, clip = [], optimizer.clip_and_accumulate

    def clipped():
        clip()
        slots = canaries.watched.pending[0][1]
        sums = torch.cat([optimizer.params[p].summed_grad.flatten() for p in watched.chosen])
        starts = np.cumsum([0] + [optimizer.params[p].numel() for p in watched.chosen])
        at = watched.inner + torch.from_numpy(starts)[watched.which]
        along = (sums[at] * watched.signs).sum(1) / 0.5
        empty = sorted({*range(len(along))} - {*slots.tolist()})
        parts.append(along[empty])

    optimizer.clip_and_accumulate = clipped
    one.train(2, watch=False)
    expected = torch.cat(parts).double().square().mean().sqrt()
    assert expected > 0.01
    assert watched.step_bets()["others"] == pytest.approx(float(expected), rel=1e-4)


def test_directions_over_several_parameters_are_found_again():
    canaries = Canaries(table(60), 60, "random-gradient", seed=0, out=None)
    one = Script(canaries, width=4, noise=0.3, batch=25).train(3)
    assert len(canaries.watched.gradients.chosen) > 1
    scores = canaries.watched.gradients.scores()
    canaries.audit(one.model)
    members = canaries.members
    assert scores[members].mean() > scores[~members].mean() + 1


def by_vmap(model, x, y):
    """Return gradients of single records, as scripts compute them in the mode "no_op"."""
    names = [name for name, _ in model._module.named_parameters()]

    def loss(values, x, y):
        named = dict(zip(names, values, strict=True))
        output = torch.func.functional_call(model._module, named, (x[None],))
        return torch.nn.functional.cross_entropy(output, y[None])

    values = tuple(p.detach() for p in model.parameters())
    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(values, x, y)


def by_loop(model, x, y):
    """Return gradients of single records, from a backward pass for each."""
    each = []
    for one, label in zip(x, y, strict=True):
        loss = torch.nn.functional.cross_entropy(model(one[None]), label[None])
        each.append(torch.autograd.grad(loss, tuple(model.parameters())))
    return [torch.stack(one) for one in zip(*each, strict=True)]


@pytest.mark.parametrize("kind", ["mislabelled", "random-gradient"])
@pytest.mark.parametrize("mode", ["functorch", "ew", by_vmap, by_loop])
def test_every_way_to_compute_gradients_of_single_records_gives_the_same_scores(kind, mode):
    def trained(mode):
        torch.manual_seed(0)
        canaries = Canaries(table(), 60, kind, seed=0, out=None)
        one = Script(canaries, width=40, grad_sample_mode="no_op" if callable(mode) else mode)
        if not callable(mode):
            return one.train(2)
        canaries.watch(one.model, one.optimizer)
        for x, y in itertools.chain(one.loader, one.loader):
            for p, samples in zip(one.model.parameters(), mode(one.model, x, y), strict=True):
                p.grad_sample = samples
            one.optimizer.step()
            one.optimizer.zero_grad()
        return one

    found, usual = trained(mode).audit(), trained("hooks").audit()
    assert found.warnings == usual.warnings == []
    assert found.verdict == usual.verdict
    seen = [one["training"]["watched"] for one in (found, usual)]
    assert seen[0]["records"] == seen[1]["records"] > 0
    assert found.epsilon_lower == pytest.approx(usual.epsilon_lower)


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


def test_a_network_with_half_of_its_noise_is_refuted_and_other_records_are_measured():
    bets = steps.trained(0, 0.5, 30, number=100, records=120, width=16)
    assert bets["refuted_at"] is not None
    assert 0.01 < bets["others"] < 0.5
    assert steps.line(0.5, 30, [bets]).startswith("0.5 σ, 30 steps: refuted 1 of 1, median step")


@pytest.mark.slow
def test_a_network_with_a_tenth_too_little_noise_is_refuted():
    """Right noise is refuted with a probability of at most .05 in each training."""
    small = [steps.trained(seed, 0.9, 300) for seed in range(3)]
    assert all(one["refuted_at"] is not None for one in small)
    right = [steps.trained(seed, 1.0, 60, number=500, records=500) for seed in range(6)]
    assert sum(one["refuted_at"] is not None for one in right) <= 5
    assert all(one["others"] < 0.2 for one in [*small, *right])
