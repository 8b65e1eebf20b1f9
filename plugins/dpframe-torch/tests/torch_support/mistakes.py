"""Mistakes of training scripts, and what an audit of one run says about each.

`PYTHONPATH=tests python -m torch_support.mistakes --seeds 10 --number 300`, in the folder of the
plugin, counts for each mistake in how many runs the claim was refuted at 95 %; of the others, in
how many a warning named the mistake, or the record lists it among what was not checked; and how
many were silent.
"""

import argparse
import copy
import itertools
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
from dpframe_torch import Canaries
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from torch_support import DELTA, Script, network, private_step, table

HELD_OUT = 99  # the seed of other data


def script(seed=0, noise=1.0, number=300, records=None, out=None, kind="random-gradient", **more):
    torch.manual_seed(seed)
    data = table(records or 2 * number)
    if infinite := more.pop("infinite", False):
        data.tensors[0][0] = infinite
    canaries = Canaries(data, number, kind, seed=seed, out=out)
    return Script(canaries, noise=noise, batch=80, width=200, **more)


# Planted between `make_private` and the first step.


def silent(one):
    """Turn the noise off; the accountant counts the stated noise."""
    with_noise(one, 0.0)


def halved(one):
    with_noise(one, 0.5)


def noise_of_one_layer(one):
    """Scale the noise by the clipping norm of one layer, although four layers are clipped."""
    with_noise(one, 0.5)


def with_noise(one, factor):
    usual = type(one.optimizer).add_noise

    def add_noise():
        stated = optimizer.noise_multiplier
        optimizer.noise_multiplier = factor * stated
        usual(optimizer)
        optimizer.noise_multiplier = stated

    optimizer = one.optimizer
    optimizer.add_noise = add_noise


def noise_on_one_part(one):
    """Release the last layer without noise."""
    usual = one.optimizer.add_noise

    def add_noise():
        usual()
        for p in one.optimizer.params[-2:]:
            p.grad = p.summed_grad.clone()

    one.optimizer.add_noise = add_noise


def same_noise(one):
    """Seed the generator of the noise in every step."""
    usual = one.optimizer.add_noise
    one.optimizer.generator = torch.Generator()

    def add_noise():
        one.optimizer.generator.manual_seed(1)
        usual()

    one.optimizer.add_noise = add_noise


def divided_by_drawn_size(one):
    """Divide by the number of records that were drawn, which depends on the data."""

    def scale_grad():
        for p in one.optimizer.params:
            p.grad /= max(1, len(p.grad_sample))

    one.optimizer.scale_grad = scale_grad


class Centred(torch.nn.Module):
    """A layer that subtracts the mean over the batch."""

    def forward(self, x):
        return x - x.mean(0)


def unclipped(one):
    """Sum the gradients of single records without clipping."""

    def clip_and_accumulate():
        for p in optimizer.params:
            p.summed_grad = p.grad_sample.sum(0)

    optimizer = one.optimizer
    optimizer.clip_and_accumulate = clip_and_accumulate


def clipped_after_averaging(one):
    """Clip the mean gradient instead of every record's; the noise is scaled for a clipped mean."""

    def clip_and_accumulate():
        rows = max(1, len(optimizer.params[0].grad_sample))
        means = [p.grad_sample.sum(0) / rows for p in optimizer.params]
        norm = torch.cat([one.flatten() for one in means]).norm()
        for p, mean in zip(optimizer.params, means, strict=True):
            p.summed_grad = mean * rows * min(1.0, optimizer.max_grad_norm / float(norm))

    optimizer = one.optimizer
    optimizer.clip_and_accumulate = clip_and_accumulate


def clipped_by_layer(one):
    """Clip each of four parameters to the clipping norm of the whole gradient."""

    def clip_and_accumulate():
        for p in optimizer.params:
            norms = p.grad_sample.flatten(1).norm(dim=1)
            factors = (optimizer.max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
            p.summed_grad = torch.einsum("i,i...", factors, p.grad_sample)

    optimizer = one.optimizer
    optimizer.clip_and_accumulate = clip_and_accumulate


def many_epochs(one):
    """Train for six times as many epochs as the accountant assumes."""
    hook = one.optimizer.step_hook
    count = iter(range(10**9))
    one.optimizer.attach_step_hook(lambda o: hook(o) if next(count) % 6 == 0 else None)


def larger_batches(one):
    """Draw Poisson batches twice as large as the accountant assumes."""
    sampler = one.loader.batch_sampler
    sampler.sample_rate, sampler.steps = 2 * sampler.sample_rate, len(one.loader)


def fixed_batches(one):
    """Use the same batches in every epoch."""
    one.loader = list(DataLoader(one.canaries.train_set, batch_size=80))


def last_batch_dropped(one):
    one.loader = DataLoader(one.canaries.train_set, batch_size=80, shuffle=True, drop_last=True)


def canaries_lost(one):
    """Shuffle the original data, in which no coin included a canary."""
    one.loader = DataLoader(one.canaries.train_set.data, batch_size=80, shuffle=True)


def validated_on(one):
    """Also train on the validation data."""
    other = table(120, seed=HELD_OUT)
    one.loader = list(itertools.chain(one.loader, DataLoader(other, batch_size=40)))


def plain(one):
    """Make no mistake."""


# Other ways to train. Each returns the script or the model that is audited.


def train(one, epochs, each=lambda x, y: None):
    """Train a script, and call a function after every step."""
    one.canaries.watch(one.model, one.optimizer)
    for x, y in itertools.chain.from_iterable(itertools.repeat(one.loader, epochs)):
        one.optimizer.zero_grad()
        cross_entropy(one.model(x), y).backward()
        one.optimizer.step()
        each(x, y)
    return one.model


def by_base_optimizer(one, epochs):
    one.canaries.watch(one.model, one.optimizer)
    for x, y in itertools.chain.from_iterable(itertools.repeat(one.loader, epochs)):
        one.optimizer.zero_grad()
        cross_entropy(one.model(x), y).backward()
        one.optimizer.original_optimizer.step()
    return one.model


def average_in_place_of_the_model(one, epochs):
    """Release the weights of the last step, and audit their average."""
    average = AveragedModel(one.model._module, avg_fn=lambda a, b, n: 0.95 * a + 0.05 * b)
    train(one, epochs, lambda x, y: average.update_parameters(one.model._module))
    return average.module


def average_without_privacy(one, epochs):
    """Release an average of weights that a copy of the model reached without privacy."""
    copied = _copy_of(one)
    average, step = AveragedModel(copied), _own_steps(copied)

    def each(x, y):
        step(x, y)
        average.update_parameters(copied)

    return train(one, epochs, each)


def copy_beside(one, epochs):
    """Release a copy that is trained beside the model without privacy; audit the model."""
    return train(one, epochs, _own_steps(_copy_of(one)))


def copy_audited(one, epochs):
    """Audit a copy that stayed as it was in place of the trained model."""
    copied = copy.deepcopy(one.model._module)
    train(one, epochs)
    return copied


def _copy_of(one):
    """Return a copy of the model from before `make_private`, without Opacus's hooks."""
    copied = network(200)
    copied.load_state_dict(one.model._module.state_dict())
    return copied


def _own_steps(model):
    own = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        own.zero_grad()
        cross_entropy(model(x), y).backward()
        own.step()

    return step


def frozen_then_trained(one, epochs):
    """Thaw the first layer after `watch`, and train it with an optimiser of its own."""
    first = one.model._module[0]
    own = torch.optim.SGD(first.parameters(), lr=0.1)

    def each(x, y):
        own.step()
        own.zero_grad()
        first.requires_grad_(True)

    return train(one, epochs, each)


def stopped_by_canaries(one, epochs):
    """Keep the weights at which the canaries' loss was smallest."""
    canaries, best = one.canaries, [float("inf"), None]
    x = torch.stack([record[0] for record in canaries.records])
    y = torch.stack([torch.as_tensor(record[1]) for record in canaries.records])

    def each(*_):
        with torch.no_grad():
            loss = float(cross_entropy(one.model.eval()(x), y))
        one.model.train()
        if loss < best[0]:
            best[:] = loss, [p.detach().clone() for p in one.model.parameters()]

    model = train(one, epochs, each)
    with torch.no_grad():
        for p, kept in zip(model.parameters(), best[1], strict=True):
            p.copy_(kept)
    return model


def best_of_three(one, epochs):
    """Train three times on the same canaries, and audit one."""
    for _ in range(2):
        other = Script(one.canaries, noise=2.0, batch=80, width=200)
        other.train(1)
    return train(one, epochs)


# Scripts without Opacus's optimiser.


def by_hand(step, seed, number, mode=True):
    """Train with steps written by hand, which claim ε = 1."""
    torch.manual_seed(seed)
    canaries = Canaries(table(2 * number), number, seed=seed, out=None)
    model = network(200).train(mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.watch(model, optimizer)
    for x, y in [*DataLoader(canaries.train_set, 80, shuffle=True)] * 4:
        step(model, optimizer, x, y)
    return canaries.audit(model, 1.0, DELTA)


def clip_accumulated(model, optimizer, x, y):
    """Accumulate four small batches, and clip once."""
    optimizer.zero_grad()
    for some, labels in zip(x.tensor_split(4), y.tensor_split(4), strict=True):
        (cross_entropy(model(some), labels) / 4).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for p in model.parameters():
        p.grad += torch.randn_like(p) / len(x)
    optimizer.step()


def in_eval_mode(model, optimizer, x, y):
    private_step(model.eval(), optimizer, x, y, noise=4.0)


def without_noise(model, optimizer, x, y):
    private_step(model, optimizer, x, y, noise=0.0)


class Mistake(NamedTuple):
    """A mistake: how a script makes it, and words of the sentence that names it."""

    plant: Callable
    named: str | None  # None if only a refuted claim shows it
    options: dict | None = None


MISTAKES = {
    "none": Mistake(plain, None),
    "noise off": Mistake(silent, "released without noise"),
    "noise halved": Mistake(halved, "times the standard deviation"),
    "noise on a part of the parameters": Mistake(
        noise_on_one_part, "2 of 4 parameters were released without noise"
    ),
    "gradients not clipped": Mistake(unclipped, "gradients of single records were not clipped"),
    "clipped after averaging": Mistake(
        clipped_after_averaging, "gradients of single records were not clipped"
    ),
    "each layer clipped to C": Mistake(
        clipped_by_layer, "gradients of single records were not clipped"
    ),
    "per-layer clipping, noise of one layer": Mistake(
        noise_of_one_layer,
        "times the standard deviation",
        {"clipping": "per_layer", "clip": [0.5] * 4},
    ),
    "the same noise in every step": Mistake(same_noise, "the noise of successive steps"),
    "divided by the drawn batch size": Mistake(
        divided_by_drawn_size, "of the noise varies from step to step"
    ),
    "mean over the batch in a layer": Mistake(
        plain, "depends on the other records of its batch", {"layer": Centred}
    ),
    "a record with infinite gradient": Mistake(
        plain, "scores are NaN", {"infinite": float("inf"), "kind": "blank"}
    ),
    "shuffled, accounted as Poisson": Mistake(plain, "not Poisson samples", {"poisson": False}),
    "the same batches in every epoch": Mistake(fixed_batches, "not Poisson samples"),
    "last batch dropped": Mistake(last_batch_dropped, "drop_last leaves out the rest"),
    "original data loaded": Mistake(canaries_lost, "no canary was recognised"),
    "batches twice as large": Mistake(larger_batches, "accountant assumed batches"),
    "trained six times as long": Mistake(many_epochs, "the accountant counted"),
    "validation data trained on": Mistake(validated_on, "held_out"),
    "base optimiser stepped": Mistake(
        by_base_optimizer, "made by SGD.step()", {"kind": "mislabelled"}
    ),
    "own ε, with half the sampling rate": Mistake(plain, "observed steps with noise multiplier"),
    "average audited, last weights released": Mistake(
        average_in_place_of_the_model, "the weights may not be those of the end"
    ),
    "average of a copy without privacy": Mistake(
        average_without_privacy, "a model with the same parameters was trained"
    ),
    "copy trained beside without privacy": Mistake(
        copy_beside, "a model with the same parameters was trained"
    ),
    "copy audited in place of the model": Mistake(
        copy_audited, "the weights may not be those of the end"
    ),
    "frozen layer trained without privacy": Mistake(
        frozen_then_trained, "2 of 4 parameters changed", {"frozen": (0,)}
    ),
    "stopped by the canaries' loss": Mistake(
        stopped_by_canaries, "the model was evaluated on canaries"
    ),
    "best of three trainings": Mistake(best_of_three, "3 trainings were watched"),
    "by hand: accumulated, clipped once": Mistake(
        clip_accumulated, "no gradients of single records"
    ),
    "by hand: trained in eval mode": Mistake(in_eval_mode, "it was trained in eval mode"),
    "by hand: no noise": Mistake(without_noise, "noise and clipping of an optimiser that is not"),
    "noise of an earlier run": Mistake(None, "that of an earlier run"),
}
OF_TRAINING = {
    by_base_optimizer,
    average_in_place_of_the_model,
    average_without_privacy,
    copy_beside,
    copy_audited,
    frozen_then_trained,
    stopped_by_canaries,
    best_of_three,
}
BY_HAND = {clip_accumulated, in_eval_mode, without_noise}


def run(name, seed, epochs=4, number=300, **options):
    """Return the audit of one run with a mistake."""
    plant, _, own = MISTAKES[name]
    if plant in BY_HAND:
        return by_hand(plant, seed, number)
    if plant is None:
        return reused_seed(seed, number)
    one = script(seed=seed, number=number, **options, **(own or {}))
    one.canaries.held_out = table(120, seed=HELD_OUT)
    if plant in OF_TRAINING:
        model = plant(one, epochs)
    else:
        plant(one)
        model = train(one, epochs)
    if name.startswith("own ε"):
        return one.canaries.audit(model, epsilon_of(one, rate=0.5), DELTA)
    stated = None if one.engine.accountant.history else 1.0
    return one.canaries.audit(model, stated, DELTA, engine=one.engine)


def epsilon_of(one, rate):
    """Return ε of the steps with another sampling rate."""
    own = copy.deepcopy(one.engine.accountant)
    own.history = [(noise, rate * share, steps) for noise, share, steps in own.history]
    return own.get_epsilon(DELTA)


def reused_seed(seed, number=300):
    """Return the audit of the second of two runs with the same noise, in one folder."""
    with tempfile.TemporaryDirectory() as folder:
        for coins in (2 * seed, 2 * seed + 1):
            one = script(seed=coins, out=folder, number=number)
            one.optimizer.generator = torch.Generator().manual_seed(seed)
            found = one.canaries.audit(one.train(4).model, None, DELTA, engine=one.engine)
    return found


def outcome(name, audit):
    """Return what an audit says about a mistake: refuted, named, listed or silent."""
    named = MISTAKES[name].named
    if audit.verdict == "violated":
        return "refuted"
    if named and any(named in text for text in audit.warnings):
        return "named"
    if named and any(named in text for text in audit["limits"]):
        return "listed"
    return "silent"


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--noise", type=float, nargs="*", default=[1.0])
    parser.add_argument("--number", type=int, nargs="*", default=[300])
    parser.add_argument("--only", nargs="*", default=list(MISTAKES), help="names of mistakes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for number, noise in itertools.product(options.number, options.noise):
        say(f"{number} canaries, σ = {noise:g}, {options.seeds} seeds")
        say(f"{'mistake':40} | refuted | named | listed | silent | words")
        for name in options.only:
            seeds = range(options.seeds)
            each = Counter(outcome(name, run(name, s, noise=noise, number=number)) for s in seeds)
            counts = (each["refuted"], each["named"], each["listed"], each["silent"])
            cells = f"{counts[0]:7} | {counts[1]:5} | {counts[2]:6} | {counts[3]:6}"
            say(f"{name:40} | {cells} | {MISTAKES[name].named or ''}")


if __name__ == "__main__":
    main()
