"""Slips in training scripts: never "consistent" if nothing was tested, and never "violated"."""

import copy
import functools
import io
import itertools
import json
import pickle

import numpy as np
import pytest
import torch
from dpframe_torch import Canaries
from opacus import PrivacyEngine
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader
from torch_support import DELTA, Noisy, Script, network, plain, private_step, table
from torch_support.settings import Pictures

import dpframe

LOOSE = 1.0  # a claim that 100 canaries can refute


def script(noise=2.0, **options):
    return Script(Canaries(table(), 100, seed=0, out=None), noise=noise, **options)


def audited(one, epsilon=LOOSE, **options):
    """Return the audit of a model whose scores know nothing."""
    canaries, model = (one.canaries, one.model) if isinstance(one, Script) else one
    options = {"score": lambda model, records: torch.rand(len(records)), **options}
    return canaries.audit(model, epsilon, DELTA, **options)


def stepped(one, step, epochs=2, loader=None):
    """Train with another way to make steps."""
    one.canaries.watch(one.model, one.optimizer)
    for x, y in itertools.chain.from_iterable([loader or one.loader] * epochs):
        one.optimizer.zero_grad()
        cross_entropy(one.model(x), y).backward()
        step()
    return one


# Steps that the private optimiser did not make.


def original_step(one):
    return stepped(one, one.optimizer.original_optimizer.step)


def both_steps(one):
    def step():
        one.optimizer.step()
        one.optimizer.original_optimizer.step()

    return stepped(one, step)


def new_optimizer(one):
    other = torch.optim.Adam(one.model.parameters(), lr=0.01)
    return stepped(one, other.step)


def new_optimizer_beside(one):
    other = torch.optim.Adam(one.model.parameters(), lr=0.01)

    def step():
        one.optimizer.step()
        other.step()

    return stepped(one, step)


def original_optimizer_watched(one):
    one.canaries.watch(one.model, one.optimizer.original_optimizer)
    return one.train(2, watch=False)


def original_model_and_optimizer_watched(one):
    one.canaries.watch(one.model._module, one.optimizer.original_optimizer)
    return one.train(2, watch=False)


def optimizer_not_watched(one):
    one.canaries.watch(one.model)
    return one.train(2, watch=False)


def original_loader(one):
    data = DataLoader(one.canaries.train_set, batch_size=40, shuffle=True)
    return one.train(2, loader=data)


STEPS = [
    (original_step, "made by SGD.step()"),
    (both_steps, "18 of 36 steps were made by SGD.step()"),
    (new_optimizer, "another optimiser (Adam) made 18 steps"),
    (new_optimizer_beside, "another optimiser (Adam) made 18 steps"),
    (original_optimizer_watched, "(SGD) is not Opacus's"),
    (original_model_and_optimizer_watched, "(SGD) is not Opacus's"),
    (optimizer_not_watched, "the optimiser was not watched"),
    (original_loader, "not Poisson samples"),
]


@pytest.mark.parametrize("with_engine", [False, True])
@pytest.mark.parametrize(("slip", "named"), STEPS)
def test_steps_that_the_private_optimiser_did_not_make_are_named(slip, named, with_engine):
    one = slip(script())
    found = audited(one, **({"engine": one.engine} if with_engine else {}))
    assert any(named in text for text in found.warnings)
    assert found.verdict == "inconclusive"


# A stated ε that is too small for the steps.


@pytest.mark.parametrize("share", [0.125, 0.5, 0.9, 0.95])
def test_a_stated_epsilon_below_that_of_the_observed_steps_is_named(share):
    """Without `engine`, the audit computes ε from the noise, the batches and the steps."""
    one = script().train(2)
    engine = PrivacyEngine(accountant="prv")
    engine.accountant.history = one.engine.accountant.history
    exact = engine.get_epsilon(DELTA)
    found = audited(one, share * exact)
    (named,) = [text for text in found.warnings if "observed steps with noise multiplier 2" in text]
    assert f"epsilon = {share * exact:.4g} is claimed, but 18 observed" in named
    assert found.verdict == "inconclusive"
    assert audited(script().train(2), exact).warnings == []


def test_noise_of_a_scheduler_is_counted_step_by_step():
    from opacus.schedulers import ExponentialNoise

    one = script(noise=4.0)
    schedule = ExponentialNoise(one.optimizer, gamma=0.5)
    one.train(1)
    schedule.step()
    one.train(1)
    (named,) = [text for text in audited(one, 0.1).warnings if "observed steps" in text]
    assert "noise multiplier 2, 4 " in named


# Clipping that did not limit single records.


def by_hand(step, batch=40):
    canaries, model = Canaries(table(), 100, seed=0, out=None), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.watch(model, optimizer)
    for x, y in [*DataLoader(canaries.train_set, batch, shuffle=True)] * 2:
        step(model, optimizer, x, y)
    return canaries, model


def clip_the_mean(model, optimizer, x, y):
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for p in model.parameters():
        p.grad = p.grad + torch.randn_like(p) / len(x)
    optimizer.step()


def clip_microbatches(model, optimizer, x, y):
    """Clip the mean gradient of each eight records."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    for rows, labels in zip(x.split(8), y.split(8), strict=True):
        model.zero_grad()
        cross_entropy(model(rows), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one, p in zip(total, model.parameters(), strict=True):
            one.add_(p.grad)
    for one, p in zip(total, model.parameters(), strict=True):
        p.grad = (one + torch.randn_like(p)) / len(x)
    optimizer.step()


def no_privacy(model, optimizer, x, y):
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()
    optimizer.step()


def clip_each_record(model, optimizer, x, y):
    total = [torch.zeros_like(p) for p in model.parameters()]
    for row, label in zip(x, y, strict=True):
        model.zero_grad()
        cross_entropy(model(row[None]), label[None]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one, p in zip(total, model.parameters(), strict=True):
            one.add_(p.grad)
    for one, p in zip(total, model.parameters(), strict=True):
        p.grad = (one + 4 * torch.randn_like(p)) / len(x)
    optimizer.step()


@pytest.mark.parametrize("step", [clip_the_mean, clip_microbatches, no_privacy])
def test_clipping_the_gradient_of_a_batch_is_named(step):
    found = audited(by_hand(step))
    assert any("steps had no gradients of single records" in text for text in found.warnings)
    assert found.verdict == "inconclusive"


@pytest.mark.parametrize("step", [clip_each_record, private_step])
def test_steps_that_clip_each_record_by_hand_are_not_doubted(step):
    found = audited(by_hand(step))
    assert all("not Poisson samples" in text for text in found.warnings)
    assert found.verdict == "consistent"


def test_sums_that_were_not_clipped_are_named():
    one = script(clip=0.01)

    def clip_and_accumulate():
        for p in one.optimizer.params:
            p.summed_grad = p.grad_sample.sum(0)

    one.optimizer.clip_and_accumulate = clip_and_accumulate
    found = audited(one.train(2))
    assert any("gradients of single records were not clipped" in text for text in found.warnings)
    assert found.verdict == "inconclusive"


@pytest.mark.parametrize("right", [True, False])
def test_ghost_clipping_is_silent_unless_the_original_criterion_is_called(right):
    """Without the criterion of `make_private` nothing is clipped."""
    canaries, inner = Canaries(table(), 100, seed=0, out=None), network()
    original = torch.nn.CrossEntropyLoss()
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, criterion, loader = engine.make_private(
        module=inner,
        optimizer=torch.optim.SGD(inner.parameters(), lr=0.5),
        criterion=original,
        data_loader=DataLoader(canaries.train_set, batch_size=40),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        grad_sample_mode="ghost",
    )
    canaries.watch(model, optimizer)
    for x, y in itertools.chain(loader, loader):
        optimizer.zero_grad()
        (criterion if right else original)(model(x), y).backward()
        optimizer.step()
    found = audited((canaries, model), engine.get_epsilon(DELTA), engine=engine)
    assert found.verdict == ("consistent" if right else "inconclusive")
    if right:
        assert found.warnings == []
        assert any("gradients of single records exist only inside" in t for t in found["limits"])
    else:
        assert "call the criterion that make_private returned" in found.warnings[0]


# Records that mix in the model.


class Centred(torch.nn.Module):
    """Subtracts the mean over the batch."""

    def forward(self, x):
        return x - x.mean(0)


class Attending(torch.nn.Module):
    """Attention over the records of a batch."""

    def forward(self, x):
        return torch.softmax(x @ x.T, 1) @ x


class Partly(torch.nn.Module):
    """Scales by the largest value of the batch, in train mode only."""

    def forward(self, x):
        return x / x.abs().max() if self.training else x


class Scaled(torch.nn.Linear):
    """A layer with a gradient sampler of its own."""


class Halved(torch.nn.Linear):
    """A layer whose gradient sampler forgets a factor."""


def linear_samples(layer, activations, backprops, factor=1.0):
    (x,) = activations
    return {
        layer.weight: factor * torch.einsum("no,ni->noi", backprops, x),
        layer.bias: factor * backprops,
    }


@pytest.fixture
def samplers():
    from opacus.grad_sample import GradSampleModule

    kept = dict(GradSampleModule.GRAD_SAMPLERS)
    GradSampleModule.GRAD_SAMPLERS[Scaled] = linear_samples
    GradSampleModule.GRAD_SAMPLERS[Halved] = lambda *args: linear_samples(*args, factor=0.1)
    yield
    GradSampleModule.GRAD_SAMPLERS.clear()
    GradSampleModule.GRAD_SAMPLERS.update(kept)


def with_layer(layer, width=16):
    from torch.nn import Linear, ReLU, Sequential

    return Sequential(Linear(12, width), layer, ReLU(), Linear(width, 4))


def trained(inner, mode="hooks", epochs=2):
    canaries = Canaries(table(), 100, seed=0, out=None)
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=inner,
        optimizer=torch.optim.SGD(inner.parameters(), lr=0.1),
        data_loader=DataLoader(canaries.train_set, batch_size=40),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
    )
    canaries.watch(model, optimizer)
    for x, y in itertools.chain(*[loader] * epochs):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    return audited((canaries, model.eval()), engine.get_epsilon(DELTA), engine=engine)


def zero_head():
    model = with_layer(Centred())
    torch.nn.init.zeros_(model[3].weight)
    return model


MIXING = [
    (lambda: with_layer(Centred()), "in module 1 (Centred)"),
    (lambda: with_layer(Attending()), "in module 1 (Attending)"),
    (lambda: with_layer(Partly()), "in module 1 (Partly)"),
    (lambda: with_layer(torch.nn.Sequential(torch.nn.Dropout(0.5), Centred())), "1.1 (Centred)"),
    (zero_head, "in module 1 (Centred)"),
    (lambda: with_layer(Halved(16, 16)), "than autograd in module 1 (Halved)"),
]


@pytest.mark.parametrize(("make", "named"), MIXING)
def test_modules_in_which_records_mix_are_named(make, named, samplers):
    found = trained(make())
    assert any(named in text for text in found.warnings)
    assert found.verdict == "inconclusive"


class Recurrent(torch.nn.Module):
    def __init__(self):
        from opacus.layers import DPLSTM

        super().__init__()
        self.inner = DPLSTM(3, 8, batch_first=True)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.inner(x.reshape(len(x), 4, 3))[0][:, -1])


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = torch.nn.Embedding(7, 8), torch.nn.Linear(96, 4)

    def forward(self, x):
        tokens = (3 + x).clamp(0, 6).long()
        return self.head(self.words(tokens).flatten(1))


RIGHT = {
    "dropout": lambda: with_layer(torch.nn.Dropout(0.5)),
    "layer norm": lambda: with_layer(torch.nn.LayerNorm(16)),
    "own sampler": lambda: with_layer(Scaled(16, 16)),
    "embedding": Words,
    "convolution": Pictures,
    "LSTM": Recurrent,
    "dead": lambda: with_layer(torch.nn.Threshold(1e9, 0.0)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_models_that_keep_records_apart_raise_no_false_alarm(name, samplers):
    found = trained(RIGHT[name]())
    assert found.warnings == []
    assert found.verdict == "consistent"
    assert not any("records of its batch" in text for text in found["limits"])


@pytest.mark.parametrize("mode", ["functorch", "ew"])
def test_other_modes_of_opacus_raise_no_false_alarm(mode):
    assert trained(network(), mode).warnings == []


def test_the_check_of_records_does_not_change_the_training():
    weights = []
    for watch in (True, False):
        torch.manual_seed(1)
        one = script()
        torch.manual_seed(2)
        one.train(1, watch=watch)
        weights.append([p.detach().clone() for p in one.model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_batch_norm_is_named_if_a_claim_is_made():
    canaries, model = Canaries(table(), 100, seed=0, out=None), with_layer(torch.nn.BatchNorm1d(16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.watch(model, optimizer)
    for x, y in DataLoader(canaries.train_set, 40, shuffle=True):
        no_privacy(model, optimizer, x, y)
    found = audited((canaries, model))
    assert any("in module 1 (BatchNorm1d)" in text for text in found.warnings)
    assert not any("BatchNorm1d" in text for text in audited((canaries, model), None).warnings)


# Several trainings, and several looks at one training.


@pytest.mark.parametrize("copied", [False, True])
def test_the_best_of_several_trainings_is_named(copied):
    canaries, models = Canaries(table(), 100, seed=0, out=None), []
    for _ in range(3):
        own = copy.deepcopy(canaries) if copied else canaries
        one = script()
        one.canaries = own
        models.append(one.train(1))
    found = audited(models[-1])
    assert any("3 trainings were watched on these canaries" in text for text in found.warnings)
    assert found.verdict == "inconclusive"


def looked(canaries, model, seed=0, **options):
    scores = torch.from_numpy(np.random.default_rng(seed).random(canaries.number))
    return canaries.audit(model, LOOSE, DELTA, score=lambda model, records: scores, **options)


def same_object(canaries, data, folder):
    return canaries


def a_copy(canaries, data, folder):
    return copy.deepcopy(canaries)


def same_seed(canaries, data, folder):
    return Canaries(data, 100, seed=0, out=None)


def same_file(canaries, data, folder):
    """Another process continues the unfinished run."""
    kept = (folder / "canaries.json").read_text()
    again = Canaries(table(), 100, seed=0, out="elsewhere")
    again.state = {**again.state, "looks": json.loads(kept)["looks"]}
    return again


@pytest.mark.parametrize("other", [same_object, a_copy, same_seed, same_file])
def test_a_second_score_of_the_same_coins_pays_for_a_second_look(other, folder):
    data = table()
    canaries = Canaries(data, 100, seed=0, out=folder)
    model = plain(canaries.train_set, canaries=canaries, epochs=1)
    first = looked(canaries, model)
    again = other(canaries, data, folder)
    again.watched = canaries.watched
    second, repeated = looked(again, model, 1), looked(again, model, 0)
    third = looked(again, model, 2)
    levels = [one["audit"]["confidence"] for one in (first, second, repeated, third)]
    assert levels == pytest.approx([0.95, 1 - 0.05 / 6, 0.95, 1 - 0.05 / 12])
    assert [one["training"]["look"] for one in (first, second, repeated, third)] == [1, 2, 1, 3]
    assert again.state["audited"] == 3
    report = " ".join(str(second).split())
    assert "this is look 2, with 1/6 of the error" in report
    assert "all looks together hold at 92.5 %" in report
    assert not any("audited before" in text for text in repeated.warnings)
    assert repeated["rows"][0]["bounds"] == first["rows"][0]["bounds"]


def test_another_claim_of_the_same_scores_is_a_look_too():
    canaries = Canaries(table(), 100, seed=0, out=None)
    model = plain(canaries.train_set, epochs=1)
    assert canaries.audit(model, 1.0)["training"]["look"] == 1
    assert canaries.audit(model, 0.5)["training"]["look"] == 2


# Copies of the model, and noise that is tiny.


def saved_and_loaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    assert b"Watch" not in file.getvalue()
    file.seek(0)
    return torch.load(file, weights_only=False)


def averaged(model):
    found = AveragedModel(model)
    found.update_parameters(model)
    return found


COPIES = {
    "deepcopy": copy.deepcopy,
    "averaged": averaged,
    "exponential average": lambda model: AveragedModel(
        model, avg_fn=lambda a, b, n: 0.9 * a + 0.1 * b
    ),
    "saved": saved_and_loaded,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("name", COPIES)
def test_a_watched_model_can_be_copied_and_the_copy_is_not_watched(name, wrapped):
    one = script().train(1)
    made = COPIES[name](one.model if wrapped else one.model._module)
    steps = len(one.canaries.watched.rows)
    made.train()
    with torch.no_grad():
        made(torch.zeros(3, 12))
    assert len(one.canaries.watched.rows) == steps
    assert one.canaries.watched.pending == []
    pickle.dumps(one.optimizer)
    scores = [
        one.canaries.audit(model, LOOSE, DELTA).scores["score"] for model in (one.model, made)
    ]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_a_training_goes_on_after_a_copy():
    """An average of weights is kept while the model trains."""
    one = script()
    one.canaries.watch(one.model, one.optimizer)
    average = AveragedModel(one.model)
    for x, y in itertools.chain(one.loader, one.loader):
        one.optimizer.zero_grad()
        cross_entropy(one.model(x), y).backward()
        one.optimizer.step()
        average.update_parameters(one.model)
    assert len(one.canaries.watched.rows) == 2 * len(one.loader)
    assert audited(one, 3.0).warnings == []


@pytest.mark.parametrize("noise", [1e-6, 0.01, 0.1])
@pytest.mark.parametrize("kind", ["mislabelled", "random-gradient"])
def test_tiny_noise_ends_with_scores_and_a_bound(noise, kind, folder):
    """ε is about 1e13, 1e5 and 700."""
    one = Script(Canaries(table(), 100, kind, seed=0, out=folder), noise=noise).train(1)
    found = one.canaries.audit(one.model, None, DELTA, engine=one.engine)
    assert any("too large to state" in text for text in found.warnings)
    assert found.verdict is None
    assert len(found.scores) == 100
    assert found.epsilon_lower >= 0
    if kind == "random-gradient":
        assert found.epsilon_lower > 0.5
    stated = one.canaries.audit(one.model, LOOSE, DELTA, engine=one.engine)
    assert any("is claimed, but the steps that the accountant" in text for text in stated.warnings)
    assert stated.verdict != "consistent"


def test_raw_scores_can_be_taken_out(folder):
    one = Script(Canaries(table(), 100, seed=0, out=folder)).train(1)
    found = one.audit()
    rows = found.scores
    assert rows.dtype.names == ("canary", "record", "included", "score")
    assert rows["included"].tolist() == one.canaries.members.tolist()
    for canary, record in zip(rows["canary"], rows["record"], strict=True):
        assert torch.equal(one.canaries.records[canary][0], one.canaries.train_set.data[record][0])
    again = {"delta": [DELTA, 1e-7], "estimators": ["one-run"], "lower_is_member": False}
    file = dpframe.score_one_run(folder / "scores.csv", column="score", member="included", **again)
    taken = dpframe.score_one_run(rows["score"], rows["included"], **again)
    for one in (file, taken):
        bound, smaller = one["rows"][0]["bounds"]
        assert bound["epsilon_lower"] == found.epsilon_lower
        assert smaller["delta"] == 1e-7


def test_limits_of_one_run_are_in_the_record_and_in_the_report():
    found = audited(script().train(1))
    assert any("hyper-parameters, early stopping" in text for text in found["limits"])
    assert "a normaliser fitted to the data" in str(found).replace("\n", " ")


@pytest.mark.parametrize("kind", ["mislabelled", "as-they-are"])
def test_augmentation_inside_the_data_raises_no_false_alarm(kind):
    one = Script(Canaries(Noisy(table()), 100, kind, seed=0, out=None), noise=2.0).train(2)
    found = audited(one, one.engine.get_epsilon(DELTA))
    assert found.warnings == []
    assert found.verdict == "consistent"
    assert any("records change at every access" in text for text in found["limits"])


def noisy_sum_of_torch(own, values):
    return float(sum(values) + 6 * torch.randn(()) + torch.randn((), generator=own))


def test_generators_of_torch_get_their_own_streams():
    release = functools.partial(noisy_sum_of_torch, torch.Generator())
    (cell,) = dpframe.assert_dp(release, d0=[0.0], d1=[1.0], epsilon=1.0, trials=1_500).cells
    assert cell.verdict == "consistent"
