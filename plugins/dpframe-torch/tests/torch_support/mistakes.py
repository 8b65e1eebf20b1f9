"""Mistakes of training scripts with Opacus, planted between `make_private` and the first step.

`python -m torch_support.mistakes --seeds 10`, in the folder of the tests, prints in how many runs
the claim was refuted at 95 %, and in how many the mistake was named.
"""

import argparse
import sys
import tempfile
import warnings

import torch
from dpframe_torch import Canaries
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from torch_support import Script, table

HELD_OUT = 99  # the seed of other data


def script(seed=0, noise=1.0, number=300, records=600, out=None, **options):
    torch.manual_seed(seed)
    canaries = Canaries(table(records), number, "random-gradient", seed=seed, out=out)
    return Script(canaries, noise=noise, batch=80, width=200, **options)


def silent(one):
    """Turn the noise off without telling the accountant."""
    with_noise(one, 0.0)


def halved(one):
    with_noise(one, 0.5)


def with_noise(one, factor):
    from opacus.optimizers import DPOptimizer

    def add_noise():
        optimizer.noise_multiplier, kept = (
            factor * optimizer.noise_multiplier,
            optimizer.noise_multiplier,
        )
        DPOptimizer.add_noise(optimizer)
        optimizer.noise_multiplier = kept

    optimizer = one.optimizer
    optimizer.add_noise = add_noise


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


def many_epochs(one):
    """Train for six times as many epochs as the accountant assumes."""
    hook = one.optimizer.step_hook
    count = iter(range(10**9))
    one.optimizer.attach_step_hook(lambda o: hook(o) if next(count) % 6 == 0 else None)


def larger_batches(one):
    """Draw Poisson batches twice as large as the accountant assumes."""
    sampler = one.loader.batch_sampler
    sampler.sample_rate, sampler.steps = 2 * sampler.sample_rate, len(one.loader)


def validated_on(one):
    """Also train on the validation data."""
    other = table(120, seed=HELD_OUT)
    for x, y in DataLoader(other, batch_size=40):
        one.optimizer.zero_grad()
        cross_entropy(one.model(x), y).backward()
        one.optimizer.step()


def plain(one):
    """Make no mistake."""


# The mistake, a word of the warning that names it, and options of the script.
MISTAKES = {
    "none": (plain, None, {}),
    "noise off": (silent, "released without noise", {}),
    "noise halved": (halved, "times the standard deviation", {}),
    "gradients not clipped": (unclipped, None, {}),
    "clipped after averaging": (clipped_after_averaging, None, {}),
    "shuffled, accounted as Poisson": (plain, "not Poisson samples", {"poisson": False}),
    "batches twice as large": (larger_batches, "accountant assumed batches", {}),
    "trained six times as long": (many_epochs, "the accountant counted", {}),
    "validation data trained on": (validated_on, "held_out", {}),
}


def run(name, seed, epochs=4, **options):
    """Return the audit of one run with a mistake."""
    plant, _, own = MISTAKES[name]
    one = script(seed=seed, **options, **own)
    one.canaries.held_out = table(120, seed=HELD_OUT)
    if plant is not validated_on:
        plant(one)
    one.canaries.watch(one.model, one.optimizer)
    if plant is validated_on:
        plant(one)
    return one.train(epochs, watch=False).audit()


def reused_seed(seed):
    """Return the audit of the second of two runs with the same noise, in one folder."""
    with tempfile.TemporaryDirectory() as folder:
        for coins in (2 * seed, 2 * seed + 1):
            one = script(seed=coins, out=folder)
            one.optimizer.generator = torch.Generator().manual_seed(seed)
            found = one.train(4).audit()
    return found


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--noise", type=float, nargs="*", default=[1.0, 2.0])
    parser.add_argument("--number", type=int, nargs="*", default=[300, 1_000])
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for number in options.number:
        for noise in options.noise:
            say(f"{number} canaries, σ = {noise:g}: refuted, named, other warnings")
            for name, (_, word, _) in MISTAKES.items():
                each = [
                    run(name, seed, noise=noise, number=number, records=2 * number)
                    for seed in range(options.seeds)
                ]
                refuted = sum(one.verdict == "violated" for one in each)
                named = sum(any(word and word in w for w in one.warnings) for one in each)
                others = {w for one in each for w in one.warnings if not (word and word in w)}
                say(" | ".join([f"  {name:32} {refuted:3} {named:3}", *sorted(others)]))
    named = sum(
        any("earlier run" in w for w in reused_seed(s).warnings) for s in range(options.seeds)
    )
    say(f"the same noise in two runs: named in {named}")


if __name__ == "__main__":
    main()
